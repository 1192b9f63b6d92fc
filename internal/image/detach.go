package image

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// detachServers takes what servers have mounted out of the calling thread's mount namespace, which must be its own: pools,
// which are btrfs filesystems on loop devices, and the files that keep namespaces.
//
// A copy of such a mount would keep pool, loop device or namespace alive for as long as a bootstrap takes, whatever its owner
// does: no uninstall of another server on this host could end.
func detachServers() error {
	f, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	defer func() { _ = f.Close() }()
	points, err := serverMounts(bufio.NewScanner(f))
	if err != nil {
		return err
	}
	for _, point := range points {
		err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		// What lay below another one went with it.
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("detach %s: %w", point, err)
		}
	}
	return nil
}

// serverMounts returns the mount points of btrfs filesystems on loop devices, but for the root, and of namespaces.
func serverMounts(lines *bufio.Scanner) ([]string, error) {
	lines.Buffer(nil, 1<<20)
	var points []string
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 2 {
			continue
		}
		pool := right[0] == "btrfs" && strings.HasPrefix(right[1], "/dev/loop")
		if !pool && right[0] != "nsfs" {
			continue
		}
		// The kernel writes these four characters in octal.
		point := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(left[4])
		if point != "/" {
			points = append(points, point)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return points, nil
}
