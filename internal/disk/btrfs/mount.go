package btrfs

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

const (
	mountDir   = "mnt"
	mountFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOATIME
)

// mountPoint is one line of mountinfo.
type mountPoint struct {
	fsType, source string
}

// mountsAt returns what is mounted on a path, the topmost last.
func mountsAt(path string) ([]mountPoint, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []mountPoint
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 2 || unescape(left[4]) != path {
			continue
		}
		found = append(found, mountPoint{fsType: right[0], source: unescape(right[1])})
	}
	return found, lines.Err()
}

// unescape undoes mountinfo's octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
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
