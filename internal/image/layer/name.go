package layer

import "strings"

// cleanName returns a name of a layer as a path below the root without "." and "..", the empty one for the root itself. A leading slash
// means the root of the image, as everywhere else.
func cleanName(name string) (string, error) {
	if len(name) > maxName {
		return "", refuse("the name %s has more than %d bytes", clip(name), maxName)
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", refuse("the name %s has a zero byte", clip(name))
	}
	parts := make([]string, 0, 16)
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return "", refuse("the name %s leads upwards: an image is not to name what is outside of it", clip(name))
		case len(part) > maxComponent:
			return "", refuse("the name %s has a part of more than %d bytes", clip(name), maxComponent)
		}
		parts = append(parts, part)
	}
	if len(parts) > maxDepth {
		return "", refuse("the name %s has more than %d parts", clip(name), maxDepth)
	}
	return strings.Join(parts, "/"), nil
}

// split parts a clean name into its directory, empty for the root, and its last part.
func split(path string) (dir, base string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// The names by which a layer hides what lower ones left.
const (
	whiteout = ".wh."
	// metaWhiteout begins names that are no files: opaque, and what old union filesystems kept for themselves.
	metaWhiteout = ".wh..wh."
	opaque       = ".wh..wh..opq"
)

// kind is what an entry's name means.
type kind int

// The kinds of names.
const (
	kindEntry kind = iota
	kindWhiteout
	kindOpaque
	kindIgnored
)

// classify says what a clean name means: an entry, or one that hides another, whose path is returned.
func classify(path string) (kind, string, error) {
	dir, base := split(path)
	for part := range strings.SplitSeq(dir, "/") {
		if strings.HasPrefix(part, metaWhiteout) {
			return kindIgnored, path, nil
		}
		if strings.HasPrefix(part, whiteout) {
			return kindEntry, path, refuse("the name %s goes through a whiteout", clip(path))
		}
	}
	switch {
	case base == opaque:
		return kindOpaque, dir, nil
	case strings.HasPrefix(base, metaWhiteout):
		return kindIgnored, path, nil
	case !strings.HasPrefix(base, whiteout):
		return kindEntry, path, nil
	}
	hidden := base[len(whiteout):]
	if hidden == "" || hidden == "." || hidden == ".." {
		return kindWhiteout, path, refuse("the whiteout %s hides nothing that has a name", clip(path))
	}
	if dir != "" {
		hidden = dir + "/" + hidden
	}
	return kindWhiteout, hidden, nil
}
