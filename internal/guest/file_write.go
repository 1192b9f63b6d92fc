package guest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/files"
	"shoal/internal/guest/wire"
)

// writeFile writes a whole file: the reply lets the data begin, and a second one says that it stands.
func (c *session) writeFile(q wire.WriteRequest) error {
	name, acc, err := c.target(q)
	if err != nil {
		return err
	}
	w, err := openWrite(name, q, acc)
	if err != nil {
		return fileError(err, "path", name)
	}
	defer w.abort()
	// A device or fifo may take nothing for a long time.
	defer context.AfterFunc(c.ctx, func() { _ = w.f.Close() })()
	if err := c.reply(wire.Empty{}); err != nil {
		return err
	}
	for {
		b, end, err := c.data()
		if err != nil {
			return err
		}
		if end {
			break
		}
		if _, err := w.f.Write(b); err != nil {
			// The error goes out now, and the rest of the data is thrown away so that the connection can be kept.
			fault := wire.FaultOf(fileError(err, "path", name))
			if err := c.send(wire.FrameError, fault); err != nil {
				return broken(err)
			}
			return c.discard()
		}
	}
	if err := w.commit(); err != nil {
		return fileError(err, "path", name)
	}
	st, err := os.Lstat(name)
	if err != nil {
		return fileError(err, "path", name)
	}
	return c.reply(fileInfo(name, st, &names{}))
}

// write is a file that is being written: beside its place, to be moved there when it is whole, or in place for what
// can't be replaced.
type write struct {
	f *os.File
	// temp is the name of the file beside; empty if it is written in place.
	temp, final string
	// exclusive says that nothing may be replaced, appended that what is there stays in front of what is written.
	exclusive, appended bool
	done                bool
}

// openWrite decides how a file is written. A symbolic link is followed, as cp does. An existing file keeps mode and
// owner unless they were given.
func openWrite(name string, q wire.WriteRequest, acc account) (*write, error) {
	final, err := followLinks(name)
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o644)
	if q.Mode != 0 {
		mode = permissions(q.Mode)
	}
	uid, gid := int(acc.uid), int(acc.gid)
	st, err := os.Lstat(final)
	appended := q.Append && err == nil && st.Mode().IsRegular()
	switch {
	case q.Append && q.Exclusive:
		return nil, core.Invalid("append", "what is not there has no end to add to")
	case err == nil && q.Exclusive:
		return nil, fs.ErrExist
	case err == nil && st.IsDir():
		return nil, syscall.EISDIR
	case err == nil && st.Mode().Type() == fs.ModeSocket:
		return nil, core.Invalid("path", "it is a socket: %s", quote(name))
	case err == nil && (!st.Mode().IsRegular() || virtual(final)):
		return openInPlace(final)
	case err == nil:
		sys := st.Sys().(*syscall.Stat_t)
		if q.User == "" {
			uid, gid = int(sys.Uid), int(sys.Gid)
		}
		if q.Mode == 0 {
			mode = permissions(sys.Mode)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case q.Parents:
		if err := makeParents(path.Dir(final), acc); err != nil {
			return nil, err
		}
	}
	w := &write{final: final, exclusive: q.Exclusive, appended: appended, temp: tempBeside(final, err == nil)}
	if w.f, err = os.OpenFile(w.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		err = w.f.Chown(uid, gid)
	}
	if err == nil {
		err = w.f.Chmod(mode)
	}
	if err != nil {
		w.abort()
		return nil, err
	}
	return w, nil
}

// tempBeside returns a name beside a file for what will replace it; there says that there is something to replace.
func tempBeside(name string, there bool) string {
	prefix := files.TempNew
	if there {
		prefix = files.TempOld
	}
	return path.Dir(name) + "/" + prefix + strings.ToLower(rand.Text())
}

// openInPlace opens a device, a fifo or a file of a virtual filesystem. A fifo without a reader fails.
func openInPlace(name string) (*write, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	return &write{f: f}, nil
}

// virtual reports whether a file lives where none can be made beside it.
func virtual(name string) bool {
	var st unix.Statfs_t
	if unix.Statfs(name, &st) != nil {
		return false
	}
	switch st.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.CGROUP_SUPER_MAGIC:
		return true
	}
	return false
}

// followLinks returns where a path leads that may be a symbolic link, also one whose target does not exist yet.
func followLinks(name string) (string, error) {
	for range 40 {
		target, err := os.Readlink(name)
		if err != nil {
			return name, nil //nolint:nilerr // it is no link, or what is wrong shows when it is opened
		}
		if strings.HasPrefix(target, "/") {
			name = target
		} else {
			name = path.Dir(name) + "/" + target
		}
	}
	return "", syscall.ELOOP
}

// untouched fails if what lies at the name beside is not the file that was written, or has another size: it may have lain there for long, in
// a directory that others can write to. Who owns the file can change it before it is put in its place as well as after.
func (w *write) untouched(size int64) error {
	ours, err := w.f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(w.temp)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !os.SameFile(ours, there) || ours.Size() != size {
		return conflict("path", "somebody in the sandbox has changed, moved or removed what had come of this file: it is thrown away")
	}
	return nil
}

// commit makes the file appear, durably.
func (w *write) commit() error {
	if w.temp == "" {
		w.done = true
		return w.f.Close()
	}
	// Nothing is synced, as by any program that copies files: what outlives a loss of the machine's power is on its disk some
	// seconds later. Two syncs a file made thousands of small files take ten times as long.
	if w.appended {
		err := appendTo(w.temp, w.final)
		w.abort()
		return err
	}
	if w.exclusive {
		// Unlike a rename, a link fails where there is something already; the name beside is then removed.
		err := os.Link(w.temp, w.final)
		w.abort()
		return err
	}
	err := os.Rename(w.temp, w.final)
	if errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EXDEV) {
		// Something is mounted on the file: only its content can be replaced.
		err = copyOver(w.temp, w.final)
		w.abort()
		return err
	}
	if err != nil {
		return err
	}
	w.done = true
	return w.f.Close()
}

func copyOver(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

// appendTo adds a file's content to the end of another. If it doesn't fit, the other is cut off where it ended.
func appendTo(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	st, err := dst.Stat()
	if err != nil {
		return errors.Join(err, dst.Close())
	}
	n, err := io.Copy(dst, src)
	if err != nil && n > 0 {
		if now, statErr := dst.Stat(); statErr == nil && now.Size() == st.Size()+n { // nobody else has written meanwhile
			err = errors.Join(err, dst.Truncate(st.Size()))
		}
	}
	return errors.Join(err, dst.Close())
}

// abort throws away what has been written, unless it was committed.
func (w *write) abort() {
	if w.done {
		return
	}
	w.done = true
	_ = w.f.Close()
	if w.temp != "" {
		_ = os.Remove(w.temp)
	}
}

// syncFiles flushes all that programs have written, so that whoever looks at the tree from outside finds it there.
func syncFiles(c *session, _ wire.Empty) (wire.Empty, error) {
	if c.srv.cfg.Init { // Otherwise the kernel is not the sandbox's own, and others' to flush.
		unix.Sync()
	}
	return wire.Empty{}, nil
}
