// Package credential finds what looks like a credential in a file or a command line: by where it lies, such as ~/.netrc, and by its shape,
// such as a token with a well-known beginning.
//
// It tells where, on which line and of what kind, and never what: values leave this package only as digests, which tell whether two are the
// same. It finds likely ones, not all, and what it finds may be an example. Text is hostile: the time that it takes grows with its length
// alone. The package knows nothing of trees. Start reading here; shape.go and place.go have the tables.
package credential

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"

	"shoal/internal/core"
)

// maxFindings bounds what is found in one text.
const maxFindings = 100

// Finding is a likely credential.
type Finding struct {
	Kind core.CredentialKind
	// Line counts from 1; zero means the whole file.
	Line int
	// digest tells whether two are the same.
	digest [sha256.Size]byte
}

// span is a finding's place in a text.
type span struct {
	kind       core.CredentialKind
	start, end int
}

// Find returns the likely credentials in a file, by the lines' order. The path is absolute; the text may be the file's beginning only.
func Find(path string, text []byte) []Finding {
	var list []Finding
	if f, ok := byPlace(path, text); ok {
		list = append(list, f)
	}
	if looksBinary(text) {
		return list
	}
	spans := shapes(text)
	if holdsAssignments(path) {
		spans = append(spans, assignments(text)...)
	}
	slices.SortStableFunc(spans, func(a, b span) int { return a.start - b.start })
	line, at, end := 1, 0, 0
	for _, s := range spans {
		if s.start < end {
			continue // inside the one before
		}
		line += bytes.Count(text[at:s.start], []byte{'\n'})
		at, end = s.start, s.end
		if len(list) >= maxFindings {
			break
		}
		list = append(list, Finding{Kind: s.kind, Line: line, digest: sha256.Sum256(text[s.start:s.end])})
	}
	return list
}

// New returns those findings that are not among the ones of before, wherever they were.
func New(before, after []Finding) []Finding {
	type key struct {
		kind   core.CredentialKind
		digest [sha256.Size]byte
	}
	had := map[key]bool{}
	for _, f := range before {
		had[key{f.Kind, f.digest}] = true
	}
	return slices.DeleteFunc(slices.Clone(after), func(f Finding) bool { return had[key{f.Kind, f.digest}] })
}

// Mask takes what looks like a credential out of a command line, and says what kinds there were.
func Mask(command string) (string, []core.CredentialKind) {
	text := []byte(command)
	spans := append(shapes(text), assignments(text)...)
	spans = append(spans, options(text)...)
	slices.SortStableFunc(spans, func(a, b span) int { return a.start - b.start })
	var (
		out   strings.Builder
		kinds []core.CredentialKind
		at    int
	)
	for _, s := range spans {
		if s.start < at {
			at = max(at, s.end) // it goes on where the one before ends
			continue
		}
		out.WriteString(command[at:s.start])
		out.WriteString("[" + string(s.kind) + "]")
		at = s.end
		if !slices.Contains(kinds, s.kind) {
			kinds = append(kinds, s.kind)
		}
	}
	out.WriteString(command[at:])
	return out.String(), kinds
}

// looksBinary reports whether a text is none.
func looksBinary(text []byte) bool { return bytes.IndexByte(text[:min(len(text), 8<<10)], 0) >= 0 }
