package diff

import (
	"bytes"
	"unicode/utf8"

	linediff "github.com/rogpeppe/go-internal/diff"

	"shoal/internal/core"
	"shoal/internal/diff/credential"
)

const (
	// maxHunkFile is how large a file may be whose lines are compared: all of it is then searched for credentials too.
	maxHunkFile = maxText
	// maxHunk and maxHunks bound the lines that are told of a file and of a page.
	maxHunk  = 64 << 10
	maxHunks = 1 << 20
)

// addHunks adds the lines that are different, if they were asked for, or says why there are none.
func (c *comparer) addHunks(f *core.FileDiff, p pair) {
	if !c.q.Hunks || !regular(p) {
		return
	}
	var text [2][]byte
	for i, e := range p {
		if e == nil || e.Size == 0 {
			continue
		}
		if e.Size > maxHunkFile {
			f.NoHunks = core.HunksTooLarge
			return
		}
		b, err := c.text(f.Path, p, i)
		if err != nil {
			f.NoHunks = core.HunksUnread
			return
		}
		if bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b) {
			f.NoHunks = core.HunksBinary
			return
		}
		if len(credential.Find(f.Path, b)) > 0 {
			f.NoHunks = core.HunksCredential
			return
		}
		text[i] = b
	}
	hunks := lines(text[before], text[after])
	switch {
	case len(hunks) > maxHunk:
		f.NoHunks = core.HunksTooLarge
	case c.hunks+len(hunks) > maxHunks:
		f.NoHunks = core.HunksPageFull
	default:
		f.Hunks = hunks
		c.hunks += len(hunks)
		c.size += len(hunks)
	}
}

// regular reports whether all that is at a path is regular files.
func regular(p pair) bool {
	for _, e := range p {
		if e != nil && e.Type != core.FileRegular {
			return false
		}
	}
	return true
}

// lines returns the hunks of a unified diff. The library compares in time that grows hardly faster than the texts do, whatever is in them.
func lines(was, now []byte) string {
	out := linediff.Diff("a", was, "b", now)
	for range 3 { // the names, which the caller knows
		_, rest, ok := bytes.Cut(out, []byte{'\n'})
		if !ok {
			return ""
		}
		out = rest
	}
	return string(out)
}
