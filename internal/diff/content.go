package diff

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

const (
	// chunk is how much is compared at a time, sparseFrom the smallest file in which holes are looked for.
	chunk      = 256 << 10
	sparseFrom = 1 << 20
	sector     = 512
)

// errChanged means that a file is not what it was a moment ago.
var errChanged = errors.New("the file has changed meanwhile")

// errEnough means that no more is read.
var errEnough = errors.New("too much was read already")

// same reports whether both sides have one file by one inode that has not changed since their histories parted. The time of change
// can't be set by anybody inside.
func (c *comparer) same(p pair) bool {
	a, b := p[before], p[after]
	return a.Inode == b.Inode && a.Size == b.Size && a.Modified == b.Modified && a.Changed == b.Changed &&
		!c.q.SharedBefore.IsZero() && a.Changed < c.q.SharedBefore.UnixNano()
}

// aspects says what is different of a file that is on both sides and of one type. unsure says that there may be more.
func (c *comparer) aspects(name string, p pair) (list []core.DiffAspect, unsure bool, err error) {
	a, b := p[before], p[after]
	switch a.Type {
	case core.FileRegular:
		same, err := c.sameContent(name, p)
		switch {
		case errors.Is(err, errEnough):
			c.note(name, "too much to read: its content was not compared")
			unsure = true
		case c.ctx.Err() != nil:
			return nil, false, c.canceled()
		case err != nil:
			c.note(name, unread(err)+": its content was not compared")
			unsure = true
		case !same:
			list = append(list, core.AspectContent)
		}
	case core.FileSymlink:
		was, werr := c.sides[before].scan.Readlink(name)
		now, nerr := c.sides[after].scan.Readlink(name)
		if err := errors.Join(werr, nerr); err != nil {
			c.note(name, unread(err)+": what it says was not compared")
			unsure = true
		} else if was != now {
			list = append(list, core.AspectTarget)
		}
	case core.FileOther:
		if a.Device != b.Device {
			list = append(list, core.AspectContent)
		}
	case core.FileDirectory:
	}
	if a.Mode != b.Mode {
		list = append(list, core.AspectMode)
	}
	if a.UID != b.UID || a.GID != b.GID {
		list = append(list, core.AspectOwner)
	}
	if a.Type == core.FileRegular || a.Type == core.FileDirectory {
		switch same, err := c.sameAttributes(name); {
		case err != nil:
			c.note(name, unread(err)+": its extended attributes were not compared")
			unsure = true
		case !same:
			list = append(list, core.AspectXattrs)
		}
	}
	return list, unsure, nil
}

func hasContent(list []core.DiffAspect) bool { return slices.Contains(list, core.AspectContent) }

func (c *comparer) sameAttributes(name string) (bool, error) {
	was, werr := c.sides[before].scan.Attributes(name)
	now, nerr := c.sides[after].scan.Attributes(name)
	same := slices.EqualFunc(was, now, func(a, b core.Xattr) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) })
	return same, errors.Join(werr, nerr)
}

// sameContent compares two regular files byte by byte.
func (c *comparer) sameContent(name string, p pair) (bool, error) {
	size := p[after].Size
	if p[before].Size != size || size == 0 {
		return p[before].Size == size, nil
	}
	var f [2]*os.File
	for i := range f {
		var err error
		if f[i], err = c.sides[i].scan.Open(name); err != nil {
			return false, err
		}
		defer func() { _ = f[i].Close() }()
		if c.buffers[i] == nil {
			c.buffers[i] = make([]byte, chunk)
		}
	}
	holes := size >= sparseFrom && (p[before].Blocks*sector < size-chunk || p[after].Blocks*sector < size-chunk)
	for at := int64(0); at < size; {
		if err := c.ctx.Err(); err != nil {
			return false, err
		}
		if holes {
			if at = min(data(f[before], at, size), data(f[after], at, size)); at >= size {
				break
			}
		}
		n := int(min(chunk, size-at))
		if c.unread -= int64(2 * n); c.unread < 0 {
			return false, errEnough
		}
		for i := range f {
			if err := readAt(f[i], c.buffers[i][:n], at); err != nil {
				return false, err
			}
		}
		if !bytes.Equal(c.buffers[before][:n], c.buffers[after][:n]) {
			return false, nil
		}
		at += int64(n)
	}
	return true, nil
}

func readAt(f *os.File, b []byte, at int64) error {
	_, err := f.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		return errChanged
	}
	return err
}

// data returns the next place from one on at which a file has content; its size if there is none.
func data(f *os.File, at, size int64) int64 {
	next, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size
	case err != nil:
		return at // nobody can tell
	}
	return next
}
