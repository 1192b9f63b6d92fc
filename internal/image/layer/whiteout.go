package layer

import (
	"errors"

	"golang.org/x/sys/unix"
)

// A whiteout hides what lower layers left and nothing of its own layer, wherever in the layer it stands. Layers are applied as they
// stream in, so it is remembered what the layer has made: that stays, and the rest goes.

// hide applies a whiteout of path.
func (t *Tree) hide(path string) error {
	above, base := split(path)
	d, err := t.dir(above)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil // There is nothing to hide.
	}
	if err != nil {
		return failed("hide", path, err)
	}
	fd, err := unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed("hide", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	_, err = t.hideIn(directory{fd: fd, ino: d.ino}, base, 0)
	return failed("hide", path, err)
}

// hideAll applies an opaque whiteout of the directory path.
func (t *Tree) hideAll(path string) error {
	d, err := t.dir(path)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil // There is nothing to hide.
	}
	if err != nil {
		return failed("hide", path, err)
	}
	fd, err := unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed("hide", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	_, err = t.hideChildren(directory{fd: fd, ino: d.ino}, 0)
	return failed("hide", path, err)
}

// hideIn removes an entry of a directory but for what the layer has made, and reports whether something stays.
func (t *Tree) hideIn(d directory, base string, depth int) (stays bool, err error) {
	if depth > maxRealDepth {
		return false, refuse("directories nest too deep")
	}
	_, made := t.made[t.key(d, base)]
	var st unix.Stat_t
	err = unix.Fstatat(d.fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if made {
			return true, nil
		}
		t.forget()
		return false, unix.Unlinkat(d.fd, base, 0)
	}
	fd, err := unix.Openat(d.fd, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	stays, err = t.hideChildren(directory{fd: fd, ino: st.Ino}, depth+1)
	_ = unix.Close(fd)
	switch {
	case err != nil || made:
		return true, err
	case stays:
		// The layer has entries below it and none for it: as if it had been made for them.
		delete(t.times, st.Ino)
		return true, t.resetDir(d.fd, base)
	}
	t.forget()
	return false, unix.Unlinkat(d.fd, base, unix.AT_REMOVEDIR)
}

// hideChildren hides all entries of a directory.
func (t *Tree) hideChildren(d directory, depth int) (stays bool, err error) {
	list, err := names(d.fd)
	if err != nil {
		return false, err
	}
	for _, name := range list {
		kept, err := t.hideIn(d, name, depth)
		if err != nil {
			return false, err
		}
		stays = stays || kept
	}
	return stays, nil
}

// resetDir takes from a directory of a lower layer what its own entry gave it.
func (t *Tree) resetDir(dir int, base string) error {
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fchown(fd, 0, 0), dropXattrs(fd, nil), unix.Fchmod(fd, 0o755), unix.Close(fd))
}

// remove removes whatever has a name in a directory, with all below it.
func (t *Tree) remove(dir int, base string, depth int) error {
	if depth > maxRealDepth {
		return refuse("directories nest too deep")
	}
	t.forget()
	err := unix.Unlinkat(dir, base, 0)
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	list, err := names(fd)
	for _, name := range list {
		if err == nil {
			err = t.remove(fd, name, depth+1)
		}
	}
	_ = unix.Close(fd)
	if err != nil {
		return err
	}
	return unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
}
