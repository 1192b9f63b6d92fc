package jail

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"shoal/internal/mountinfo"
)

// detachServers takes what servers have mounted out of the calling thread's mount namespace, which must be its own: pools,
// which are btrfs filesystems on loop devices, and the files that keep namespaces.
//
// A copy of such a mount would keep pool, loop device or namespace alive for as long as a bootstrap takes, whatever its owner
// does: no uninstall of another server on this host could end.
func detachServers() error {
	all, err := mountinfo.Read("/proc/thread-self/mountinfo")
	if err != nil {
		return err
	}
	for _, point := range serverMounts(all) {
		err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		// What lay below another one went with it.
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("detach %s: %w", point, err)
		}
	}
	return nil
}

// serverMounts returns the mount points of btrfs filesystems on loop devices, but for the root, and of namespaces.
func serverMounts(all []mountinfo.Mount) []string {
	var points []string
	for _, m := range all {
		pool := m.Type == "btrfs" && strings.HasPrefix(m.Source, "/dev/loop")
		if (pool || m.Type == "nsfs") && m.Point != "/" {
			points = append(points, m.Point)
		}
	}
	return points
}
