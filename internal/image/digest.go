package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// maxDepth bounds how deep directories may nest. Debian trees have about 12; each level costs an open file while its
// branch is read.
const maxDepth = 256

// The bounds of a tree's listing, which is held in memory, and of what is hashed. A sandbox's tree may hold anything.
const (
	maxEntries   = 1_000_000
	maxPathBytes = 256 << 20
	maxTreeBytes = 256 << 30
)

// tooMuch says that a tree is beyond a bound.
func tooMuch(format string, args ...any) error { return core.Errorf(core.CodeInvalid, format, args...) }

// Digest describes a tree by the sha256 of its canonical listing, with owners counted from ownerUID. The listing has one
// line per entry, sorted by path as bytes:
//
//	type mode uid gid size path content
//
// type is one of d f l h p s c b; mode is the twelve permission bits in octal; size is in bytes, 0 but for files; path and
// content are quoted as Go quotes strings. content is a file's sha256 in hex with ":" and its capabilities if it has any,
// a link's target, a device's number, and for every link to a file but the first (type h) the path of the first. Times and
// other xattrs don't count: two trees have one digest if and only if programs find the same files in both.
//
// The tree must not be written meanwhile, but may be hostile: no link is followed, nothing but regular files is opened for
// reading, and each is opened relative to its directory. Hard links count once toward the size.
func Digest(ctx context.Context, dir string, ownerUID int) (core.TreeInfo, error) {
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return core.TreeInfo{}, fmt.Errorf("open the tree: %w", err)
	}
	group, hashCtx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0) + 1)
	l := &listing{ctx: hashCtx, ownerUID: int64(ownerUID), group: group, links: map[inode]*entry{}}
	walkErr := l.walk(root, "", 0)
	if walkErr != nil {
		// The hashing under way ends on its own: it is bounded by the group's limit.
		walkErr = fmt.Errorf("list the tree: %w", walkErr)
	}
	if err := group.Wait(); err != nil {
		return core.TreeInfo{}, fmt.Errorf("list the tree: %w", err)
	}
	if walkErr != nil {
		return core.TreeInfo{}, walkErr
	}
	return l.sum(), nil
}

// inode names a file across its hard links.
type inode struct{ dev, ino uint64 }

// entry is one line of a listing.
type entry struct {
	path string
	stat unix.Stat_t
	// content is what the listing says of it beyond its stat.
	content string
}

// listing collects a tree's entries. Only the walk appends; each hashing goroutine writes to its own entry.
type listing struct {
	ctx      context.Context // It lives for one call of Digest.
	ownerUID int64
	group    *errgroup.Group
	entries  []*entry
	// links are the first entries met of files with several links: only these are read.
	links   map[inode]*entry
	buffers sync.Pool
	// pathBytes and treeBytes are how much the entries hold so far.
	pathBytes, treeBytes int64
}

// add takes an entry in, unless that is too much.
func (l *listing) add(e *entry) error {
	l.entries = append(l.entries, e)
	l.pathBytes += int64(len(e.path) + len(e.content))
	if e.stat.Mode&unix.S_IFMT == unix.S_IFREG {
		l.treeBytes += min(e.stat.Size, maxTreeBytes+1)
	}
	switch {
	case len(l.entries) > maxEntries:
		return tooMuch("the tree has more than %d files", maxEntries)
	case l.pathBytes > maxPathBytes:
		return tooMuch("the names of the tree's files add up to more than %d bytes", maxPathBytes)
	case l.treeBytes > maxTreeBytes:
		return tooMuch("the tree's files add up to more than %d bytes, holes counted", int64(maxTreeBytes))
	}
	return nil
}

// walk lists the directory fd, which it closes, and all below.
func (l *listing) walk(fd int, path string, depth int) error {
	defer func() { _ = unix.Close(fd) }()
	if depth > maxDepth {
		return tooMuch("directories nest more than %d deep", maxDepth)
	}
	if depth == 0 {
		e := &entry{path: "."}
		if err := unix.Fstat(fd, &e.stat); err != nil {
			return fmt.Errorf("stat the root: %w", err)
		}
		if err := l.add(e); err != nil {
			return err
		}
	}
	names, err := readNames(fd)
	if err != nil {
		return fmt.Errorf("%q: read directory: %w", path, err)
	}
	for _, name := range names {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		e := &entry{path: path + name}
		if err := unix.Fstatat(fd, name, &e.stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("%q: stat: %w", e.path, err)
		}
		if err := l.add(e); err != nil {
			return err
		}
		if err := l.visit(fd, name, e, depth); err != nil {
			return err
		}
	}
	return nil
}

