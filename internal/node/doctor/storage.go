package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const gib = 1 << 30

// filesystems names those that matter here by their magic number.
func filesystems() map[int64]string {
	return map[int64]string{
		unix.BTRFS_SUPER_MAGIC: "btrfs", unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.TMPFS_MAGIC: "tmpfs",
		unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "nfs", unix.FUSE_SUPER_MAGIC: "fuse",
		unix.F2FS_SUPER_MAGIC: "f2fs", unix.RAMFS_MAGIC: "ramfs", unix.CIFS_SUPER_MAGIC: "cifs", 0x2fc12fc1: "zfs",
	}
}

// dataStat looks at the filesystem of the data directory, or of the nearest directory above that exists.
func (h host) dataStat(opts Options) (st unix.Statfs_t, kind, at string, err error) {
	at = filepath.Clean(opts.DataDir)
	for !h.exists(at) && at != filepath.Dir(at) {
		at = filepath.Dir(at)
	}
	st, err = h.statfs(filepath.Join(h.root, at))
	if err != nil {
		return st, "", at, err
	}
	kind = filesystems()[st.Type]
	if kind == "" {
		kind = fmt.Sprintf("type %#x", st.Type)
	}
	return st, kind, at, nil
}

// checkDataDir looks at the data directory's filesystem and the room on it.
func checkDataDir(_ context.Context, h host, opts Options) Check {
	const name = "data directory"
	st, kind, at, err := h.dataStat(opts)
	if err != nil {
		return Check{name, Fail, at + " can't be looked at: " + err.Error(), "nothing can be kept", "choose another with --data-dir"}
	}
	free := int64(st.Bavail) * st.Bsize
	found := fmt.Sprintf("%s on %s, %.1f GiB free", opts.DataDir, kind, float64(free)/gib)
	const choose = "choose a directory on a local disk with --data-dir"
	switch {
	case st.Flags&unix.ST_NOEXEC != 0:
		return Check{
			name, Fail, found + ", mounted noexec", "sandboxes can't start: their programs lie in the data directory",
			"mount -o remount,exec " + at,
		}
	case st.Flags&unix.ST_RDONLY != 0:
		return Check{name, Fail, found + ", mounted read-only", "nothing can be kept", "mount -o remount,rw " + at}
	case kind == "nfs" || kind == "cifs":
		return Check{name, Fail, found, "a network filesystem can't hold the pool of trees or the database safely", choose}
	case free < 2*gib:
		return Check{name, Fail, found, "there is no room for a template", "free at least 20 GiB, or " + choose}
	case kind == "tmpfs" || kind == "ramfs":
		return Check{name, Warn, found, "everything is in memory: it uses that up and is gone after a reboot", choose}
	case kind == "overlay" || kind == "fuse":
		return Check{name, Warn, found, "slow, and in a container gone with it", "mount a volume there, or " + choose}
	case free < 20*gib:
		return Check{name, Warn, found, "templates need about 1 GiB, and sandboxes what they write: there is room for few", "free at least 20 GiB, or " + choose}
	}
	return good(name, "%s", found)
}

// onBtrfs reports whether the data directory needs no pool image.
func (h host) onBtrfs(opts Options) bool {
	_, kind, _, err := h.dataStat(opts)
	return err == nil && kind == "btrfs"
}

// checkBtrfs looks whether the kernel can mount btrfs, which clones trees.
func checkBtrfs(_ context.Context, h host, _ Options) Check {
	const name = "btrfs"
	text, _ := h.read("proc/filesystems")
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) == "btrfs" {
			return good(name, "in the running kernel")
		}
	}
	if h.loadable("btrfs") {
		return good(name, "a module that is loaded on demand")
	}
	return Check{
		name, Fail, "the kernel has no btrfs", "sandboxes' files can't be kept: trees are cloned by btrfs",
		"install the kernel's extra modules (apt-get install linux-modules-extra-" + h.release + "), or use Debian's or Ubuntu's own kernel",
	}
}

// checkMkfs looks for the program that formats the pool image.
func checkMkfs(_ context.Context, h host, opts Options) Check {
	const name = "mkfs.btrfs"
	path, err := h.lookPath("mkfs.btrfs")
	switch {
	case err == nil:
		return good(name, "%s", path)
	case h.onBtrfs(opts):
		return good(name, "not there and not needed: the data directory is on btrfs")
	case h.exists(filepath.Join(opts.DataDir, "pool.img")):
		return good(name, "not there; the pool is made already")
	}
	return Check{name, Fail, "not there", "the pool for sandboxes' files can't be made", "apt-get install btrfs-progs"}
}

// checkLoop looks for loop devices, by which the pool image is mounted.
func checkLoop(_ context.Context, h host, opts Options) Check {
	const name = "loop devices"
	switch {
	case h.onBtrfs(opts):
		return good(name, "not needed: the data directory is on btrfs")
	case h.exists("dev/loop-control"):
		return good(name, "/dev/loop-control is there")
	case h.loadable("loop"):
		return Check{name, Warn, "the module is there, but not loaded", "the pool for sandboxes' files can't be mounted before it is", "modprobe loop"}
	}
	return Check{
		name, Fail, "/dev/loop-control is missing", "the pool for sandboxes' files can't be mounted",
		"modprobe loop; in a container, pass the device on (docker run --privileged -v /dev:/dev); or put the data directory on btrfs",
	}
}

// checkQuotas looks whether btrfs can count a clone's own writes at a constant cost: simple quotas, since Linux 6.7.
func checkQuotas(_ context.Context, h host, _ Options) Check {
	const name = "disk quotas"
	if h.kernelAtLeast(6, 7) {
		return good(name, "simple quotas, since Linux 6.7")
	}
	return Check{
		name, Warn, "Linux " + h.release + " has no simple quotas", "a sandbox's disk limit is not enforced, and one that names a limit is refused",
		"install Linux 6.7 or newer; on Debian 12: apt-get install -t bookworm-backports linux-image-" + h.arch,
	}
}
