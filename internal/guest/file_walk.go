package guest

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"shoal/internal/core"
	"shoal/internal/files"
	"shoal/internal/guest/wire"
)

const (
	// maxWalkBytes bounds what a page of a walk, or of a directory, may come to as JSON, in which a byte takes six at most.
	maxWalkBytes = wire.MaxPayload / 2
	jsonSwell    = 6
	// fileBytes is what a file takes without its names.
	fileBytes = 400
)

// walk returns a page of a tree. It keeps nothing between pages: a page finds its way back to where the one before ended, so what
// changes meanwhile is seen or not, but nothing is told twice.
func (c *session) walk(q wire.WalkRequest) (wire.WalkReply, error) {
	root, err := c.srv.absolute("path", q.Path)
	if err != nil {
		return wire.WalkReply{}, err
	}
	if q.Limit <= 0 || q.Limit > maxListFiles {
		return wire.WalkReply{}, core.Invalid("limit", "a limit is 1 to %d", maxListFiles)
	}
	if q.Depth < 0 {
		return wire.WalkReply{}, core.Invalid("depth", "a depth is not negative")
	}
	w := &walker{c: c, limit: q.Limit}
	if q.Depth == 0 {
		st, err := os.Lstat(root)
		if err == nil {
			w.add(root, path.Base(root), st)
		}
		return w.reply, fileError(err, "path", root)
	}
	after, err := files.Below(root, string(q.After))
	if err != nil {
		return wire.WalkReply{}, err
	}
	if err := w.list(root, q.Depth, after); err != nil {
		return wire.WalkReply{}, fileError(err, "path", root)
	}
	return w.reply, nil
}

// walker makes one page.
type walker struct {
	c     *session
	limit int
	size  int
	names names
	reply wire.WalkReply
}

// list adds a directory's entries with depth levels, from behind a path that is given by its names.
func (w *walker) list(dir string, depth int, after []string) error {
	last := ""
	if len(after) > 0 {
		last = after[0]
		full := join(dir, last)
		if st, err := os.Lstat(full); err == nil && st.IsDir() && depth > 1 {
			if err := w.below(full, depth-1, after[1:]); err != nil {
				return err
			}
		}
	}
	for !w.reply.More {
		page, err := smallest(dir, last, w.limit-len(w.reply.Files)+1)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, name := range page {
			if err := w.entry(join(dir, name), name, depth); err != nil || w.reply.More {
				return err
			}
		}
		last = page[len(page)-1]
	}
	return nil
}

// entry adds one entry and what is below it. One that has gone meanwhile is left out.
func (w *walker) entry(full, name string, depth int) error {
	if err := w.c.ctx.Err(); err != nil {
		return broken(err)
	}
	st, err := os.Lstat(full)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !w.add(full, name, st) {
		w.reply.More = true
		return nil
	}
	if depth > 1 && st.IsDir() {
		return w.below(full, depth-1, nil)
	}
	return nil
}

// below lists a directory inside the tree: one that has gone or become something else, or whose path is too long for the kernel, has
// nothing to show.
func (w *walker) below(dir string, depth int, after []string) error {
	err := w.list(dir, depth, after)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG) {
		return nil
	}
	return err
}

// add describes a file, unless the page is full.
func (w *walker) add(full, name string, st fs.FileInfo) bool {
	if len(w.reply.Files) >= w.limit {
		return false
	}
	i := fileInfo(full, st, &w.names)
	i.Name = wire.Bytes(name)
	if st.Mode().Type() == fs.ModeSymlink {
		i.Final = finalOf(full)
	}
	size := sizeOf(&i)
	if w.size+size > maxWalkBytes && len(w.reply.Files) > 0 {
		return false
	}
	w.size += size
	w.reply.Files = append(w.reply.Files, i)
	return true
}

// sizeOf is what a file comes to as JSON at most.
func sizeOf(i *wire.FileInfo) int {
	size := len(i.Name) + len(i.Path) + len(i.Target) + len(i.Owner) + len(i.Group)
	if i.Final != nil {
		size += len(i.Final.Path)
	}
	return size*jsonSwell + fileBytes
}

// finalOf returns what a link leads to; nil if it leads nowhere, or in a circle.
func finalOf(name string) *wire.FinalFile {
	target, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil
	}
	st, err := os.Lstat(target)
	if err != nil {
		return nil
	}
	// What comes of a link is never one itself, unless it was just replaced.
	i := wire.FinalFile{Path: wire.Bytes(target), Type: string(core.FileOther)}
	switch {
	case st.Mode().IsRegular():
		i.Type = string(core.FileRegular)
	case st.IsDir():
		i.Type = string(core.FileDirectory)
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		i.Mode = sys.Mode & 0o7777
	}
	return &i
}

// join puts a name below a directory. Unlike path.Join it leaves ".." as it is.
func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }
