package archive

import (
	"archive/tar"
	"errors"
	"math"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// place is where an entry goes: a name in an open directory.
type place struct {
	dir int
	// base is the name in the directory, name the one below the root.
	base, name string
}

// places finds directories below a root, and makes missing ones. It keeps the last one open, in which the next entry mostly is.
type places struct {
	root *os.File
	own  owner
	dir  *os.File
	rel  string
}

// find returns where an entry goes. It is valid until the next call.
func (p *places) find(name string) (place, error) {
	dir, base := split(name)
	if p.dir == nil || p.rel != dir {
		d, err := p.open(dir)
		if err != nil {
			return place{}, err
		}
		p.keep(d, dir)
	}
	return place{int(p.dir.Fd()), base, name}, nil
}

// enter opens a directory that was just made or found.
func (p *places) enter(name string) (*os.File, error) {
	d, err := p.open(name)
	if err == nil {
		p.keep(d, name)
	}
	return d, err
}

// other returns where a further entry is, which must exist, without disturbing the last one.
func (p *places) other(name string) (place, func(), error) {
	if name == "" {
		return place{}, nil, core.Invalid("archive", "the archive has a link to no file")
	}
	dir, base := split(name)
	d, err := p.openDir(dir)
	if err != nil {
		return place{}, nil, p.fault(dir, err)
	}
	return place{int(d.Fd()), base, name}, func() { _ = d.Close() }, nil
}

func (p *places) keep(d *os.File, rel string) {
	p.close()
	p.dir, p.rel = d, rel
}

func (p *places) close() {
	if p.dir != nil {
		_ = p.dir.Close()
	}
}

func split(name string) (dir, base string) {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)], name[i+1:]
}

// open opens a directory below the root, and makes it, and those above it, if they are missing.
func (p *places) open(dir string) (*os.File, error) {
	d, err := p.beneath(dir, true)
	if err != nil {
		return nil, p.fault(dir, err)
	}
	return d, nil
}

func (p *places) openDir(dir string) (*os.File, error) { return p.beneath(dir, false) }

// fault says why a directory can't be opened.
func (p *places) fault(dir string, err error) error {
	if errors.Is(err, errOutside) {
		return core.Wrap(core.CodeInvalid, err, "the archive leads out of the directory, through a link at or above %q", dir)
	}
	return fault("open", dir, bare(err))
}

// owner owns what is made; a number below zero leaves it ours.
type owner struct{ uid, gid int }

// valid reports whether these can be numbers of owners.
func (o owner) valid() bool {
	return o.uid >= 0 && o.uid < math.MaxUint32 && o.gid >= 0 && o.gid < math.MaxUint32
}

func (o owner) none() bool { return o.uid < 0 && o.gid < 0 }

func (o owner) fd(fd int) error {
	if o.none() {
		return nil
	}
	return unix.Fchown(fd, o.uid, o.gid)
}

func (o owner) at(dir int, name string) error {
	if o.none() {
		return nil
	}
	return unix.Fchownat(dir, name, o.uid, o.gid, unix.AT_SYMLINK_NOFOLLOW)
}

// timespec is an entry's time.
func timespec(h *tar.Header) unix.Timespec {
	t, err := unix.TimeToTimespec(h.ModTime)
	if err != nil {
		return unix.Timespec{}
	}
	return t
}

// touch sets a file's time, of a link itself.
func touch(dir int, name string, t unix.Timespec) error {
	return unix.UtimesNanoAt(dir, name, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
}

// dressed is what a directory gets when all that is in it was made.
type dressed struct {
	name  string
	mode  uint32
	mtime unix.Timespec
}

// later holds directories. What is too much for it is done with at once: then the time of a directory in which more is made later
// is that of its making.
type later struct {
	list []dressed
	size int
}

func (l *later) add(in *places, r *report, d dressed) {
	if l.size += len(d.name) + entryCost; l.size > maxRemembered {
		l.apply(in, r)
		l.size = len(d.name) + entryCost
	}
	l.list = append(l.list, d)
}

// apply does what is left to do, from the last one to the first. A directory that was replaced since has nothing to get.
func (l *later) apply(in *places, r *report) {
	for i := len(l.list) - 1; i >= 0; i-- {
		d := l.list[i]
		f, err := in.exactly(d.name)
		if err != nil {
			continue
		}
		// 0700 was added to its mode, so that whoever is not root can make what is in it.
		if d.mode&0o700 != 0o700 {
			err = unix.Fchmod(int(f.Fd()), d.mode)
		}
		err = errors.Join(err, touch(int(f.Fd()), ".", d.mtime))
		_ = f.Close()
		if err != nil {
			r.skip(d.name, "its mode or time can't be kept here")
		}
	}
	l.list, l.size = nil, 0
}

// exactly opens a directory that was made, and nothing that a link in its place leads to.
func (p *places) exactly(name string) (*os.File, error) {
	if name == "" {
		return p.top()
	}
	dir, base := split(name)
	d, err := p.openDir(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	return p.step(d, base, false)
}
