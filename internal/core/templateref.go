package core

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// TemplateRef is how a caller names a template: exactly one version of it by id, number or digest, or one that may be another
// tomorrow, by its name or a tag. Exactly one of ID, Name and Digest is set.
type TemplateRef struct {
	ID TemplateID
	// Name alone means its newest version that is ready.
	Name string
	// Version is a version of Name, and Tag what points to one; at most one of them is set.
	Version int64
	Tag     string
	// Digest means the newest version with this tree.
	Digest string
}

// LatestTag is the tag that nobody sets: it is the newest version that is ready.
const LatestTag = "latest"

var (
	digestPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`) })
	tagPattern    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`) })
)

// ParseTemplateRef reads a reference: an id, "name", "name@3", "name:tag" or "sha256:…". ok is false for what can be none.
func ParseTemplateRef(s string) (ref TemplateRef, ok bool) {
	if digestPattern().MatchString(s) {
		return TemplateRef{Digest: s}, true
	}
	if IsID(s) {
		return TemplateRef{ID: TemplateID(s)}, true
	}
	name, number, numbered := strings.Cut(s, "@")
	if numbered {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 1 || strconv.FormatInt(n, 10) != number {
			return TemplateRef{}, false
		}
		ref.Version = n
	} else if before, tag, tagged := strings.Cut(s, ":"); tagged {
		if name = before; !tagPattern().MatchString(tag) {
			return TemplateRef{}, false
		}
		if tag != LatestTag {
			ref.Tag = tag
		}
	}
	if CheckName("name", name) != nil {
		return TemplateRef{}, false
	}
	ref.Name = name
	return ref, true
}

// CheckTag returns an error that blames field unless s may be a tag that a caller sets.
func CheckTag(field, s string) error {
	switch {
	case s == LatestTag:
		return Invalid(field, "latest is always the newest version: take another tag")
	case !tagPattern().MatchString(s):
		return Invalid(field, "a tag has 1 to 63 characters of a-z, 0-9, dot, underscore and dash, and starts with a letter or digit")
	}
	return nil
}
