package guest

import (
	"context"
	"errors"
	"hash"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"shoal/internal/core"
	"shoal/internal/files"
	"shoal/internal/guest/wire"
)

// maxLinkTarget is the kernel's bound of what a symbolic link says.
const maxLinkTarget = 4095

// linkFile makes a symbolic or a hard link.
func linkFile(c *session, q wire.LinkRequest) (wire.FileInfo, error) {
	name, acc, err := c.target(wire.WriteRequest{Path: q.Path, User: q.User})
	if err != nil {
		return wire.FileInfo{}, err
	}
	place, err := linkMaker(c, q, acc)
	if err != nil {
		return wire.FileInfo{}, err
	}
	if q.Parents {
		if err := makeParents(path.Dir(name), acc); err != nil {
			return wire.FileInfo{}, fileError(err, "path", name)
		}
	}
	if q.Replace {
		err = replaced(name, place)
	} else {
		err = place(name)
	}
	if err != nil {
		return wire.FileInfo{}, fileError(err, "path", name)
	}
	st, err := os.Lstat(name)
	if err != nil {
		return wire.FileInfo{}, fileError(err, "path", name)
	}
	return fileInfo(name, st, &names{}), nil
}

// linkMaker returns what makes the link at a name.
func linkMaker(c *session, q wire.LinkRequest, acc account) (func(name string) error, error) {
	if q.Hard {
		target, err := c.srv.absolute("target", q.Target)
		if err != nil {
			return nil, err
		}
		st, err := os.Lstat(target)
		if err == nil && st.IsDir() {
			err = core.Invalid("target", "a directory can't have a second name: %s", quote(target))
		}
		if err != nil {
			return nil, fileError(err, "target", target)
		}
		return func(name string) error { return os.Link(target, name) }, nil
	}
	target := string(q.Target)
	if target == "" || len(target) > maxLinkTarget || strings.ContainsRune(target, 0) {
		return nil, core.Invalid("target", "a symbolic link says 1 to %d bytes without a zero byte", maxLinkTarget)
	}
	return func(name string) error {
		if err := os.Symlink(target, name); err != nil {
			return err
		}
		return own(name, acc)
	}, nil
}

// replaced makes something beside its place and moves it there.
func replaced(name string, place func(name string) error) error {
	_, err := os.Lstat(name)
	temp := tempBeside(name, err == nil)
	if err := place(temp); err != nil {
		return err
	}
	err = os.Rename(temp, name)
	// Of two names of one file, rename keeps both.
	if rmErr := os.Remove(temp); err == nil && !errors.Is(rmErr, os.ErrNotExist) {
		err = rmErr
	}
	return err
}

// checksumOf reads a file and makes a digest of it.
func checksumOf(c *session, q wire.ChecksumRequest) (wire.ChecksumReply, error) {
	name, err := c.srv.absolute("path", q.Path)
	if err != nil {
		return wire.ChecksumReply{}, err
	}
	h := files.NewHash(core.ChecksumAlgorithm(q.Algorithm))
	if h == nil {
		return wire.ChecksumReply{}, core.Invalid("algorithm", "no such algorithm: %s", quote(q.Algorithm))
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return wire.ChecksumReply{}, fileError(err, "path", name)
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		err = syscall.EISDIR
	}
	if err == nil && !st.Mode().IsRegular() {
		err = core.Invalid("path", "only a regular file has a checksum: %s", quote(name))
	}
	if err != nil {
		return wire.ChecksumReply{}, fileError(err, "path", name)
	}
	n, err := digest(c.ctx, h, f)
	if err != nil {
		return wire.ChecksumReply{}, fileError(err, "path", name)
	}
	return wire.ChecksumReply{File: fileInfo(name, st, &names{}), Bytes: n, Digest: h.Sum(nil)}, nil
}

// digest reads to the end, or until the peer goes away.
func digest(ctx context.Context, h hash.Hash, r io.Reader) (total int64, err error) {
	buf := make([]byte, wire.DataChunk)
	for {
		if err := ctx.Err(); err != nil {
			return total, broken(err)
		}
		n, err := r.Read(buf)
		_, _ = h.Write(buf[:n]) // a hash takes everything
		total += int64(n)
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

func sortXattrs(list []wire.Xattr) {
	slices.SortFunc(list, func(a, b wire.Xattr) int { return strings.Compare(string(a.Name), string(b.Name)) })
}
