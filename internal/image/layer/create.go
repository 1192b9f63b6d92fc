package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// create makes what an entry says, in place of whatever has its name. A directory that is there already stays, with what is in it.
func (t *Tree) create(path string, hdr *tar.Header, content io.Reader) error {
	if path == "" {
		return t.rootEntry(hdr)
	}
	above, base := split(path)
	d, err := t.parent(above)
	if err != nil {
		return err
	}
	if hdr.Typeflag == tar.TypeLink {
		return t.link(path, d, base, hdr)
	}
	if err := t.clear(d, base, hdr.Typeflag == tar.TypeDir); err != nil {
		return failed("replace", path, err)
	}
	switch hdr.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		err = t.file(path, d, base, hdr, content)
	case tar.TypeDir:
		err = t.directory(path, d, base, hdr)
	case tar.TypeSymlink:
		err = symlink(d, base, hdr)
	case tar.TypeFifo:
		err = fifo(d, base, hdr)
	default:
		err = refuse("%s is of a type that is not known (%q)", clip(path), string(rune(hdr.Typeflag)))
	}
	if err != nil {
		return failed("make", path, err)
	}
	t.made[t.key(d, base)] = struct{}{}
	return nil
}

// clear removes what is in the way. A directory is not in a directory's.
func (t *Tree) clear(d directory, base string, isDir bool) error {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	if isDir && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil
	}
	return t.remove(d.fd, base, 0)
}

// rootEntry gives the root itself its owner and mode.
func (t *Tree) rootEntry(hdr *tar.Header) error {
	if hdr.Typeflag != tar.TypeDir {
		return refuse("the root of the image is no directory")
	}
	d, err := t.dir("")
	if err == nil {
		err = setMeta(d.fd, hdr)
	}
	if err != nil {
		return failed("set the owner of", "/", err)
	}
	t.times[d.ino] = dirTime{times: timesOf(hdr), explicit: true}
	return nil
}

func (t *Tree) directory(path string, d directory, base string, hdr *tar.Header) error {
	if err := unix.Mkdirat(d.fd, base, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	fd, err := unix.Openat(d.fd, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &st), setMeta(fd, hdr)); err != nil {
		return err
	}
	t.times[st.Ino] = dirTime{path: path, times: timesOf(hdr), explicit: true}
	return nil
}

