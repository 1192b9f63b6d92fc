package hostfiles

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// Scan reads much of one tree: it holds the root open, and looks at directories whole. Nothing on the way to what it opens may be a
// link, the last name included: it is for who goes through a tree from its top and finds all that there is on the way.
type Scan struct{ root *root }

// Scan opens the tree's root. The caller closes it.
func (t *Tree) Scan() (*Scan, error) {
	r, err := t.open()
	if err != nil {
		return nil, err
	}
	return &Scan{r}, nil
}

// Close lets the root go.
func (s *Scan) Close() error { return s.root.Close() }

// Entry is what a tree has by one name. Owners are as inside.
type Entry struct {
	Name string
	Type core.FileType
	// Kind tells apart what Type calls other, as stat does.
	Kind uint32
	Mode uint32
	UID  int
	GID  int
	Size int64
	// Blocks is how many units of 512 bytes are taken.
	Blocks int64
	Inode  uint64
	Device uint64
	// Modified and Changed are the times in nanoseconds.
	Modified, Changed int64
}

// ErrTooMany says that a directory has more names than may be read.
var ErrTooMany = errors.New("too many names in a directory")

// noLinks keeps a path inside the tree and free of links.
const noLinks = resolve | unix.RESOLVE_NO_SYMLINKS

// place opens a path as a place only.
func (s *Scan) place(name string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: noLinks}
	for range maxTries {
		fd, err := unix.Openat2(int(s.root.Fd()), name, &how)
		if err == nil {
			return os.NewFile(uintptr(fd), "file"), nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
	}
	return nil, unix.EAGAIN
}

// Stat describes what is at a path.
func (s *Scan) Stat(name string) (Entry, error) {
	place, err := s.place(name)
	if err != nil {
		return Entry{}, err
	}
	defer func() { _ = place.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(place.Fd()), &st); err != nil {
		return Entry{}, err
	}
	return s.entry(name[strings.LastIndexByte(name, '/')+1:], &st), nil
}

// List returns a directory's entries in the order of their names' bytes: ErrTooMany if there are more than most. What goes while it is
// read is left out.
func (s *Scan) List(name string, most int) ([]Entry, error) {
	place, err := s.place(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = place.Close() }()
	d, _, err := read(place, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	var list []Entry
	for {
		names, err := d.Readdirnames(1024)
		for _, n := range names {
			var st unix.Stat_t
			if err := unix.Fstatat(int(d.Fd()), n, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				if errors.Is(err, unix.ENOENT) {
					continue
				}
				return nil, err
			}
			list = append(list, s.entry(n, &st))
		}
		if len(list) > most {
			return nil, ErrTooMany
		}
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (s *Scan) entry(name string, st *unix.Stat_t) Entry {
	return Entry{
		Name: name, Type: typeOf(st.Mode), Kind: st.Mode & unix.S_IFMT, Mode: st.Mode & 0o7777,
		UID: s.root.owners.inside(st.Uid), GID: s.root.owners.inside(st.Gid),
		Size: st.Size, Blocks: st.Blocks, Inode: st.Ino, Device: st.Rdev, Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano(),
	}
}

// Open opens a regular file to read it.
func (s *Scan) Open(name string) (*os.File, error) {
	place, err := s.place(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = place.Close() }()
	f, _, err := read(place, false)
	return f, err
}

// Readlink returns what a symbolic link says.
func (s *Scan) Readlink(name string) (string, error) {
	place, err := s.place(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = place.Close() }()
	return readlink(place)
}

// Attributes returns the extended attributes of a file or directory that say what it is to programs: a user's own, its capabilities and
// its access lists.
func (s *Scan) Attributes(name string) ([]core.Xattr, error) {
	place, err := s.place(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = place.Close() }()
	return xattrsOf(selfPath(place), telling)
}

// telling reports whether an attribute says what a file is to programs.
func telling(name string) bool {
	return userXattr(name) || name == "security.capability" || strings.HasPrefix(name, "system.posix_acl_")
}
