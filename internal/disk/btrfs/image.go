package btrfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/durable"
)

const (
	imageName = "pool.img"
	// halfImagePrefix begins the name of an image that is being made. It is renamed when it holds a filesystem, so whatever
	// has such a name at start was cut off and holds nothing. The rest of the name is random: an mkfs that outlived its
	// server must not find the next image by the name of its own.
	halfImagePrefix = "pool.img.new-"
)

// openImage opens the pool image, and makes it first if there is none.
func openImage(ctx context.Context, cfg Config) (*os.File, error) {
	path := filepath.Join(cfg.Dir, imageName)
	if err := removeHalfImages(cfg.Dir); err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := makeImage(ctx, cfg, path); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	// An image that was copied may have holes now: they are filled while there is room.
	st, err := f.Stat()
	if err == nil {
		err = allocate(f, 0, st.Size())
	}
	if errors.Is(err, unix.ENOSPC) {
		cfg.Logger.Warn("pool image is sparse and the host's disk is full: sandboxes may see i/o errors", slog.String("path", path))
	} else if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("allocate %s: %w", path, err)
	}
	return f, nil
}

func makeImage(ctx context.Context, cfg Config, path string) error {
	mkfs, err := findMkfs("mkfs.btrfs", "/usr/sbin/mkfs.btrfs", "/sbin/mkfs.btrfs")
	if err != nil {
		return err
	}
	size, err := room(cfg, 0, max(cfg.GrowStep, MinImageBytes))
	if err != nil {
		return err
	}
	if size < MinImageBytes {
		return core.Errorf(core.CodeExhausted, "the host's disk has no room for a pool: it needs %d MiB beside the %d MiB that stay free",
			MinImageBytes>>20, cfg.MinHostFree>>20)
	}
	f, err := os.CreateTemp(cfg.Dir, halfImagePrefix)
	if err != nil {
		return fmt.Errorf("make image: %w", err)
	}
	half := f.Name()
	defer f.Close()
	if err := extend(f, 0, size); err != nil {
		_ = os.Remove(half)
		return err
	}
	if err := format(ctx, mkfs, half); err != nil {
		_ = os.Remove(half)
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync image: %w", err)
	}
	if err := os.Rename(half, path); err != nil {
		return fmt.Errorf("rename image: %w", err)
	}
	return durable.SyncDir(cfg.Dir)
}

func removeHalfImages(dir string) error {
	names, err := readNames(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, halfImagePrefix) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove a half-made image: %w", err)
		}
	}
	return nil
}

// findMkfs returns the first of some names that is a program. An ordinary PATH may not lead to where they lie.
func findMkfs(names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", core.Errorf(core.CodeUnavailable, "mkfs.btrfs is not installed: install the package btrfs-progs")
}

// format makes the filesystem. Metadata is kept twice: losing one block of it could lose every tenant's trees, the copy
// lets btrfs mend it by itself, and since metadata is small next to files it costs little (a clone writes a few dozen
// KiB). Data is kept once: it has checksums, and the host's disk is what makes it safe. -K, because discarding would
// punch holes into the image.
func format(ctx context.Context, mkfs, path string) error {
	cmd := exec.CommandContext(ctx, mkfs, "-q", "-K", "-f", "-d", "single", "-m", "dup", "-s", "4096", "-L", "shoal", path)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	// It dies with us; the signal is sent when the thread ends that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("mkfs.btrfs: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// room returns how much of want an image of this size may grow by, a multiple of growUnit and zero if it can't.
func room(cfg Config, size, want int64) (int64, error) {
	if cfg.MaxBytes != 0 {
		want = min(want, cfg.MaxBytes-size)
	}
	free, err := hostFree(cfg.Dir)
	if err != nil {
		return 0, err
	}
	return max(0, roundDown(min(want, free-cfg.MinHostFree))), nil
}

func hostFree(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// extend makes an image of size bytes larger by more. The blocks are taken beyond the end of the file before the file is
// said to be larger, so that at no instant part of it lacks blocks; what a failure leaves beyond the end is given back.
func extend(f *os.File, size, more int64) error {
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, size, more); err != nil {
		_ = f.Truncate(size)
		return allocationError(err)
	}
	if err := f.Truncate(size + more); err != nil {
		return fmt.Errorf("extend image: %w", err)
	}
	// The filesystem inside must never be durably larger than its image.
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync image: %w", err)
	}
	return nil
}

func allocate(f *os.File, from, size int64) error {
	if err := unix.Fallocate(int(f.Fd()), 0, from, size); err != nil {
		return allocationError(err)
	}
	return nil
}

func allocationError(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return core.Wrap(core.CodeUnsupported, err,
			"the filesystem of the data directory can't set blocks aside (fallocate): use ext4, xfs, btrfs or tmpfs")
	}
	return fmt.Errorf("allocate image: %w", err)
}
