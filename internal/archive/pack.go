package archive

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// maxDepth bounds how deep a tree is: each level is an open directory.
const maxDepth = 256

// PackOptions say what an archive holds.
type PackOptions struct {
	Exclude []string
	// Gzip compresses the stream, fast rather than small.
	Gzip bool
	// Unlinked says that the number of a file's names is not to be relied on, as in gVisor, where it is always 1: then every file is
	// looked up among those before.
	Unlinked bool
	// User and Group name owners; nil leaves the names out.
	User, Group func(id int) string
	// ID returns an owner's number as the archive is to say it; nil leaves it as it is.
	ID func(id uint32) int
	// Progress is told of each file and of content as it is written; it may be nil.
	Progress func(files, bytes int64)
}

// Pack writes a file or a tree to w as a tar stream. A link at the path itself is followed. The entries of a tree are named
// relative to it, and the tree itself is "./"; a file that is not a directory is an entry with its own name. If it fails, w has
// no whole archive: the blocks that end one are written last.
func Pack(ctx context.Context, w io.Writer, root string, o PackOptions) (core.ArchiveReport, error) {
	// A fifo without a writer must not hold us for ever.
	f, err := os.OpenFile(root, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return core.ArchiveReport{}, err
	}
	defer func() { _ = f.Close() }()
	return PackOpen(ctx, w, f, root, o)
}

// PackOpen is Pack of a file or directory that is open. name is what it is called.
func PackOpen(ctx context.Context, w io.Writer, f *os.File, name string, o PackOptions) (core.ArchiveReport, error) {
	leaveOut, err := parseExclude(o.Exclude)
	if err != nil {
		return core.ArchiveReport{}, err
	}
	buffered := bufio.NewWriterSize(w, chunk)
	var to io.Writer = buffered
	var gz *gzip.Writer
	if o.Gzip {
		if gz, err = gzip.NewWriterLevel(buffered, gzip.BestSpeed); err != nil {
			return core.ArchiveReport{}, err
		}
		to = gz
	}
	p := &packer{ctx: ctx, w: to, tw: tar.NewWriter(to), options: o, exclude: leaveOut, links: map[inode]string{}}
	if err := p.root(f, name); err != nil {
		return core.ArchiveReport{}, err
	}
	if err := p.tw.Close(); err != nil {
		return core.ArchiveReport{}, err
	}
	if gz != nil {
		if err := gz.Close(); err != nil {
			return core.ArchiveReport{}, err
		}
	}
	return p.ArchiveReport, buffered.Flush()
}

// inode is a file, whatever its names.
type inode struct{ dev, ino uint64 }

// packer makes one archive.
type packer struct {
	report
	ctx     context.Context
	w       io.Writer
	tw      *tar.Writer
	options PackOptions
	exclude exclude
	// links are the names that files with several have got, as far as they are remembered.
	links      map[inode]string
	remembered int
	buf        []byte
}

// root packs what was named.
func (p *packer) root(f *os.File, name string) error {
	fd := int(f.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fault("stat", name, err)
	}
	if virtual(fd) {
		return core.Invalid("path", "files of /proc, /sys and the like are made up as they are read: read them one by one")
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if err := p.header("./", &st, fd, tar.TypeDir, ""); err != nil {
			return err
		}
		return p.directory(fd, "", 1)
	case unix.S_IFREG:
		return p.content(f, path.Base(name), &st)
	}
	return core.Invalid("path", "it is neither a file nor a directory")
}

// directory packs what is in a directory, in the order in which the system tells it.
func (p *packer) directory(fd int, rel string, depth int) error {
	// The descriptor is read through a file of its own, which is closed without closing the other.
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fault("open", rel, err)
	}
	d := os.NewFile(uintptr(own), rel)
	defer func() { _ = d.Close() }()
	for {
		names, err := d.Readdirnames(512)
		for _, name := range names {
			if err := p.entry(fd, rel, name, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			return nil
		}
		if err != nil {
			return fault("read directory", rel, bare(err))
		}
	}
}

// entry packs one file of a directory, and what is below it. One that has gone meanwhile is as one that never was.
func (p *packer) entry(dir int, rel, name string, depth int) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	full := join(rel, name)
	if p.exclude.match(full, name) {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return gone(fault("stat", full, err))
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return p.enter(dir, full, name, depth)
	case unix.S_IFREG:
		return p.file(dir, full, name, &st)
	case unix.S_IFLNK:
		target, err := readlink(dir, name)
		if err != nil {
			return gone(fault("read link", full, err))
		}
		p.count(0)
		return p.header(full, &st, -1, tar.TypeSymlink, target)
	case unix.S_IFIFO:
		p.skip(full, "it is a fifo")
	case unix.S_IFSOCK:
		p.skip(full, "it is a socket")
	default:
		p.skip(full, "it is a device")
	}
	return nil
}

