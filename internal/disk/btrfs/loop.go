package btrfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// loopDevice is an open loop device whose backing file is the image. With LO_FLAGS_AUTOCLEAR the kernel detaches it when
// nobody has it open and it isn't mounted: a process that dies between attach and mount leaves nothing, and once it is
// mounted it lives exactly as long as the mount, whatever becomes of the server.
type loopDevice struct {
	file *os.File
}

func (l *loopDevice) path() string { return l.file.Name() }

func (l *loopDevice) close() error { return l.file.Close() }

func closeLoop(l *loopDevice) error {
	if l == nil {
		return nil
	}
	return l.close()
}

// size returns the size that the device has now.
func (l *loopDevice) size() (int64, error) {
	b, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(l.path()), "size"))
	if err != nil {
		return 0, err
	}
	sectors, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return sectors * 512, err
}

// followImage makes the device as large as the image is now.
func (l *loopDevice) followImage() error {
	if err := unix.IoctlSetInt(int(l.file.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("set capacity of %s: %w", l.path(), err)
	}
	return nil
}

// clearWhenUnused sets the flag that a device which somebody else attached may lack.
func (l *loopDevice) clearWhenUnused() error {
	info, err := unix.IoctlLoopGetStatus64(int(l.file.Fd()))
	if err != nil {
		return fmt.Errorf("status of %s: %w", l.path(), err)
	}
	if info.Flags&unix.LO_FLAGS_AUTOCLEAR != 0 {
		return nil
	}
	info.Flags |= unix.LO_FLAGS_AUTOCLEAR
	if err := unix.IoctlLoopSetStatus64(int(l.file.Fd()), info); err != nil {
		return fmt.Errorf("set status of %s: %w", l.path(), err)
	}
	return nil
}

// findLoop returns the loop device of an image, nil if there is none. An image must never have two: two devices with the
// same filesystem, each with its own cache, would destroy it.
func findLoop(image *os.File) (*loopDevice, error) {
	var want unix.Stat_t
	if err := unix.Fstat(int(image.Fd()), &want); err != nil {
		return nil, fmt.Errorf("stat image: %w", err)
	}
	names, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		// A look at the name first leaves other programs' devices alone. The name may be seen from another mount
		// namespace, so only its last part counts.
		b, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(filepath.Base(strings.TrimSpace(string(b))), imageName) {
			continue
		}
		dev := "/dev/" + filepath.Base(filepath.Dir(filepath.Dir(name)))
		f, err := os.OpenFile(dev, os.O_RDONLY, 0)
		if err != nil {
			continue
		}
		info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
		if err == nil && info.Device == want.Dev && info.Inode == want.Ino {
			return &loopDevice{file: f}, nil
		}
		_ = f.Close()
	}
	return nil, nil
}

// attachLoop gives the image a loop device. Direct I/O keeps files from being cached twice, and the host's memory
// from filling with dirty pages of the image; where the host's filesystem can't, the kernel falls back by itself.
func attachLoop(image *os.File) (*loopDevice, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, core.Wrap(core.CodeUnavailable, err, "the host has no loop devices: load the kernel module loop (modprobe loop)")
	}
	defer control.Close()
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		f, err := os.OpenFile("/dev/loop"+strconv.Itoa(n), os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("open loop device: %w", err)
		}
		config := unix.LoopConfig{Fd: uint32(image.Fd()), Size: 4096}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
		copy(config.Info.File_name[:len(config.Info.File_name)-1], image.Name())
		err = unix.IoctlLoopConfigure(int(f.Fd()), &config)
		if err == nil {
			return &loopDevice{file: f}, nil
		}
		_ = f.Close()
		// Somebody else was faster.
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("attach image to %s: %w", f.Name(), err)
		}
	}
}
