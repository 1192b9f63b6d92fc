package hostfiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/files"
)

// ReadFile returns a regular file's content.
func (t *Tree) ReadFile(ctx context.Context, name string, offset, length int64) (core.FileInfo, io.ReadCloser, error) {
	if offset < 0 {
		return core.FileInfo{}, nil, core.Invalid("offset", "an offset is not negative")
	}
	info, f, err := t.content(name)
	if err != nil {
		return core.FileInfo{}, nil, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return core.FileInfo{}, nil, errors.Join(files.Failure(err, "path", name), f.Close())
	}
	var r io.Reader = f
	if length >= 0 {
		r = io.LimitReader(f, length)
	}
	return info, &body{ctx: ctx, name: name, r: r, f: f}, nil
}

// content opens a regular file and describes it.
func (t *Tree) content(name string) (core.FileInfo, *os.File, error) {
	name, err := clean("path", name)
	if err != nil {
		return core.FileInfo{}, nil, files.Failure(err, "path", name)
	}
	r, err := t.open()
	if err != nil {
		return core.FileInfo{}, nil, err
	}
	defer func() { _ = r.Close() }()
	f, st, err := r.content(name, false)
	if err != nil {
		return core.FileInfo{}, nil, files.Failure(err, "path", name)
	}
	return r.info(name, path.Base(name), &st), f, nil
}

// body is a file's content on its way.
type body struct {
	ctx  context.Context
	name string
	r    io.Reader
	f    *os.File
}

// Read reads on, unless the caller has gone.
func (b *body) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, core.Wrap(core.CodeCanceled, err, "the call was canceled")
	}
	n, err := b.r.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // io.EOF must be passed on as it is.
		err = core.Wrap(core.CodeDataLoss, err, "the file can't be read: %s", files.Quote(b.name))
	}
	return n, err
}

// Close closes the file.
func (b *body) Close() error { return b.f.Close() }

// Checksum reads a regular file and makes a digest of it.
func (t *Tree) Checksum(ctx context.Context, name string, algorithm core.ChecksumAlgorithm) (core.Checksum, error) {
	h := files.NewHash(algorithm)
	if h == nil {
		return core.Checksum{}, core.Invalid("algorithm", "no such algorithm: %s", files.Quote(string(algorithm)))
	}
	info, f, err := t.content(name)
	if err != nil {
		return core.Checksum{}, err
	}
	b := &body{ctx: ctx, name: name, r: f, f: f}
	defer func() { _ = b.Close() }()
	n, err := io.Copy(h, b)
	if err != nil {
		return core.Checksum{}, err
	}
	return core.Checksum{File: info, Bytes: n, Digest: h.Sum(nil)}, nil
}

// Xattrs returns the extended attributes of what a path leads to.
func (t *Tree) Xattrs(_ context.Context, name string) ([]core.Xattr, error) {
	name, err := clean("path", name)
	if err != nil {
		return nil, files.Failure(err, "path", name)
	}
	r, err := t.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	place, err := r.at(name, 0)
	if err != nil {
		return nil, files.Failure(err, "path", name)
	}
	defer func() { _ = place.Close() }()
	list, err := xattrsOf(selfPath(place), userXattr)
	return list, files.Failure(err, "path", name)
}

// userXattr reports whether an attribute is one that users set and see.
func userXattr(name string) bool { return strings.HasPrefix(name, files.UserXattrs) }

// xattrsOf reads the wanted attributes of an open file by the path that leads to it.
func xattrsOf(self string, wanted func(name string) bool) ([]core.Xattr, error) {
	buf := make([]byte, core.MaxXattrValue)
	n, err := unix.Listxattr(self, buf)
	if errors.Is(err, unix.ENOTSUP) {
		n, err = 0, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list attributes: %w", err)
	}
	list, total := []core.Xattr{}, 0
	for key := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if !wanted(key) {
			continue
		}
		n, err := unix.Getxattr(self, key, buf)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read an attribute: %w", err)
		}
		if total += len(key) + n; total > core.MaxXattrBytes {
			return nil, files.TooManyXattrs()
		}
		list = append(list, core.Xattr{Name: key, Value: append([]byte{}, buf[:n]...)})
	}
	slices.SortFunc(list, func(a, b core.Xattr) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}
