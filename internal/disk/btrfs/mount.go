package btrfs

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/mountinfo"
)

const (
	mountDir   = "mnt"
	mountFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOATIME
)

// MountPoint is where the pool of a directory is mounted.
func MountPoint(dir string) string { return filepath.Join(dir, mountDir) }

// mountsAt returns what is mounted on a path, the topmost last.
func mountsAt(path string) ([]mountinfo.Mount, error) {
	all, err := mountinfo.Read(mountinfo.Self)
	return slices.DeleteFunc(all, func(m mountinfo.Mount) bool { return m.Point != path }), err
}

// mountPool mounts the pool's loop device, nodiscard so that no block of the image is ever given back to the host.
func mountPool(device, target string) error {
	err := unix.Mount(device, target, "btrfs", mountFlags, "nodiscard,subvolid=5")
	switch {
	case errors.Is(err, unix.ENODEV):
		return core.Wrap(core.CodeUnavailable, err, "the kernel has no btrfs: load the module (modprobe btrfs) or install the package with extra kernel modules")
	case errors.Is(err, unix.EPERM):
		return core.Wrap(core.CodeDenied, err, "mounting the pool needs root and CAP_SYS_ADMIN on the host")
	case err != nil:
		return fmt.Errorf("mount %s: %w", device, err)
	}
	return nil
}

// mountBind mounts a directory of a btrfs that is there already, so that it too is nosuid and nodev.
func mountBind(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		if errors.Is(err, unix.EPERM) {
			return core.Wrap(core.CodeDenied, err, "mounting the directory of trees needs root and CAP_SYS_ADMIN on the host")
		}
		return fmt.Errorf("bind %s: %w", source, err)
	}
	return remountBind(target)
}

func remountBind(target string) error {
	if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|mountFlags, ""); err != nil {
		return fmt.Errorf("remount %s: %w", target, err)
	}
	return nil
}
