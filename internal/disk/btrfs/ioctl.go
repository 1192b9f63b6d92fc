package btrfs

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"shoal/internal/disk"
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
	ioctlQgroupLimit    = ior | unsafe.Sizeof(qgroupLimitArgs{})<<16 | ioctlMagic<<8 | 43
	ioctlSubvolInfo     = ior | unsafe.Sizeof(subvolInfoArgs{})<<16 | ioctlMagic<<8 | 60
	ioctlSnapDestroyV2  = iow | unsafe.Sizeof(volArgsV2{})<<16 | ioctlMagic<<8 | 63

	subvolReadOnly      = 1 << 1 // of BTRFS_IOC_SUBVOL_SETFLAGS and BTRFS_IOC_SNAP_CREATE_V2
	subvolQgroupInherit = 1 << 2 // of BTRFS_IOC_SNAP_CREATE_V2
	rootReadOnly        = 1 << 0 // of a root item, as BTRFS_IOC_GET_SUBVOL_INFO returns it

	inheritSetLimits   = 1 << 0
	limitMaxReferenced = 1 << 0
	quotaEnableSimple  = 4 // BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA, since Linux 6.7

	// subvolRootInode is the inode number of every subvolume's root directory.
	subvolRootInode = 256
)

type volArgs struct {
	_    int64
	name [4088]byte
}

type volArgsV2 struct {
	fd    int64
	_     uint64
	flags uint64
	// size and inherit are a union with four reserved words.
	size    uint64
	inherit *qgroupInherit
	_       [2]uint64
	name    [4040]byte
}

type qgroupLimit struct {
	flags, maxReferenced uint64
	_                    [3]uint64
}

type qgroupInherit struct {
	flags uint64
	_     [3]uint64
	limit qgroupLimit
}

type qgroupCreateArgs struct {
	_        uint64 // zero removes
	qgroupID uint64
}

type qgroupLimitArgs struct {
	qgroupID uint64
	limit    qgroupLimit
}

type quotaCtlArgs struct {
	cmd uint64
	_   uint64
}

type subvolInfoArgs struct {
	treeID     uint64
	_          [256]byte // name
	_          [3]uint64 // parent, directory, generation
	flags      uint64
	_          [16]byte // uuid
	parentUUID [16]byte
	_          [16]byte   // received uuid
	_          [20]uint64 // transactions, times and what is reserved
}

type fsInfoArgs struct {
	_    [2]uint64
	fsid [16]byte
	_    [992]byte
}

type devInfoArgs struct {
	devID                 uint64
	_                     [16]byte
	bytesUsed, totalBytes uint64
	_                     [379]uint64
	_                     [1024]byte // path
}

// ioctl does a request with the argument struct that it is defined for; arg is nil where it has none.
func ioctl[T any](fd int, request uintptr, arg *T) error {
	for {
		//nolint:gosec // this is what an ioctl takes; every request is used with its own struct, in this file
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(arg)))
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
	return ioctl(dir, ioctlSubvolCreateV2, &args)
}

// cloneSubvolume makes a snapshot of a subvolume in a directory, writable unless it is to be frozen. That, or a limit above zero, is
// set in the same transaction, so that no crash leaves a clone without it.
func cloneSubvolume(dir, source int, name string, opts disk.CloneOptions) error {
	args := volArgsV2{fd: int64(source)}
	copy(args.name[:len(args.name)-1], name)
	if opts.Frozen {
		args.flags |= subvolReadOnly
	}
	if limit := opts.LimitBytes; limit > 0 {
		inherit := &qgroupInherit{flags: inheritSetLimits}
		inherit.limit = qgroupLimit{flags: limitMaxReferenced, maxReferenced: uint64(limit)}
		args.flags |= subvolQgroupInherit
		args.size = uint64(unsafe.Sizeof(*inherit))
		args.inherit = inherit
	}
	return ioctl(dir, ioctlSnapCreateV2, &args)
}

// limitSubvolume bounds what a subvolume, which is its own quota group, may keep of its writes.
func limitSubvolume(tree int, subvolume uint64, bytes int64) error {
	return ioctl(tree, ioctlQgroupLimit, &qgroupLimitArgs{
		qgroupID: subvolume, limit: qgroupLimit{flags: limitMaxReferenced, maxReferenced: uint64(bytes)},
	})
}

// destroySubvolume unlinks a subvolume; the kernel's cleaner frees its extents later.
func destroySubvolume(dir int, name string) error {
	var args volArgsV2
	copy(args.name[:len(args.name)-1], name)
	return ioctl(dir, ioctlSnapDestroyV2, &args)
}

// setReadOnly makes a subvolume immutable. The kernel commits the change before it returns.
func setReadOnly(fd int) error {
	flags := uint64(subvolReadOnly)
	return ioctl(fd, ioctlSubvolSetFlags, &flags)
}

func subvolumeInfo(fd int) (subvolInfoArgs, error) {
	var args subvolInfoArgs
	err := ioctl(fd, ioctlSubvolInfo, &args)
	return args, err
}

func filesystemInfo(fd int) (fsInfoArgs, error) {
	var args fsInfoArgs
	err := ioctl(fd, ioctlFSInfo, &args)
	return args, err
}

func deviceInfo(fd int, id uint64) (devInfoArgs, error) {
	args := devInfoArgs{devID: id}
	err := ioctl(fd, ioctlDevInfo, &args)
	return args, err
}

// resizeToDevice grows the filesystem to the size of its only device.
func resizeToDevice(fd int) error {
	var args volArgs
	copy(args.name[:], "1:max")
	return ioctl(fd, ioctlResize, &args)
}

// commit makes everything that was done in the filesystem so far durable. Concurrent callers share one commit.
func commit(fd int) error { return ioctl[struct{}](fd, ioctlSync, nil) }

func enableSimpleQuotas(fd int) error {
	args := quotaCtlArgs{cmd: quotaEnableSimple}
	return ioctl(fd, ioctlQuotaCtl, &args)
}

// removeQgroup removes a quota group, EBUSY if extents are still counted in it.
func removeQgroup(fd int, id uint64) error {
	args := qgroupCreateArgs{qgroupID: id}
	return ioctl(fd, ioctlQgroupCreate, &args)
}
