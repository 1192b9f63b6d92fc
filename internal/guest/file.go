package guest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"shoal/internal/core"
	"shoal/internal/files"
	"shoal/internal/guest/wire"
)

// absolute returns the path that a request means: relative ones count from the default working directory.
func (s *Server) absolute(field string, p wire.Bytes) (string, error) {
	name := string(p)
	switch {
	case name == "":
		return "", core.Invalid(field, "a path is not empty")
	case strings.ContainsRune(name, 0):
		return "", core.Invalid(field, "a path has no zero byte")
	case !strings.HasPrefix(name, "/"):
		base := "/"
		if id := s.who(); id != nil && id.Workdir != "" {
			base = id.Workdir
		}
		name = base + "/" + name
	}
	// Cleaning would change what ".." after a symbolic link means, so only a trailing slash goes.
	for len(name) > 1 && strings.HasSuffix(name, "/") {
		name = name[:len(name)-1]
	}
	return name, nil
}

// fileError says in the caller's words what went wrong with a file.
func fileError(err error, field, name string) error { return files.Failure(err, field, name) }

func quote(name string) string { return files.Quote(name) }

// fileInfo describes what lstat has found.
func fileInfo(name string, st fs.FileInfo, n *names) wire.FileInfo {
	i := wire.FileInfo{
		Name: wire.Bytes(path.Base(name)), Path: wire.Bytes(name), Type: string(core.FileOther), Size: st.Size(),
		MTime: st.ModTime().UTC(),
	}
	switch mode := st.Mode(); {
	case mode.IsRegular():
		i.Type = string(core.FileRegular)
	case mode.IsDir():
		i.Type = string(core.FileDirectory)
	case mode.Type() == fs.ModeSymlink:
		i.Type = string(core.FileSymlink)
		if target, err := os.Readlink(name); err == nil {
			i.Target = wire.Bytes(target)
		}
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		i.Mode = sys.Mode & 0o7777
		i.UID, i.GID = int(sys.Uid), int(sys.Gid)
		i.Owner, i.Group = n.user(i.UID), n.group(i.GID)
		if sys.Mode&syscall.S_IFMT == syscall.S_IFREG {
			i.Version = files.Version(sys.Dev, sys.Ino, sys.Size, sys.Mtim.Nano(), sys.Ctim.Nano())
		}
	}
	return i
}

// stat describes a file; a symbolic link itself.
func (c *session) stat(q wire.PathRequest) (wire.FileInfo, error) {
	name, err := c.srv.absolute("path", q.Path)
	if err != nil {
		return wire.FileInfo{}, err
	}
	st, err := os.Lstat(name)
	if err != nil {
		return wire.FileInfo{}, fileError(err, "path", name)
	}
	return fileInfo(name, st, &names{}), nil
}

// readFile sends a file's content. The size is not trusted: files of /proc have none, and any file may change.
func (c *session) readFile(q wire.ReadRequest) error {
	name, err := c.srv.absolute("path", q.Path)
	if err != nil {
		return err
	}
	if q.Offset < 0 {
		return core.Invalid("offset", "an offset is not negative")
	}
	// A fifo without a writer must not hold the connection for ever.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return fileError(err, "path", name)
	}
	defer func() { _ = f.Close() }()
	// A device or fifo may have nothing to read for a long time.
	defer context.AfterFunc(c.ctx, func() { _ = f.Close() })()
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		err = syscall.EISDIR
	}
	if err == nil && q.Offset > 0 {
		_, err = f.Seek(q.Offset, io.SeekStart)
	}
	if err != nil {
		return fileError(err, "path", name)
	}
	if err := c.reply(fileInfo(name, st, &names{})); err != nil {
		return err
	}
	var r io.Reader = f
	if q.Length >= 0 {
		r = io.LimitReader(f, q.Length)
	}
	return c.sendData(r, name)
}

