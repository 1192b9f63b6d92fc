package guest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"shoal/internal/files"
)

// A tree is changed while programs in the sandbox, which may have fewer rights than the agent, rename and replace what is in it. So nothing
// below the directory that was named is looked up by a path, and no link there is followed: else whoever may write in the tree could
// have the agent change any file.

// below changes everything in a directory. What goes meanwhile needs no change any more.
func (ch *fileChange) below(ctx context.Context, dir string) error {
	base, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(base) }()
	return ch.inside(ctx, base, nil)
}

// inside changes everything in the directory to which names lead from an open one. No descriptor is held while what is below is changed: a
// tree may be deeper than the agent may have files open.
func (ch *fileChange) inside(ctx context.Context, base int, names []string) error {
	for after := ""; ; {
		dirs, last, err := ch.page(ctx, base, names, after)
		if err != nil || last == "" {
			return ignoreGone(err)
		}
		for _, d := range dirs {
			if err := ch.inside(ctx, base, append(names, d)); err != nil {
				return err
			}
		}
		after = last
	}
}

// page changes some entries of a directory, those after a name, and returns the directories among them and the last name; none is empty.
func (ch *fileChange) page(ctx context.Context, base int, names []string, after string) (dirs []string, last string, err error) {
	d, err := openBelow(base, names)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = d.Close() }()
	page, err := files.Smallest(func() ([]string, error) { return d.Readdirnames(1024) }, after, maxListFiles)
	for _, name := range page {
		if err := ctx.Err(); err != nil {
			return nil, "", broken(err)
		}
		isDir, err := ch.entry(int(d.Fd()), name)
		if err := ignoreGone(err); err != nil {
			return nil, "", err
		}
		if isDir {
			dirs = append(dirs, name)
		}
		last = name
	}
	return dirs, last, err
}

// openBelow opens the directory to which names lead from an open one, and never what a link leads to.
func openBelow(base int, names []string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(base, ".", flags, 0)
	for _, name := range names {
		if err != nil {
			return nil, err
		}
		above := fd
		fd, err = unix.Openat(above, name, flags, 0)
		_ = unix.Close(above)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "directory"), nil
}

// entry changes owner, group and mode of an entry of a directory, a link itself, and reports whether it is a directory.
func (ch *fileChange) entry(dir int, name string) (isDir bool, err error) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	if ch.uid >= 0 || ch.gid >= 0 {
		if err := unix.Fchownat(dir, name, ch.uid, ch.gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return false, err
		}
	}
	kind := st.Mode & unix.S_IFMT
	if ch.Mode != nil && kind != unix.S_IFLNK {
		// This leads to the file that is open, whatever has its name by now. There may be no /proc, which is then no file that has gone.
		err := os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), permissions(*ch.Mode))
		if errors.Is(err, fs.ErrNotExist) {
			err = unix.EBUSY
		}
		if err != nil {
			return false, err
		}
	}
	return kind == unix.S_IFDIR, nil
}
