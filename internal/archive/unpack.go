package archive

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// UnpackOptions say how a tree is made.
type UnpackOptions struct {
	// UID and GID own what is made; below zero it stays ours.
	UID, GID int
	// KeepOwners takes the numbers that the archive has instead.
	KeepOwners bool
	// Gzip says that the stream is compressed.
	Gzip bool
	// Plain leaves setuid, setgid and sticky bits out.
	Plain bool
	// Made says that the directory is new, so that what the archive says of its root is meant for it.
	Made bool
	// Progress is told of each file and of content as it is written; it may be nil.
	Progress func(files, bytes int64)
}

// smallFile is up to which size a file is written at once; a larger one is written beside its place.
const smallFile = chunk

// Unpack makes what a tar stream holds in a directory that exists. Directories that are there stay and get what the archive says of
// them, anything else is replaced. Nothing is made outside: a name with .., or one that leads out through a link, ends it with
// code invalid. What was made until an error stays, but no file is half written.
func Unpack(ctx context.Context, r io.Reader, dir string, o UnpackOptions) (core.ArchiveReport, error) {
	root, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return core.ArchiveReport{}, err
	}
	defer func() { _ = root.Close() }()
	s, err := newStream(r, o.Gzip)
	if err != nil {
		return core.ArchiveReport{}, err
	}
	u := &unpacker{ctx: ctx, options: o, stream: s, tr: tar.NewReader(s), places: places{root: root, own: o.own()}}
	defer u.places.close()
	err = u.run()
	u.later.apply(&u.places, &u.report)
	if err == nil {
		// What comes after the end is padding.
		if _, rest := io.Copy(io.Discard, s); rest != nil {
			err = s.fault(rest)
		}
	}
	return u.ArchiveReport, err
}

func (o UnpackOptions) own() owner { return owner{o.UID, o.GID} }

// unpacker makes one tree.
type unpacker struct {
	report
	ctx     context.Context
	options UnpackOptions
	stream  *stream
	tr      *tar.Reader
	places  places
	later   later
	buf     []byte
	// sparse is what the files with holes come to, so far.
	sparse int64
}

func (u *unpacker) run() error {
	u.buf = make([]byte, chunk)
	for {
		if err := u.ctx.Err(); err != nil {
			return err
		}
		u.stream.ended = false
		h, err := u.tr.Next()
		if errors.Is(err, io.EOF) && u.stream.ended {
			return nil
		}
		if err != nil {
			return u.stream.fault(err)
		}
		if err := u.entry(h); err != nil {
			return err
		}
	}
}

// entry makes one entry.
func (u *unpacker) entry(h *tar.Header) error {
	name, err := inside(h.Name)
	if err != nil {
		return err
	}
	if u.options.KeepOwners && !u.owner(h).valid() {
		return core.Invalid("archive", "the archive has an impossible owner")
	}
	kind := h.Typeflag
	if kind == tar.TypeReg && strings.HasSuffix(h.Name, "/") {
		kind = tar.TypeDir // as archives of before POSIX have it
	}
	if name == "" {
		if kind == tar.TypeDir {
			u.Directories++
			return u.rootEntry(h)
		}
		return core.Invalid("archive", "the archive has a file without a name")
	}
	switch kind {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeDir:
		u.Directories++
		return u.directory(name, h)
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse, tar.TypeSymlink, tar.TypeLink:
	case tar.TypeFifo:
		u.skip(name, "it is a fifo")
		return nil
	case tar.TypeChar, tar.TypeBlock:
		u.skip(name, "it is a device")
		return nil
	default:
		u.skip(name, "it is of a type that is not known")
		// What is left of its content must not be taken for the archive's end.
		if _, err := io.Copy(io.Discard, u.tr); err != nil {
			return u.stream.fault(err)
		}
		return nil
	}
	at, err := u.places.find(name)
	if err != nil {
		return err
	}
	u.Files++
	u.progress(1, 0)
	switch kind {
	case tar.TypeSymlink:
		return u.symlink(at, h)
	case tar.TypeLink:
		return u.link(at, h)
	}
	return u.file(at, h)
}

// inside returns a name as it is below the root: without what means the root, and never with what could lead out.
func inside(name string) (string, error) {
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
		case "..":
			return "", core.Invalid("archive", "the archive leads out of the directory: %q", name)
		default:
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/"), nil
}

// rootEntry is what the archive says of the directory itself.
func (u *unpacker) rootEntry(h *tar.Header) error {
	if !u.options.Made {
		return nil
	}
	d, err := u.places.top()
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return u.dress(d, "", h)
}

