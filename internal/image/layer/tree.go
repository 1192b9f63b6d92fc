package layer

import (
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Tree is a root tree that layers are applied to. It is used by one goroutine.
type Tree struct {
	root   int
	limits Limits
	// bytes and entries count toward limits. unseen is what was written since the free space was looked at.
	bytes, entries, unseen int64
	seed                   maphash.Seed
	// last is the directory used last: entries of one directory come together. stale says that its path may lead elsewhere by now.
	last  directory
	stale bool
	// made are the entries that the layer under way has made, and times the directories' times to set at its end.
	made  map[place]struct{}
	times map[uint64]dirTime
	buf   []byte
	// free is ratioFree; patience is how long a pool that is growing is waited for.
	free     int64
	patience time.Duration
}

// directory is an open directory of the tree.
type directory struct {
	path string
	fd   int
	ino  uint64
}

// place names an entry by its directory and a hash of its name. Two names of one directory with one hash of 64 random bits don't happen.
type place struct{ dir, name uint64 }

// dirTime is when a directory is to have been changed.
type dirTime struct {
	path  string
	times [2]unix.Timespec
	// explicit says that the layer has an entry for it, which counts; else it is what it was before.
	explicit bool
}

// Open opens a tree.
func Open(dir string, limits Limits) (*Tree, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the tree: %w", err)
	}
	return &Tree{root: fd, limits: limits, seed: maphash.MakeSeed(), last: directory{fd: -1}, buf: make([]byte, 1<<20), free: ratioFree, patience: growWait}, nil
}

// Close lets go of the tree.
func (t *Tree) Close() error {
	t.closeLast()
	return unix.Close(t.root)
}

// Bytes returns how much has been written.
func (t *Tree) Bytes() int64 { return t.bytes }

// forget says that something was removed or replaced, maybe above the directory used last.
func (t *Tree) forget() { t.stale = true }

func (t *Tree) closeLast() {
	if t.last.fd >= 0 {
		_ = unix.Close(t.last.fd)
	}
	t.last, t.stale = directory{fd: -1}, false
}

// openIn opens a path of the tree. Links in it are resolved inside the tree, whatever they say.
func (t *Tree) openIn(path string, flags uint64) (int, error) {
	if path == "" {
		path = "."
	}
	how := &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for range 1000 {
		fd, err := unix.Openat2(t.root, path, how)
		// The kernel could not tell whether ".." of a link stayed inside while something else was renamed on this machine.
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		return fd, err
	}
	return -1, unix.EAGAIN
}

// dir opens a directory, which stays open until the next call.
func (t *Tree) dir(path string) (directory, error) {
	if t.last.fd >= 0 && t.last.path == path && !t.stale {
		return t.last, nil
	}
	t.closeLast()
	fd, err := t.openIn(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return directory{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return directory{}, err
	}
	t.last = directory{path: path, fd: fd, ino: st.Ino}
	if _, known := t.times[st.Ino]; !known && t.times != nil {
		t.times[st.Ino] = dirTime{path: path, times: [2]unix.Timespec{st.Atim, st.Mtim}}
	}
	return t.last, nil
}

// parent opens the directory of an entry. Directories that are missing are made.
func (t *Tree) parent(path string) (directory, error) {
	d, err := t.dir(path)
	if !errors.Is(err, unix.ENOENT) || path == "" {
		return d, failed("its directory", path, err)
	}
	above, base := split(path)
	d, err = t.parent(above)
	if err != nil {
		return directory{}, err
	}
	if err := t.count(); err != nil {
		return directory{}, err
	}
	if err := unix.Mkdirat(d.fd, base, 0o755); err != nil {
		// Something is there that does not lead anywhere.
		return directory{}, failed("its directory", path, notDir(err))
	}
	if err := impliedDir(d.fd, base); err != nil {
		return directory{}, failed("make the directory", path, err)
	}
	d, err = t.dir(path)
	return d, failed("open the directory", path, err)
}

// notDir is what "it exists" means where a directory was to be.
func notDir(err error) error {
	if errors.Is(err, unix.EEXIST) {
		return unix.ENOTDIR
	}
	return err
}

// impliedDir gives a directory that no entry describes root's owner and mode.
func impliedDir(dir int, base string) error {
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fchown(fd, 0, 0), unix.Fchmod(fd, 0o755), unix.Close(fd))
}

// key names an entry of a directory.
func (t *Tree) key(d directory, base string) place {
	return place{dir: d.ino, name: maphash.String(t.seed, base)}
}

// count counts one entry toward the limits.
func (t *Tree) count() error {
	if t.entries++; t.entries > t.limits.Entries {
		return refuse("the image has more than %d files", t.limits.Entries)
	}
	return nil
}

// names lists a directory, whose descriptor stays the caller's.
func names(fd int) ([]string, error) {
	own, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(own), "directory")
	defer func() { _ = f.Close() }()
	return f.Readdirnames(-1)
}
