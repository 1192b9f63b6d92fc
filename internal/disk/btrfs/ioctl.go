package btrfs

import (
	"bytes"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The ioctls of linux/btrfs.h that golang.org/x/sys/unix lacks. The encoding is that of amd64 and arm64.
const (
	ioctlMagic = 0x94

	iow  = 1 << 30
	ior  = 2 << 30
	iowr = 3 << 30

	ioctlResize         = iow | unsafe.Sizeof(volArgs{})<<16 | ioctlMagic<<8 | 3
	ioctlSync           = ioctlMagic<<8 | 8
	ioctlSnapCreateV2   = iow | unsafe.Sizeof(volArgsV2{})<<16 | ioctlMagic<<8 | 23
	ioctlSubvolCreateV2 = iow | unsafe.Sizeof(volArgsV2{})<<16 | ioctlMagic<<8 | 24
	ioctlSubvolSetFlags = iow | 8<<16 | ioctlMagic<<8 | 26
	ioctlDevInfo        = iowr | unsafe.Sizeof(devInfoArgs{})<<16 | ioctlMagic<<8 | 30
	ioctlFSInfo         = ior | unsafe.Sizeof(fsInfoArgs{})<<16 | ioctlMagic<<8 | 31
	ioctlQuotaCtl       = iowr | unsafe.Sizeof(quotaCtlArgs{})<<16 | ioctlMagic<<8 | 40
	ioctlQgroupCreate   = iow | unsafe.Sizeof(qgroupCreateArgs{})<<16 | ioctlMagic<<8 | 42
	ioctlSubvolInfo     = ior | unsafe.Sizeof(subvolInfoArgs{})<<16 | ioctlMagic<<8 | 60
	ioctlSnapDestroyV2  = iow | unsafe.Sizeof(volArgsV2{})<<16 | ioctlMagic<<8 | 63

	subvolReadOnly      = 1 << 1 // of BTRFS_IOC_SUBVOL_SETFLAGS
	subvolQgroupInherit = 1 << 2 // of BTRFS_IOC_SNAP_CREATE_V2
	rootReadOnly        = 1 << 0 // of a root item, as BTRFS_IOC_GET_SUBVOL_INFO returns it

	inheritSetLimits   = 1 << 0
	limitMaxReferenced = 1 << 0
	quotaEnableSimple  = 4 // BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA, since Linux 6.7

	// subvolRootInode is the inode number of every subvolume's root directory.
	subvolRootInode = 256
)

type volArgs struct {
	fd   int64
	name [4088]byte
}

type volArgsV2 struct {
	fd      int64
	transID uint64
	flags   uint64
	// size and inherit are a union with four reserved words.
	size    uint64
	inherit unsafe.Pointer
	_       [2]uint64
	name    [4040]byte
}

type qgroupLimit struct {
	flags, maxReferenced, maxExclusive, rsvReferenced, rsvExclusive uint64
}

type qgroupInherit struct {
	flags, qgroups, refCopies, exclCopies uint64
	limit                                 qgroupLimit
}

type qgroupCreateArgs struct {
	create, qgroupID uint64
}

type quotaCtlArgs struct {
	cmd, status uint64
}

type timespec struct {
	sec  uint64
	nsec uint32
	_    uint32
}

type subvolInfoArgs struct {
	treeID                                 uint64
	name                                   [256]byte
	parentID, dirID, generation, flags     uint64
	uuid, parentUUID, receivedUUID         [16]byte
	ctransID, otransID, stransID, rtransID uint64
	ctime, otime, stime, rtime             timespec
	_                                      [8]uint64
}

type fsInfoArgs struct {
	maxID, devices uint64
	fsid           [16]byte
	_              [992]byte
}

type devInfoArgs struct {
	devID                 uint64
	uuid                  [16]byte
	bytesUsed, totalBytes uint64
	_                     [379]uint64
	path                  [1024]byte
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// createSubvolume makes an empty subvolume in a directory.
func createSubvolume(dir int, name string) error {
	var args volArgsV2
	copy(args.name[:len(args.name)-1], name)
	return ioctl(dir, ioctlSubvolCreateV2, unsafe.Pointer(&args))
}

// cloneSubvolume makes a writable snapshot of a subvolume in a directory. A limit above zero is set in the same
// transaction, so that no crash leaves a clone without its limit.
func cloneSubvolume(dir, source int, name string, limit int64) error {
	args := volArgsV2{fd: int64(source)}
	copy(args.name[:len(args.name)-1], name)
	if limit > 0 {
		inherit := &qgroupInherit{flags: inheritSetLimits}
		inherit.limit = qgroupLimit{flags: limitMaxReferenced, maxReferenced: uint64(limit)}
		args.flags = subvolQgroupInherit
		args.size = uint64(unsafe.Sizeof(*inherit))
		args.inherit = unsafe.Pointer(inherit)
	}
	return ioctl(dir, ioctlSnapCreateV2, unsafe.Pointer(&args))
}

// destroySubvolume unlinks a subvolume; the kernel's cleaner frees its extents later.
func destroySubvolume(dir int, name string) error {
	var args volArgsV2
	copy(args.name[:len(args.name)-1], name)
	return ioctl(dir, ioctlSnapDestroyV2, unsafe.Pointer(&args))
}

// setReadOnly makes a subvolume immutable. The kernel commits the change before it returns.
func setReadOnly(fd int) error {
	flags := uint64(subvolReadOnly)
	return ioctl(fd, ioctlSubvolSetFlags, unsafe.Pointer(&flags))
}

func subvolumeInfo(fd int) (subvolInfoArgs, error) {
	var args subvolInfoArgs
	err := ioctl(fd, ioctlSubvolInfo, unsafe.Pointer(&args))
	return args, err
}

func filesystemInfo(fd int) (fsInfoArgs, error) {
	var args fsInfoArgs
	err := ioctl(fd, ioctlFSInfo, unsafe.Pointer(&args))
	return args, err
}

func deviceInfo(fd int, id uint64) (devInfoArgs, error) {
	args := devInfoArgs{devID: id}
	err := ioctl(fd, ioctlDevInfo, unsafe.Pointer(&args))
	return args, err
}

// resizeToDevice grows the filesystem to the size of its only device.
func resizeToDevice(fd int) error {
	var args volArgs
	copy(args.name[:], "1:max")
	return ioctl(fd, ioctlResize, unsafe.Pointer(&args))
}

// commit makes everything that was done in the filesystem so far durable. Concurrent callers share one commit.
func commit(fd int) error { return ioctl(fd, ioctlSync, nil) }

func enableSimpleQuotas(fd int) error {
	args := quotaCtlArgs{cmd: quotaEnableSimple}
	return ioctl(fd, ioctlQuotaCtl, unsafe.Pointer(&args))
}

// removeQgroup removes a quota group, EBUSY if extents are still counted in it.
func removeQgroup(fd int, id uint64) error {
	args := qgroupCreateArgs{qgroupID: id}
	return ioctl(fd, ioctlQgroupCreate, unsafe.Pointer(&args))
}

func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