// directory makes a directory, or takes one that is there; a link that leads to one inside is as good.
func (u *unpacker) directory(name string, h *tar.Header) error {
	at, err := u.places.find(name)
	if err != nil {
		return err
	}
	err = unix.Mkdirat(at.dir, at.base, 0o700)
	if errors.Is(err, fs.ErrExist) {
		var st unix.Stat_t
		if err := unix.Fstatat(at.dir, at.base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fault("stat", name, err)
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			err = nil
		case unix.S_IFLNK:
			if target, linkErr := u.places.openDir(name); linkErr == nil {
				return target.Close()
			}
			err = u.insteadOf(at)
		default:
			err = u.insteadOf(at)
		}
	}
	if err != nil {
		return fault("make directory", name, err)
	}
	d, err := u.places.enter(name)
	if err != nil {
		return err
	}
	return u.dress(d, name, h)
}

// insteadOf makes a directory where something else is.
func (u *unpacker) insteadOf(at place) error {
	if err := unix.Unlinkat(at.dir, at.base, 0); err != nil {
		return err
	}
	return unix.Mkdirat(at.dir, at.base, 0o700)
}

// dress gives a directory its owner and mode, and what can only be set when all that is in it has been made, later.
func (u *unpacker) dress(d *os.File, name string, h *tar.Header) error {
	fd := int(d.Fd())
	if err := u.owner(h).fd(fd); err != nil {
		return fault("change the owner of", name, err)
	}
	mode := u.mode(h)
	if err := unix.Fchmod(fd, mode|0o700); err != nil {
		return fault("change the mode of", name, err)
	}
	if writeXattrs(fd, h.PAXRecords) {
		u.skip(name, "its extended attributes can't be kept here")
	}
	u.later.add(&u.places, &u.report, dressed{name, mode, timespec(h)})
	return nil
}

// file makes a regular file.
func (u *unpacker) file(at place, h *tar.Header) error {
	if h.Size <= smallFile {
		return u.small(at, h)
	}
	f, temp, err := u.beside(at)
	if err != nil {
		return fault("make", at.name, err)
	}
	defer func() { _ = f.Close() }()
	err = u.fill(f, h)
	if err == nil {
		err = u.finish(int(f.Fd()), place{at.dir, temp, at.name}, h)
	}
	if err == nil {
		err = u.rename(temp, at)
	}
	if err != nil {
		_ = unix.Unlinkat(at.dir, temp, 0)
	}
	return err
}

// small makes a file whose content is read before anything is made of it.
func (u *unpacker) small(at place, h *tar.Header) error {
	content := u.buf[:h.Size]
	if _, err := io.ReadFull(u.tr, content); err != nil {
		return u.stream.fault(err)
	}
	u.progress(0, h.Size)
	temp := at.base
	fd, err := create(at.dir, temp)
	if errors.Is(err, fs.ErrExist) {
		var f *os.File
		if f, temp, err = u.beside(at); err == nil {
			defer func() { _ = f.Close() }()
			fd = int(f.Fd())
		}
	} else if err == nil {
		defer func() { _ = unix.Close(fd) }()
	}
	if err != nil {
		return fault("make", at.name, err)
	}
	for rest := content; len(rest) > 0 && err == nil; {
		var n int
		if n, err = unix.Write(fd, rest); errors.Is(err, unix.EINTR) {
			err = nil
			continue
		}
		rest = rest[max(n, 0):]
	}
	if err = fault("write", at.name, err); err == nil {
		err = u.finish(fd, place{at.dir, temp, at.name}, h)
	}
	if err == nil && temp != at.base {
		err = u.rename(temp, at)
	}
	if err != nil {
		_ = unix.Unlinkat(at.dir, temp, 0)
	}
	return err
}

