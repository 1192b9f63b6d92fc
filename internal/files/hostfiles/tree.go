package hostfiles

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/files"
)

// Owners says to which host ids the ids inside are mapped: First is 0.
type Owners struct{ First, Count uint32 }

// inside returns an id as it is inside. One that isn't mapped is nobody's there.
func (o Owners) inside(id uint32) int {
	if id < o.First || id-o.First >= o.Count {
		return overflowID
	}
	return int(id - o.First)
}

// overflowID is what a kernel shows for an id that has no mapping.
const overflowID = 65534

// Tree reads one tree. It is safe for use by many goroutines, and keeps nothing open.
type Tree struct {
	dir    string
	owners Owners
}

var _ core.FileReader = (*Tree)(nil)

// New returns a reader of the tree in a directory.
func New(dir string, owners Owners) *Tree { return &Tree{dir: dir, owners: owners} }

const (
	// resolve keeps a path inside the tree.
	resolve = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV
	// maxTries is how often a path with ".." is looked up again while directories are renamed anywhere on the host.
	maxTries = 128
	// maxPath is the kernel's bound.
	maxPath = 4095
)

// root is the tree's root directory, open.
type root struct {
	*os.File
	owners Owners
	names  [2]map[int]string
}

func (t *Tree) open() (*root, error) {
	fd, err := unix.Open(t.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, core.Wrap(core.CodeUnavailable, err, "the sandbox's files can't be reached")
	}
	return &root{File: os.NewFile(uintptr(fd), "root"), owners: t.owners}, nil
}

// clean checks a path and takes slashes off its end.
func clean(field, name string) (string, error) {
	switch {
	case !strings.HasPrefix(name, "/"):
		return "", core.Invalid(field, "a path must be absolute, it begins with a slash: %s", files.Quote(name))
	case strings.ContainsRune(name, 0):
		return "", core.Invalid(field, "a path has no zero byte")
	}
	for len(name) > 1 && strings.HasSuffix(name, "/") {
		name = name[:len(name)-1]
	}
	if len(name) > maxPath {
		return "", unix.ENAMETOOLONG
	}
	return name, nil
}

// at opens a path inside the tree, as a place only: nothing is read, and nothing happens to what is there.
func (r *root) at(name string, flags uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: resolve}
	for range maxTries {
		fd, err := unix.Openat2(int(r.Fd()), name, &how)
		if err == nil {
			return os.NewFile(uintptr(fd), "file"), nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
	}
	return nil, core.Errorf(core.CodeUnavailable, "the path could not be looked up: try again")
}

// selfPath is a path that leads to an open file, whatever its name is now.
func selfPath(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// read opens a place to read it, if that is a regular file, or a directory as dir says.
func read(place *os.File, dir bool) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(place.Fd()), &st); err != nil {
		return nil, st, err
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case dir && kind != unix.S_IFDIR:
		return nil, st, unix.ENOTDIR
	case !dir && kind == unix.S_IFDIR:
		return nil, st, unix.EISDIR
	case !dir && kind != unix.S_IFREG:
		return nil, st, core.Errorf(core.CodeInvalid, "while a sandbox doesn't run only regular files of it can be read")
	}
	flags := unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	if dir {
		flags |= unix.O_DIRECTORY
	}
	fd, err := unix.Open(selfPath(place), flags, 0)
	if err != nil {
		return nil, st, err
	}
	return os.NewFile(uintptr(fd), "content"), st, nil
}

// content opens a path to read it. Links are followed.
func (r *root) content(name string, dir bool) (*os.File, unix.Stat_t, error) {
	place, err := r.at(name, 0)
	if err != nil {
		return nil, unix.Stat_t{}, err
	}
	defer func() { _ = place.Close() }()
	return read(place, dir)
}

// maxNameFile bounds how much of passwd and group is read.
const maxNameFile = 8 << 20

// owner returns the name of an id, if the tree's own passwd or group has one.
func (r *root) owner(which, id int) string {
	if r.names[which] == nil {
		name, fields := files.PasswdFile, files.PasswdFields
		if which == group {
			name, fields = files.GroupFile, files.GroupFields
		}
		r.names[which] = map[int]string{}
		if f, _, err := r.content(name, false); err == nil {
			r.names[which] = files.Names(io.LimitReader(f, maxNameFile), fields)
			_ = f.Close()
		}
	}
	return r.names[which][id]
}

// The tables of names.
const (
	user  = 0
	group = 1
)
