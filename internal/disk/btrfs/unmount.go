package btrfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/disk"
)

// Close stops the work in the background and waits for calls under way. Mount and loop device stay for sandboxes.
func (d *Driver) Close() error {
	d.stop()
	d.tending.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pool.root == nil {
		return nil
	}
	err := commit(int(d.pool.root.Fd()))
	d.pool.release()
	return disk.Failure(err, "close pool")
}

// Unmount closes the driver and takes its trees out of the host's sight, as the function Unmount does.
func (d *Driver) Unmount(ctx context.Context) error {
	return errors.Join(d.Close(), Unmount(ctx, d.pool.cfg.Dir))
}

// Unmount takes the trees of a directory out of the host's sight: no mount and no loop device is left, the image stays. It
// needs no healthy pool, and fails with conflict while a driver has it open or anything uses a tree. It is idempotent.
func Unmount(ctx context.Context, dir string) error {
	p := &pool{cfg: Config{Dir: dir}}
	defer p.release()
	err := p.lockDir()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = unmountAll(p.mnt)
	}
	if err == nil {
		err = waitDetached(ctx, filepath.Join(p.cfg.Dir, imageName))
	}
	return disk.Failure(err, "unmount pool")
}

// unmountAll takes every mount off a path.
func unmountAll(path string) error {
	for {
		mounts, err := mountsAt(path)
		if err != nil || len(mounts) == 0 {
			return err
		}
		err = unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			return core.Wrap(core.CodeConflict, err, "something still uses the trees: end every sandbox first")
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
}

// waitDetached waits until the image has no loop device: the kernel detaches it a moment after the unmount, when the
// last reference is dropped.
func waitDetached(ctx context.Context, path string) error {
	image, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open image: %w", err)
	}
	defer image.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		loop, err := findLoop(image)
		if err != nil || loop == nil {
			return err
		}
		_ = loop.close()
		select {
		case <-ctx.Done():
			return core.Wrap(core.CodeConflict, ctx.Err(), "something still uses the pool's loop device %s", loop.path())
		case <-tick.C:
		}
	}
}
