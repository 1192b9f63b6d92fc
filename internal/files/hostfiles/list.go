package hostfiles

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/files"
)

// ListFiles returns a page of a directory's entries in the order of their names' bytes.
func (t *Tree) ListFiles(ctx context.Context, name, after string, limit int) ([]core.FileInfo, bool, error) {
	if limit <= 0 || limit > files.MaxPage {
		return nil, false, core.Invalid("limit", "a limit is 1 to %d", files.MaxPage)
	}
	name, err := clean("path", name)
	if err != nil {
		return nil, false, files.Failure(err, "path", name)
	}
	r, err := t.open()
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = r.Close() }()
	w := &walker{ctx: ctx, root: r, limit: limit}
	names, err := w.page(name, after, limit+1)
	if err != nil {
		return nil, false, files.Failure(err, "path", name)
	}
	for _, n := range names {
		if err := w.canceled(); err != nil {
			return nil, false, err
		}
		info, err := r.describe(join(name, n), n)
		if err != nil {
			return nil, false, files.Failure(err, "path", join(name, n))
		}
		if !w.add(info) {
			return w.files, true, nil
		}
	}
	return w.files, false, nil
}

// Walk returns a page of a tree.
func (t *Tree) Walk(ctx context.Context, name string, opts core.WalkOptions) ([]core.FileInfo, bool, error) {
	if opts.Limit <= 0 || opts.Limit > files.MaxPage {
		return nil, false, core.Invalid("limit", "a limit is 1 to %d", files.MaxPage)
	}
	if opts.Depth < 0 {
		return nil, false, core.Invalid("depth", "a depth is not negative")
	}
	name, err := clean("path", name)
	if err != nil {
		return nil, false, files.Failure(err, "path", name)
	}
	after, err := files.Below(name, opts.After)
	if err != nil {
		return nil, false, err
	}
	r, err := t.open()
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = r.Close() }()
	w := &walker{ctx: ctx, root: r, limit: opts.Limit}
	if opts.Depth == 0 {
		err = w.entry(name, path.Base(name), 0, true)
	} else {
		err = w.list(name, opts.Depth, after)
	}
	return w.files, w.more, files.Failure(err, "path", name)
}

// maxPageBytes bounds what the names of a page come to.
const maxPageBytes = 1 << 20

// walker makes one page of a tree, as the guest agent does: it finds its way back to where the page before ended.
type walker struct {
	ctx   context.Context
	root  *root
	limit int
	size  int
	files []core.FileInfo
	more  bool
}

// page returns the smallest names of a directory after one.
func (w *walker) page(dir, after string, limit int) ([]string, error) {
	d, _, err := w.root.content(dir, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	return files.Smallest(func() ([]string, error) {
		if err := w.canceled(); err != nil {
			return nil, err
		}
		return d.Readdirnames(1024)
	}, after, limit)
}

// canceled says so when the caller has gone: a directory may be of any size.
func (w *walker) canceled() error {
	if err := w.ctx.Err(); err != nil {
		return core.Wrap(core.CodeCanceled, err, "the call was canceled")
	}
	return nil
}

// list adds a directory's entries, from behind a path that is given by its names.
func (w *walker) list(dir string, depth int, after []string) error {
	last := ""
	if len(after) > 0 {
		last = after[0]
		full := join(dir, last)
		if info, err := w.root.describe(full, last); err == nil && info.Type == core.FileDirectory && depth > 1 {
			if err := w.below(full, depth-1, after[1:]); err != nil {
				return err
			}
		}
	}
	for !w.more {
		names, err := w.page(dir, last, w.limit-len(w.files)+1)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if err := w.entry(join(dir, name), name, depth, false); err != nil || w.more {
				return err
			}
		}
		last = names[len(names)-1]
	}
	return nil
}

// entry adds one entry and what is below it.
func (w *walker) entry(full, name string, depth int, alone bool) error {
	if err := w.canceled(); err != nil {
		return err
	}
	info, err := w.root.describe(full, name)
	if errors.Is(err, fs.ErrNotExist) && !alone {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Type == core.FileSymlink {
		info.Final = w.root.final(full)
	}
	if !w.add(info) {
		w.more = true
		return nil
	}
	if depth > 1 && info.Type == core.FileDirectory {
		return w.below(full, depth-1, nil)
	}
	return nil
}

// below lists a directory inside the tree; one whose path is too long for the kernel has nothing to show.
func (w *walker) below(dir string, depth int, after []string) error {
	err := w.list(dir, depth, after)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG) {
		return nil
	}
	return err
}

// add puts a file on the page, unless that is full.
func (w *walker) add(info core.FileInfo) bool {
	size := len(info.Name) + len(info.Path) + len(info.Target)
	if info.Final != nil {
		size += len(info.Final.Path)
	}
	if len(w.files) >= w.limit || w.size+size > maxPageBytes && len(w.files) > 0 {
		return false
	}
	w.size += size
	w.files = append(w.files, info)
	return true
}