// visit reads what an entry holds beyond its stat.
func (l *listing) visit(fd int, name string, e *entry, depth int) error {
	switch e.stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		child, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("%q: open directory: %w", e.path, err)
		}
		return l.walk(child, e.path+"/", depth+1)
	case unix.S_IFLNK:
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, name, target)
		if err != nil {
			return fmt.Errorf("%q: read link: %w", e.path, err)
		}
		e.content = string(target[:n])
	case unix.S_IFREG:
		if e.stat.Nlink > 1 {
			key := inode{e.stat.Dev, e.stat.Ino}
			if l.links[key] != nil {
				return nil
			}
			l.links[key] = e
		}
		return l.file(fd, name, e)
	}
	return nil
}

// file opens a regular file here and hashes it in another goroutine.
func (l *listing) file(dir int, name string, e *entry) error {
	// O_NONBLOCK, and the check below: what was a file a moment ago might be a pipe by now.
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%q: open: %w", e.path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Ino != e.stat.Ino {
		_ = unix.Close(fd)
		return fmt.Errorf("%q: the tree changes while it is read", e.path)
	}
	l.group.Go(func() error {
		defer func() { _ = unix.Close(fd) }()
		return l.hash(fd, e)
	})
	return nil
}

// hash reads a file to its end.
func (l *listing) hash(fd int, e *entry) error {
	buffer, _ := l.buffers.Get().(*[]byte)
	if buffer == nil {
		b := make([]byte, 256<<10)
		buffer = &b
	}
	defer l.buffers.Put(buffer)
	h := sha256.New()
	for size := int64(0); ; {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		n, err := unix.Read(fd, *buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%q: read: %w", e.path, err)
		}
		if size += int64(n); size > e.stat.Size || (n == 0 && size != e.stat.Size) {
			return fmt.Errorf("%q: the tree changes while it is read", e.path)
		}
		if n == 0 {
			break
		}
		h.Write((*buffer)[:n])
	}
	e.content = hex.EncodeToString(h.Sum(nil))
	if c := capability(fd); c != "" {
		e.content += ":" + c
	}
	return nil
}

// capability returns the file's capabilities as a guest sees them. Written inside a user namespace they carry the host's
// id of its root, which says where the tree was made and not what it holds.
func capability(fd int) string {
	value := make([]byte, 64)
	n, err := unix.Fgetxattr(fd, "security.capability", value)
	if err != nil || n < 20 {
		return ""
	}
	// The first word holds revision and the effective flag; the next four are the permitted and inheritable sets.
	return hex.EncodeToString(value[:1]) + hex.EncodeToString(value[4:20])
}

// sum sorts the entries and hashes their lines.
func (l *listing) sum() core.TreeInfo {
	slices.SortFunc(l.entries, func(a, b *entry) int { return cmp.Compare(a.path, b.path) })
	// Of a file's links the first by path holds the content, not the one that the directory's order brought up first.
	firsts := make(map[inode]string, len(l.links))
	info := core.TreeInfo{Files: int64(len(l.entries))}
	h := sha256.New()
	for _, e := range l.entries {
		kind, size, content := letter(e.stat.Mode), int64(0), e.content
		switch kind {
		case 'c', 'b':
			content = fmt.Sprintf("%d:%d", unix.Major(e.stat.Rdev), unix.Minor(e.stat.Rdev))
		case 'f':
			size = e.stat.Size
			if e.stat.Nlink > 1 {
				key := inode{e.stat.Dev, e.stat.Ino}
				if first, ok := firsts[key]; ok {
					kind, size, content = 'h', 0, first
				} else {
					firsts[key] = e.path
					content = l.links[key].content
				}
			}
		}
		info.SizeBytes += size
		// A hash never fails to take what is written.
		_, _ = fmt.Fprintf(h, "%c %04o %d %d %d %q %q\n", kind, e.stat.Mode&0o7777,
			int64(e.stat.Uid)-l.ownerUID, int64(e.stat.Gid)-l.ownerUID, size, e.path, content)
	}
	info.Digest = "sha256:" + hex.EncodeToString(h.Sum(nil))
	return info
}

// letter is the type of a file in a listing.
func letter(mode uint32) byte {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return 'd'
	case unix.S_IFREG:
		return 'f'
	case unix.S_IFLNK:
		return 'l'
	case unix.S_IFIFO:
		return 'p'
	case unix.S_IFSOCK:
		return 's'
	case unix.S_IFCHR:
		return 'c'
	case unix.S_IFBLK:
		return 'b'
	}
	return '?'
}

// readNames returns the names in a directory. It reads from a descriptor of its own, for os.File closes what it is given.
func readNames(fd int) ([]string, error) {
	own, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(own), "directory")
	defer func() { _ = f.Close() }()
	return f.Readdirnames(-1)
}
