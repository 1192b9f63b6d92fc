package archive

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// errOutside means that a path leads out of the root.
var errOutside = errors.New("the path leads out of the directory")

const (
	// maxLinks bounds the links that one path leads through, maxName the bytes of the path.
	maxLinks = 40
	maxName  = 4096
)

// openDirectory opens a directory of a directory, and never what a link leads to. In gVisor O_DIRECTORY undoes O_NOFOLLOW, so it is not
// asked for: that is also why os.Root does not hold there.
func openDirectory(dir int, name string) (fd int, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFLNK:
		return -1, unix.ELOOP
	default:
		return -1, unix.ENOTDIR
	}
	if fd, err = openat(dir, name, unix.O_RDONLY|unix.O_NONBLOCK); err != nil {
		return -1, err
	}
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR // it was replaced meanwhile
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// beneath opens a directory below the root. Links are followed as far as they lead to what is inside; any other way out is errOutside.
// With create, what is missing of the path itself is made.
func (p *places) beneath(dir string, create bool) (*os.File, error) {
	if len(dir) > maxName {
		return nil, unix.ENAMETOOLONG
	}
	at, err := p.top()
	if err != nil {
		return nil, err
	}
	var done []string // where at is
	todo, linked := strings.Split(dir, "/"), 0
	for links := 0; len(todo) > 0; {
		part, own := todo[0], linked == 0 // what a link says is not made
		todo, linked = todo[1:], max(linked-1, 0)
		switch part {
		case "", ".":
			continue
		case "..":
			if len(done) == 0 {
				_ = at.Close()
				return nil, errOutside
			}
			// Up again from the root: a directory that was moved meanwhile may be anywhere.
			todo, linked = slices.Concat(done[:len(done)-1], todo), linked+len(done)-1
			done = nil
			_ = at.Close()
			if at, err = p.top(); err != nil {
				return nil, err
			}
			if links++; links > maxLinks {
				_ = at.Close()
				return nil, unix.ELOOP
			}
			continue
		}
		next, err := p.step(at, part, create && own)
		if errors.Is(err, unix.ELOOP) {
			var target string
			target, err = readlink(int(at.Fd()), part)
			links++
			switch {
			case err != nil:
			case strings.HasPrefix(target, "/"):
				err = errOutside
			case links > maxLinks:
				err = unix.ELOOP
			default:
				parts := strings.Split(target, "/")
				todo, linked = slices.Concat(parts, todo), linked+len(parts)
				continue
			}
		}
		_ = at.Close()
		if err != nil {
			return nil, err
		}
		at, done = next, append(done, part)
	}
	return at, nil
}

// step opens one directory of another, and makes it if it is missing and that is wanted.
func (p *places) step(at *os.File, name string, create bool) (*os.File, error) {
	dir := int(at.Fd())
	fd, err := openDirectory(dir, name)
	if create && errors.Is(err, fs.ErrNotExist) {
		if err = unix.Mkdirat(dir, name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		made := err == nil
		if fd, err = openDirectory(dir, name); err == nil && made {
			if err = p.own.fd(fd); err != nil {
				_ = unix.Close(fd)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// top opens the root anew.
func (p *places) top() (*os.File, error) {
	fd, err := unix.FcntlInt(p.root.Fd(), syscall.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "."), nil
}
