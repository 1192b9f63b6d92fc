package btrfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/disk"
)

const (
	lockName = "pool.lock"
	// treesDir holds the trees where no image is needed.
	treesDir = "trees"
)

// Driver keeps trees as subvolumes. See disk.Driver for its terms.
//
// Durable: the image and the trees in it. For the life of the machine: mount and loop device. For the process: the rest.
type Driver struct {
	cfg Config
	// mnt is where the filesystem is mounted.
	mnt string
	// image is nil where Dir is on btrfs.
	image *os.File
	lock  *os.File
	caps  disk.Capabilities
	// sysfs is the filesystem's directory below /sys/fs/btrfs.
	sysfs string

	// mu is held for reading by every call, so that Close waits for them. It guards root, which is nil once closed.
	mu   sync.RWMutex
	root *os.File

	stop    context.CancelFunc
	tending sync.WaitGroup
}

var _ disk.Driver = (*Driver)(nil)

// Open makes the trees of a directory usable and starts the work in the background. Every step looks first whether it has
// been taken, by this process or one that was killed: making and formatting the image, attaching, mounting, following the
// image's size, switching quotas on, making directories.
func Open(ctx context.Context, cfg Config) (*Driver, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: cfg}
	if err := d.open(ctx); err != nil {
		d.release()
		return nil, failure(err, "open pool")
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	d.tending.Go(func() { d.tend(background) })
	return d, nil
}

func (d *Driver) open(ctx context.Context) error {
	if err := d.prepareDir(); err != nil {
		return err
	}
	direct, err := d.isDirect()
	if err != nil {
		return err
	}
	if direct {
		err = d.openDirect()
	} else {
		err = d.openImage(ctx)
	}
	if err != nil {
		return err
	}
	if d.root, err = os.Open(d.mnt); err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	if err := d.checkWritable(); err != nil {
		return err
	}
	if d.image != nil {
		if err := d.settleSize(); err != nil {
			return err
		}
	}
	if err := d.openQuotas(); err != nil {
		return err
	}
	return d.makeDirs()
}

// prepareDir makes the directory and takes its lock.
func (d *Driver) prepareDir() error {
	if err := os.MkdirAll(d.cfg.Dir, 0o711); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if err := d.lockDir(); err != nil {
		return err
	}
	return d.guard(d.cfg.Dir)
}

// lockDir takes the lock of a directory that is there: two drivers on one image would each attach it.
func (d *Driver) lockDir() error {
	dir, err := filepath.EvalSymlinks(d.cfg.Dir)
	if err != nil {
		return err
	}
	// Absolute and without links, as the kernel lists mounts.
	if d.cfg.Dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	d.mnt = filepath.Join(d.cfg.Dir, mountDir)
	if d.lock, err = os.OpenFile(filepath.Join(d.cfg.Dir, lockName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return core.Wrap(core.CodeConflict, err, "another process uses the pool in %s", d.cfg.Dir)
	}
	return nil
}

// guard lets nobody but root list a directory, and only OwnerGID pass through it.
func (d *Driver) guard(dir string) error {
	mode := os.FileMode(0o711)
	if d.cfg.OwnerGID != 0 {
		mode = 0o710
	}
	if err := os.Chown(dir, 0, d.cfg.OwnerGID); err != nil {
		return fmt.Errorf("guard directory: %w", err)
	}
	return os.Chmod(dir, mode)
}

// isDirect says whether trees are made in Dir itself. An image that is there holds trees, so it is used in any case.
func (d *Driver) isDirect() (bool, error) {
	_, err := os.Stat(filepath.Join(d.cfg.Dir, imageName))
	if err == nil {
		return false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(d.cfg.Dir, &st); err != nil {
		return false, fmt.Errorf("statfs %s: %w", d.cfg.Dir, err)
	}
	return st.Type == unix.BTRFS_SUPER_MAGIC, nil
}

// openDirect mounts Dir's own directory of trees on the mount point: the trees are then nosuid and nodev there too.
func (d *Driver) openDirect() error {
	trees := filepath.Join(d.cfg.Dir, treesDir)
	for _, dir := range []string{trees, d.mnt} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return err
		}
	}
	if d.cfg.MaxBytes != 0 {
		d.cfg.Logger.Warn("pool is on the host's own btrfs: its size limit is not enforced", "dir", d.cfg.Dir)
	}
	mounts, err := mountsAt(d.mnt)
	if err != nil {
		return err
	}
	if len(mounts) == 0 {
		return mountBind(trees, d.mnt)
	}
	if !sameFile(trees, d.mnt) {
		return d.foreignMount(mounts)
	}
	return remountBind(d.mnt)
}