// enter packs a directory below the root.
func (p *packer) enter(dir int, full, name string, depth int) error {
	if depth >= maxDepth {
		return core.Errorf(core.CodeUnsupported, "the tree is deeper than %d directories: archive a part of it", maxDepth)
	}
	fd, err := openDirectory(dir, name)
	if err != nil {
		return gone(fault("open", full, err))
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fault("stat", full, err)
	}
	if err := p.header(full+"/", &st, fd, tar.TypeDir, ""); err != nil {
		return err
	}
	if virtual(fd) {
		p.skip(full, "what is in it is made up as it is read")
		return nil
	}
	return p.directory(fd, full, depth+1)
}

// file packs a file, or a further name of one.
func (p *packer) file(dir int, full, name string, st *unix.Stat_t) error {
	key, several := inode{uint64(st.Dev), st.Ino}, st.Nlink > 1 || p.options.Unlinked //nolint:unconvert // its type differs between architectures
	if several {
		if first, ok := p.links[key]; ok {
			p.count(0)
			return p.header(full, st, -1, tar.TypeLink, first)
		}
	}
	fd, err := openat(dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return gone(fault("open", full, err))
	}
	f := os.NewFile(uintptr(fd), full)
	defer func() { _ = f.Close() }()
	if err := unix.Fstat(fd, st); err != nil {
		return fault("stat", full, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		p.skip(full, "it was replaced while it was read")
		return nil
	}
	if several && p.remembered < maxRemembered {
		p.links[key] = full
		p.remembered += len(full) + entryCost
	}
	return p.content(f, full, st)
}

// content packs a file's header and content.
func (p *packer) content(f *os.File, full string, st *unix.Stat_t) error {
	p.count(0)
	segments, err := data(p.ctx, f, st)
	if err != nil {
		return fault("read", full, bare(err))
	}
	if segments != nil {
		return p.sparse(f, full, st, segments)
	}
	if err := p.header(full, st, int(f.Fd()), tar.TypeReg, ""); err != nil {
		return err
	}
	return p.copy(p.tw, f, full, st.Size)
}

// copy moves exactly size bytes. A file that has grown is as it was when its header was written; one that has shrunk can't be.
func (p *packer) copy(w io.Writer, r io.Reader, full string, size int64) error {
	if p.buf == nil {
		p.buf = make([]byte, chunk)
	}
	for size > 0 {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(p.buf[:min(size, chunk)])
		if n > 0 {
			size -= int64(n)
			p.progress(0, int64(n))
			if _, err := w.Write(p.buf[:n]); err != nil {
				return err
			}
			continue
		}
		if err == nil || errors.Is(err, io.EOF) {
			return core.Errorf(core.CodeConflict, "a file shrank while it was read: %q", full)
		}
		return fault("read", full, bare(err))
	}
	return nil
}

func (p *packer) count(bytes int64) {
	p.Files++
	p.progress(1, bytes)
}

func (p *packer) progress(files, bytes int64) {
	p.Bytes += bytes
	if p.options.Progress != nil {
		p.options.Progress(files, bytes)
	}
}

// header writes an entry's header. fd is the file, for its extended attributes, or -1.
func (p *packer) header(name string, st *unix.Stat_t, fd int, kind byte, link string) error {
	if kind == tar.TypeDir {
		p.Directories++
	}
	h := &tar.Header{
		Format: tar.FormatPAX, Typeflag: kind, Name: name, Linkname: link, Mode: int64(st.Mode & 0o7777),
		Uid: int(st.Uid), Gid: int(st.Gid), ModTime: time.Unix(st.Mtim.Unix()), PAXRecords: p.records(name, link, fd),
	}
	if kind == tar.TypeReg {
		h.Size = st.Size
	}
	if p.options.ID != nil {
		h.Uid, h.Gid = p.options.ID(st.Uid), p.options.ID(st.Gid)
	}
	h.Uname, h.Gname = p.owner(st)
	return p.tw.WriteHeader(h)
}

// owner returns the names of a file's owners.
func (p *packer) owner(st *unix.Stat_t) (user, group string) {
	if p.options.User != nil {
		user = p.options.User(int(st.Uid))
	}
	if p.options.Group != nil {
		group = p.options.Group(int(st.Gid))
	}
	return user, group
}

// records returns what a header says in words of its own.
func (p *packer) records(name, link string, fd int) map[string]string {
	r := map[string]string{}
	if !utf8.ValidString(name) || !utf8.ValidString(link) {
		r["hdrcharset"] = "BINARY"
	}
	if fd >= 0 {
		if lost := readXattrs(fd, r); lost {
			p.skip(name, "its extended attributes are too large")
		}
	}
	return r
}

// openat opens a file of a directory, and never what a link leads to.
func openat(dir int, name string, flags int) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
		return err
	})
	return fd, err
}

// readlink returns what a link says.
func readlink(dir int, name string) (string, error) {
	buf := make([]byte, 4096)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// gone forgives what vanished, or became something else, while the tree was read.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}

// bare takes the path off an error, which is that of a descriptor.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