// sendData sends everything that r has, and its end.
func (c *session) sendData(r io.Reader, name string) error {
	buf := make([]byte, wire.DataChunk)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if err := c.w.Write(wire.FrameData, buf[:n]); err != nil {
				return broken(err)
			}
		}
		if errors.Is(err, io.EOF) {
			return broken(c.w.Write(wire.FrameEnd))
		}
		if err != nil {
			return fileError(err, "path", name)
		}
	}
}

// mkdir makes a directory.
func (c *session) mkdir(q wire.WriteRequest) (wire.Empty, error) {
	name, acc, err := c.target(q)
	if err != nil {
		return wire.Empty{}, err
	}
	if q.Parents {
		err := makeParents(path.Dir(name), acc)
		if err != nil {
			return wire.Empty{}, fileError(err, "path", name)
		}
	}
	mode := fs.FileMode(0o755)
	if q.Mode != 0 {
		mode = permissions(q.Mode)
	}
	err = makeDir(name, mode, acc)
	if errors.Is(err, fs.ErrExist) && q.Parents && !q.Exclusive {
		if st, statErr := os.Stat(name); statErr == nil && st.IsDir() {
			err = nil
		}
	}
	return wire.Empty{}, fileError(err, "path", name)
}

// target returns a write's absolute path and the owner of what it makes.
func (c *session) target(q wire.WriteRequest) (string, account, error) {
	name, err := c.srv.absolute("path", q.Path)
	if err != nil {
		return "", account{}, err
	}
	if q.Mode > 0o7777 {
		return "", account{}, core.Invalid("mode", "a mode is at most 07777")
	}
	user := q.User
	if id := c.srv.who(); user == "" && id != nil {
		user = id.User
	}
	acc, err := lookupAccount(user)
	return name, acc, err
}

func permissions(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}

func makeDir(name string, mode fs.FileMode, acc account) error {
	if err := os.Mkdir(name, 0o700); err != nil {
		return err
	}
	// Whoever may write in the directory above may have put a link in its place since.
	d, err := os.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		err = d.Chown(int(acc.uid), int(acc.gid))
	}
	return errors.Join(err, d.Chmod(mode), d.Close())
}

// own gives a new file to its owner. Without the right to do so it stays ours.
func own(name string, acc account) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(name, int(acc.uid), int(acc.gid))
}

// makeParents makes the missing directories above a file, with mode 0755.
func makeParents(dir string, acc account) error {
	if st, err := os.Stat(dir); err == nil {
		if !st.IsDir() {
			return syscall.ENOTDIR
		}
		return nil
	}
	if parent := path.Dir(dir); parent != dir {
		if err := makeParents(parent, acc); err != nil {
			return err
		}
	}
	if err := makeDir(dir, 0o755, acc); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// move renames a file.
func (c *session) move(q wire.MoveRequest) (wire.Empty, error) {
	from, err := c.srv.absolute("from", q.From)
	if err != nil {
		return wire.Empty{}, err
	}
	to, err := c.srv.absolute("to", q.To)
	if err != nil {
		return wire.Empty{}, err
	}
	if _, err := os.Lstat(from); err != nil {
		return wire.Empty{}, fileError(err, "from", from)
	}
	return wire.Empty{}, fileError(os.Rename(from, to), "to", to)
}

// remove removes a file, an empty directory, or a whole tree.
func (c *session) remove(q wire.RemoveRequest) (wire.Empty, error) {
	name, err := c.srv.absolute("path", q.Path)
	if err != nil {
		return wire.Empty{}, err
	}
	if path.Clean(name) == "/" {
		return wire.Empty{}, core.Invalid("path", "the root can't be removed")
	}
	// RemoveAll is content with a file that isn't there; the caller should hear of it.
	if _, err := os.Lstat(name); err != nil {
		return wire.Empty{}, fileError(err, "path", name)
	}
	if q.Recursive {
		err = os.RemoveAll(name)
	} else {
		err = os.Remove(name)
	}
	return wire.Empty{}, fileError(err, "path", name)
}