func (t *Tree) file(path string, d directory, base string, hdr *tar.Header, content io.Reader) (err error) {
	if hdr.Size < 0 || hdr.Size > t.limits.Bytes-t.bytes {
		return tooLarge(t.limits.Bytes)
	}
	fd, err := unix.Openat(d.fd, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if err := t.fill(fd, hdr.Size, content); err != nil {
		return failed("write", path, err)
	}
	if err := setMeta(fd, hdr); err != nil {
		return err
	}
	return setTimes(fd, timesOf(hdr))
}

// block is the unit in which a file is sparse: the page of most filesystems.
const block = 4096

// zeros is only ever read.
var zeros [block]byte

// fill writes a file's content and leaves out blocks of zeros: what was sparse stays so, and more becomes it.
func (t *Tree) fill(fd int, size int64, content io.Reader) error {
	at, end := int64(0), int64(0)
	for at < size {
		buf := t.buf[:min(int64(len(t.buf)), size-at)]
		if _, err := io.ReadFull(content, buf); err != nil {
			return malformed(err)
		}
		if err := t.room(int64(len(buf))); err != nil {
			return err
		}
		for len(buf) > 0 {
			n := run(buf)
			if n > 0 {
				if err := writeAll(fd, buf[:n], at); err != nil {
					return err
				}
				end = at + int64(n)
			} else {
				n = hole(buf)
			}
			at, buf = at+int64(n), buf[n:]
		}
	}
	if end < size {
		return unix.Ftruncate(fd, size)
	}
	return nil
}

// run returns how many bytes there are before the first block of zeros, hole how many blocks of zeros, in bytes.
func run(buf []byte) int {
	for n := 0; n < len(buf); n += block {
		if isZero(buf[n:]) {
			return n
		}
	}
	return len(buf)
}

func hole(buf []byte) int {
	n := 0
	for n < len(buf) && isZero(buf[n:]) {
		n += block
	}
	return min(n, len(buf))
}

// isZero reports whether the first block of buf is all zeros.
func isZero(buf []byte) bool {
	n := min(len(buf), block)
	return bytes.Equal(buf[:n], zeros[:n])
}

func writeAll(fd int, buf []byte, at int64) error {
	for len(buf) > 0 {
		n, err := unix.Pwrite(fd, buf, at)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		buf, at = buf[n:], at+int64(n)
	}
	return nil
}

// How often the free space is looked at, and how long a pool that is growing is waited for.
const (
	lookEvery = 16 << 20
	growWait  = 5 * time.Second
)

// room counts bytes toward the limits and sees to it that the tree's filesystem keeps some space free: sandboxes write in it.
func (t *Tree) room(n int64) error {
	t.bytes += n
	if t.unseen += n; t.unseen < lookEvery {
		return nil
	}
	t.unseen = 0
	for deadline := time.Now().Add(t.patience); ; time.Sleep(50 * time.Millisecond) {
		var st unix.Statfs_t
		if err := unix.Fstatfs(t.root, &st); err != nil {
			return err
		}
		if int64(st.Bavail)*st.Bsize >= t.limits.MinFree {
			return nil
		}
		if time.Now().After(deadline) {
			return core.Errorf(core.CodeExhausted, "there is no space left to unpack the image")
		}
	}
}

func tooLarge(most int64) error {
	return refuse("the image unpacks to more than %d MiB, which is the most that this server takes", most>>20)
}

// maxLink is the longest target of a link that there is.
const maxLink = 4095

func symlink(d directory, base string, hdr *tar.Header) error {
	if hdr.Linkname == "" || len(hdr.Linkname) > maxLink {
		return refuse("the link %s has a target of %d bytes", clip(hdr.Name), len(hdr.Linkname))
	}
	if err := unix.Symlinkat(hdr.Linkname, d.fd, base); err != nil {
		return err
	}
	times := timesOf(hdr)
	return errors.Join(
		unix.Fchownat(d.fd, base, hdr.Uid, hdr.Gid, unix.AT_SYMLINK_NOFOLLOW),
		unix.UtimesNanoAt(d.fd, base, times[:], unix.AT_SYMLINK_NOFOLLOW))
}

func fifo(d directory, base string, hdr *tar.Header) error {
	if err := unix.Mknodat(d.fd, base, unix.S_IFIFO|0o600, 0); err != nil {
		return err
	}
	times := timesOf(hdr)
	// Nothing but us changes the tree, and it was just made: the name is no link.
	return errors.Join(
		unix.Fchownat(d.fd, base, hdr.Uid, hdr.Gid, unix.AT_SYMLINK_NOFOLLOW),
		unix.Fchmodat(d.fd, base, uint32(hdr.Mode)&0o7777, 0),
		unix.UtimesNanoAt(d.fd, base, times[:], unix.AT_SYMLINK_NOFOLLOW))
}

// link makes a hard link: to a file of this layer or a lower one, or to a symbolic link itself. Its entry's owner, mode and times are
// those of the file, which has them.
func (t *Tree) link(path string, d directory, base string, hdr *tar.Header) error {
	target, err := cleanName(hdr.Linkname)
	if err != nil {
		return err
	}
	above, name := split(target)
	if target == "" {
		return refuse("%s is a hard link to the root", clip(path))
	}
	from, err := t.openIn(above, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return failed("the hard link's target", path, err)
	}
	defer func() { _ = unix.Close(from) }()
	var st, old unix.Stat_t
	if err := unix.Fstatat(from, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return failed("the hard link's target", path, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return refuse("%s is a hard link to a directory", clip(path))
	}
	if unix.Fstatat(d.fd, base, &old, unix.AT_SYMLINK_NOFOLLOW) != nil || old.Ino != st.Ino {
		err = t.clear(d, base, false)
		if err == nil {
			err = unix.Linkat(from, name, d.fd, base, 0)
		}
	}
	if err != nil {
		return failed("the hard link's target", path, err)
	}
	t.made[t.key(d, base)] = struct{}{}
	return nil
}
