package archive

import (
	"path"
	"strings"

	"shoal/internal/core"
)

const (
	maxPatterns = 64
	maxPattern  = 1024
)

// exclude is what an archive leaves out.
type exclude struct {
	// names match one name, paths what is below the root.
	names, paths []string
}

// parseExclude checks patterns.
func parseExclude(patterns []string) (exclude, error) {
	var e exclude
	if len(patterns) > maxPatterns {
		return e, core.Invalid("exclude", "at most %d patterns can be given", maxPatterns)
	}
	for _, p := range patterns {
		p = strings.TrimSuffix(strings.TrimPrefix(p, "./"), "/")
		if _, err := path.Match(p, ""); err != nil || p == "" || len(p) > maxPattern {
			return e, core.Invalid("exclude", "a pattern is a name or a path below the root, of at most %d bytes, with * ? and [] as in a shell", maxPattern)
		}
		if anchored, ok := strings.CutPrefix(p, "/"); ok {
			e.paths = append(e.paths, anchored)
		} else if strings.Contains(p, "/") {
			e.paths = append(e.paths, p)
		} else {
			e.names = append(e.names, p)
		}
	}
	return e, nil
}

// match reports whether a file is left out.
func (e exclude) match(rel, name string) bool {
	for _, p := range e.names {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	for _, p := range e.paths {
		if ok, _ := path.Match(p, rel); ok {
			return true
		}
	}
	return false
}