func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

func (d *Driver) foreignMount(mounts []mountPoint) error {
	top := mounts[len(mounts)-1]
	return core.Errorf(core.CodeConflict, "%s is already mounted, and not with this pool (%s, %s)", d.mnt, top.fsType, top.source)
}

func (d *Driver) openImage(ctx context.Context) error {
	if err := os.Mkdir(d.mnt, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	mounts, err := mountsAt(d.mnt)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(d.cfg.Dir, imageName)); err != nil && len(mounts) > 0 {
		return d.foreignMount(mounts)
	}
	d.warnCopyOnWrite()
	if d.image, err = openImage(ctx, d.cfg); err != nil {
		return err
	}
	loop, err := findLoop(d.image)
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		if loop == nil || mounts[len(mounts)-1].source != loop.path() {
			return errors.Join(d.foreignMount(mounts), closeLoop(loop))
		}
		return closeLoop(loop)
	}
	if loop == nil {
		if loop, err = attachLoop(d.image); err != nil {
			return err
		}
	}
	defer loop.close()
	if err := loop.clearWhenUnused(); err != nil {
		return err
	}
	if err := loop.followImage(); err != nil {
		return err
	}
	return mountPool(loop.path(), d.mnt)
}

// warnCopyOnWrite tells about hosts where blocks set aside don't help: a filesystem that never overwrites in place takes
// new ones for every write.
func (d *Driver) warnCopyOnWrite() {
	const zfs, bcachefs = 0x2fc12fc1, 0xca451a4e
	var st unix.Statfs_t
	if unix.Statfs(d.cfg.Dir, &st) != nil {
		return
	}
	if st.Type == zfs || st.Type == bcachefs || st.Type == unix.BTRFS_SUPER_MAGIC {
		d.cfg.Logger.Warn("pool image lies on a copy-on-write filesystem: if the host's disk fills up, sandboxes may see i/o errors",
			"dir", d.cfg.Dir)
	}
}

// checkWritable refuses a pool that the kernel made read-only after an error.
func (d *Driver) checkWritable() error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(d.root.Fd()), &st); err != nil {
		return fmt.Errorf("statfs pool: %w", err)
	}
	if st.Type != unix.BTRFS_SUPER_MAGIC {
		return core.Errorf(core.CodeConflict, "%s is not a btrfs", d.mnt)
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return core.Errorf(core.CodeUnavailable, "the pool is read-only, since the kernel found an error in it: see dmesg")
	}
	return nil
}

// makeDirs makes the directories that hold trees, and commits them, so that a tree made later has a place in any case.
func (d *Driver) makeDirs() error {
	if err := d.guard(d.mnt); err != nil {
		return err
	}
	for _, kind := range kinds() {
		dir := filepath.Join(d.mnt, string(kind))
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := d.guard(dir); err != nil {
			return err
		}
	}
	return commit(int(d.root.Fd()))
}

func kinds() []disk.Kind {
	return []disk.Kind{disk.KindTemplate, disk.KindSandbox, disk.KindCheckpoint}
}

// release closes what the process holds. Mount and loop device stay.
func (d *Driver) release() {
	for _, f := range []*os.File{d.root, d.image, d.lock} {
		if f != nil {
			_ = f.Close()
		}
	}
	d.root = nil
}