// fill writes a file's content. Holes of the archive become holes.
func (u *unpacker) fill(f *os.File, h *tar.Header) error {
	sparse := h.Typeflag == tar.TypeGNUSparse || h.PAXRecords["GNU.sparse.realsize"] != "" || h.PAXRecords["GNU.sparse.size"] != ""
	if sparse {
		if h.Size > maxSparse-u.sparse {
			return core.Invalid("archive", "the archive's files with holes come to more than %d GiB with %q: no archive of that many zeros is unpacked",
				int64(maxSparse)>>30, h.Name)
		}
		u.sparse += h.Size
	}
	var at int64
	for at < h.Size {
		if err := u.ctx.Err(); err != nil {
			return err
		}
		size := int64(chunk)
		if sparse {
			size = hole
		}
		part := u.buf[:min(size, h.Size-at)]
		if _, err := io.ReadFull(u.tr, part); err != nil {
			return u.stream.fault(err)
		}
		u.progress(0, int64(len(part)))
		if !sparse || !isZero(part) {
			if _, err := f.WriteAt(part, at); err != nil {
				return fault("write", h.Name, bare(err))
			}
		}
		at += int64(len(part))
	}
	if sparse {
		return fault("write", h.Name, bare(f.Truncate(h.Size)))
	}
	return nil
}

// finish gives a file what it has besides its content.
func (u *unpacker) finish(fd int, at place, h *tar.Header) error {
	if err := u.owner(h).fd(fd); err != nil {
		return fault("change the owner of", at.name, err)
	}
	// A change of owner takes setuid away, so the mode comes after it.
	if err := unix.Fchmod(fd, u.mode(h)); err != nil {
		return fault("change the mode of", at.name, err)
	}
	if writeXattrs(fd, h.PAXRecords) {
		u.skip(at.name, "its extended attributes can't be kept here")
	}
	return fault("change the time of", at.name, touch(at.dir, at.base, timespec(h)))
}

// symlink makes a symbolic link. What it says is not looked at: nothing here ever follows it out of the directory.
func (u *unpacker) symlink(at place, h *tar.Header) error {
	name, err := u.replace(at, func(name string) error { return unix.Symlinkat(h.Linkname, at.dir, name) })
	if err != nil {
		return fault("make the link", at.name, err)
	}
	err = u.owner(h).at(at.dir, name)
	if err == nil {
		err = touch(at.dir, name, timespec(h))
	}
	if err = fault("change", at.name, err); err == nil && name != at.base {
		err = u.rename(name, at)
	}
	if err != nil {
		_ = unix.Unlinkat(at.dir, name, 0)
	}
	return err
}

// link makes a hard link to a file that is in the directory.
func (u *unpacker) link(at place, h *tar.Header) error {
	target, err := inside(h.Linkname)
	if err != nil {
		return err
	}
	from, release, err := u.places.other(target)
	if err != nil {
		return err
	}
	defer release()
	name, err := u.replace(at, func(name string) error { return unix.Linkat(from.dir, from.base, at.dir, name, 0) })
	if err != nil {
		return fault("make the link to "+target, at.name, err)
	}
	if name == at.base {
		return nil
	}
	err = u.rename(name, at)
	// Between two names of one file a rename does nothing.
	_ = unix.Unlinkat(at.dir, name, 0)
	return err
}

// replace makes something under its own name, or under another one if that is taken, and returns which.
func (u *unpacker) replace(at place, with func(name string) error) (string, error) {
	err := with(at.base)
	if !errors.Is(err, fs.ErrExist) {
		return at.base, err
	}
	temp := tempName()
	return temp, with(temp)
}

// rename puts what was made into its place. An empty directory makes way.
func (u *unpacker) rename(temp string, at place) error {
	err := unix.Renameat(at.dir, temp, at.dir, at.base)
	if errors.Is(err, syscall.EISDIR) {
		if err = unix.Unlinkat(at.dir, at.base, unix.AT_REMOVEDIR); err == nil {
			err = unix.Renameat(at.dir, temp, at.dir, at.base)
		}
	}
	return fault("replace", at.name, err)
}

// beside makes a file to be moved to its place when it is whole.
func (u *unpacker) beside(at place) (*os.File, string, error) {
	temp := tempName()
	fd, err := create(at.dir, temp)
	if err != nil {
		return nil, "", err
	}
	return os.NewFile(uintptr(fd), at.name), temp, nil
}

func tempName() string { return ".shoal-" + strings.ToLower(rand.Text()) }

func create(dir int, name string) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	return fd, err
}

func (u *unpacker) mode(h *tar.Header) uint32 {
	if u.options.Plain {
		return uint32(h.Mode & 0o777)
	}
	return uint32(h.Mode & 0o7777)
}

func (u *unpacker) owner(h *tar.Header) owner {
	if u.options.KeepOwners {
		return owner{h.Uid, h.Gid}
	}
	return u.options.own()
}

func (u *unpacker) progress(files, bytes int64) {
	u.Bytes += bytes
	if u.options.Progress != nil {
		u.options.Progress(files, bytes)
	}
}
