package oci

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"shoal/internal/image/jail"
)

// The jail that package jail makes has the host's files at hand, read-only in effect. Before a stranger's byte is read, the face gives away
// what is left: it makes the tree its root and lets go of everything above it, drops the rights that writing a tree doesn't need, and asks
// the kernel to refuse the calls by which it could get more.

// What one unpacker may use.
const (
	maxData  = 1 << 30
	maxFiles = 1024
	maxCPU   = 3600
)

// confine makes dir, which is a mount point, all that this process sees.
func confine(dir string, fileSize int64) error {
	if err := limitResources(fileSize); err != nil {
		return err
	}
	// What was mounted for us by the more privileged can't be made a root; a mount of our own of the same can.
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	if err := unix.Chdir(dir); err != nil {
		return fmt.Errorf("enter %s: %w", dir, err)
	}
	// The old root lies on top of the new one until it is detached.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("make %s the root: %w", dir, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the old root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("enter the new root: %w", err)
	}
	if err := dropRights(); err != nil {
		return fmt.Errorf("drop rights: %w", err)
	}
	return filterCalls()
}

// confineToNothing makes an empty directory that can't be written all that this process sees.
func confineToNothing(fileSize int64) error {
	if err := unix.Mount("none", jail.Dir, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=4k,mode=555"); err != nil {
		return fmt.Errorf("mount nothing: %w", err)
	}
	return confine(jail.Dir, fileSize)
}

func limitResources(fileSize int64) error {
	for what, most := range map[int]uint64{
		unix.RLIMIT_DATA: maxData, unix.RLIMIT_NOFILE: maxFiles, unix.RLIMIT_CPU: maxCPU, unix.RLIMIT_CORE: 0,
		unix.RLIMIT_FSIZE: uint64(fileSize), unix.RLIMIT_MEMLOCK: 0,
	} {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limit resource %d: %w", what, err)
		}
	}
	return nil
}

// allThreads makes a call on every thread of this process: what the kernel keeps per thread is to hold for all.
func allThreads(nr uintptr, args ...uintptr) error {
	var a [5]uintptr
	copy(a[:], args)
	if _, _, errno := syscall.AllThreadsSyscall6(nr, a[0], a[1], a[2], a[3], a[4], 0); errno != 0 {
		return errno
	}
	return nil
}

// dropRights keeps of the capabilities in the jail's user namespace those that writing a tree takes.
func dropRights() error {
	keep := map[int]bool{
		unix.CAP_CHOWN: true, unix.CAP_DAC_OVERRIDE: true, unix.CAP_FOWNER: true, unix.CAP_FSETID: true, unix.CAP_SETFCAP: true,
	}
	var mask uint64
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		if keep[c] {
			mask |= 1 << c
			continue
		}
		// A kernel that is older than a capability doesn't know it.
		if err := allThreads(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c)); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := allThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	low, high := uint32(mask), uint32(mask>>32)
	data := [2]unix.CapUserData{{Effective: low, Permitted: low}, {Effective: high, Permitted: high}}
	var pin runtime.Pinner
	pin.Pin(&hdr)
	pin.Pin(&data)
	defer pin.Unpin()
	return allThreads(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&data))) //nolint:gosec // The kernel reads both during the call, and they are pinned.
}
