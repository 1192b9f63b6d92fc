package btrfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/mountinfo"
)

const (
	lockName = "pool.lock"
	// treesDir holds the trees where no image is needed.
	treesDir = "trees"
)

// Driver keeps trees as subvolumes. See disk.Driver for its terms.
type Driver struct {
	// mu is held for reading by every call, so that Close waits for them. It guards pool.root, which is nil once closed.
	mu   sync.RWMutex
	pool pool

	stop    context.CancelFunc
	tending sync.WaitGroup
}

var _ disk.Driver = (*Driver)(nil)

// pool is the file system that trees lie in, and its bring-up.
//
// Durable: the image and the trees in it. For the life of the machine: mount and loop device. For the process: the rest.
type pool struct {
	cfg Config
	// mnt is where the file system is mounted, and root that directory, open.
	mnt  string
	root *os.File
	// image is nil where Dir is on btrfs.
	image *os.File
	lock  *os.File
	caps  disk.Capabilities
	// sysfs is the file system's directory below /sys/fs/btrfs.
	sysfs string
}

// Open makes the trees of a directory usable and starts the work in the background. Every step looks first whether it has
// been taken, by this process or one that was killed: making and formatting the image, attaching, mounting, following the
// image's size, switching quotas on, making directories.
func Open(ctx context.Context, cfg Config) (*Driver, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Driver{pool: pool{cfg: cfg}}
	if err := d.pool.open(ctx); err != nil {
		d.pool.release()
		return nil, disk.Failure(err, "open pool")
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	d.tending.Go(func() { d.pool.tend(background) })
	return d, nil
}

func (p *pool) open(ctx context.Context) error {
	if err := p.prepareDir(); err != nil {
		return err
	}
	direct, err := p.isDirect()
	if err != nil {
		return err
	}
	if direct {
		err = p.openDirect()
	} else {
		err = p.openImage(ctx)
	}
	if err != nil {
		return err
	}
	if p.root, err = os.Open(p.mnt); err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	if err := p.checkWritable(); err != nil {
		return err
	}
	if p.image != nil {
		if err := p.settleSize(); err != nil {
			return err
		}
	}
	if err := p.openQuotas(); err != nil {
		return err
	}
	return p.makeDirs()
}

// prepareDir makes the directory and takes its lock.
func (p *pool) prepareDir() error {
	if err := os.MkdirAll(p.cfg.Dir, 0o711); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if err := p.lockDir(); err != nil {
		return err
	}
	return p.guard(p.cfg.Dir)
}

// lockDir takes the lock of a directory that is there: two drivers on one image would each attach it.
func (p *pool) lockDir() error {
	dir, err := filepath.EvalSymlinks(p.cfg.Dir)
	if err != nil {
		return err
	}
	// Absolute and without links, as the kernel lists mounts.
	if p.cfg.Dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	p.mnt = MountPoint(p.cfg.Dir)
	if p.lock, err = os.OpenFile(filepath.Join(p.cfg.Dir, lockName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(p.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return core.Wrap(core.CodeConflict, err, "another process uses the pool in %s", p.cfg.Dir)
	}
	return nil
}

// guard lets nobody but root list a directory or pass through it, but for OwnerGID, which may pass.
func (p *pool) guard(dir string) error {
	mode := os.FileMode(0o700)
	if p.cfg.OwnerGID != 0 {
		mode = 0o710
	}
	if err := os.Chown(dir, 0, p.cfg.OwnerGID); err != nil {
		return fmt.Errorf("guard directory: %w", err)
	}
	return os.Chmod(dir, mode)
}

// isDirect says whether trees are made in Dir itself. An image that is there holds trees, so it is used in any case.
func (p *pool) isDirect() (bool, error) {
	_, err := os.Stat(filepath.Join(p.cfg.Dir, imageName))
	if err == nil {
		return false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(p.cfg.Dir, &st); err != nil {
		return false, fmt.Errorf("statfs %s: %w", p.cfg.Dir, err)
	}
	return st.Type == unix.BTRFS_SUPER_MAGIC, nil
}

// openDirect mounts Dir's own directory of trees on the mount point: the trees are then nosuid and nodev there too.
func (p *pool) openDirect() error {
	trees := filepath.Join(p.cfg.Dir, treesDir)
	for _, dir := range []string{trees, p.mnt} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return err
		}
	}
	if p.cfg.MaxBytes != 0 {
		p.cfg.Logger.Warn("pool is on the host's own btrfs: its size limit is not enforced", slog.String("dir", p.cfg.Dir))
	}
	mounts, err := mountsAt(p.mnt)
	if err != nil {
		return err
	}
	if len(mounts) == 0 {
		return mountBind(trees, p.mnt)
	}
	if !sameFile(trees, p.mnt) {
		return p.foreignMount(mounts)
	}
	return remountBind(p.mnt)
}

func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

func (p *pool) foreignMount(mounts []mountinfo.Mount) error {
	top := mounts[len(mounts)-1]
	return core.Errorf(core.CodeConflict, "%s is already mounted, and not with this pool (%s, %s)", p.mnt, top.Type, top.Source)
}

func (p *pool) openImage(ctx context.Context) error {
	if err := os.Mkdir(p.mnt, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := p.dropReadOnly(); err != nil {
		return err
	}
	mounts, err := mountsAt(p.mnt)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(p.cfg.Dir, imageName)); err != nil && len(mounts) > 0 {
		return p.foreignMount(mounts)
	}
	p.warnCopyOnWrite()
	if p.image, err = openImage(ctx, p.cfg); err != nil {
		return err
	}
	loop, err := findLoop(p.image)
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		if loop == nil || mounts[len(mounts)-1].Source != loop.path() {
			return errors.Join(p.foreignMount(mounts), closeLoop(loop))
		}
		return closeLoop(loop)
	}
	if loop == nil {
		if loop, err = attachLoop(p.image); err != nil {
			return err
		}
	}
	defer func() { _ = loop.close() }()
	if err := loop.clearWhenUnused(); err != nil {
		return err
	}
	if err := loop.followImage(); err != nil {
		return err
	}
	return mountPool(loop.path(), p.mnt)
}

// dropReadOnly unmounts a pool that the kernel made read-only after an error, so that it is mounted afresh: btrfs then
// goes on from its last commit. While sandboxes use it that isn't possible, and checkWritable tells.
func (p *pool) dropReadOnly() error {
	var st unix.Statfs_t
	if err := unix.Statfs(p.mnt, &st); err != nil {
		return fmt.Errorf("statfs pool: %w", err)
	}
	if st.Type != unix.BTRFS_SUPER_MAGIC || st.Flags&unix.ST_RDONLY == 0 {
		return nil
	}
	if err := unmountAll(p.mnt); err != nil && !core.IsCode(err, core.CodeConflict) {
		return err
	}
	return nil
}

// warnCopyOnWrite tells about hosts where blocks set aside don't help: a filesystem that never overwrites in place takes
// new ones for every write.
func (p *pool) warnCopyOnWrite() {
	const zfs, bcachefs = 0x2fc12fc1, 0xca451a4e
	var st unix.Statfs_t
	if unix.Statfs(p.cfg.Dir, &st) != nil {
		return
	}
	if st.Type == zfs || st.Type == bcachefs || st.Type == unix.BTRFS_SUPER_MAGIC {
		p.cfg.Logger.Warn("pool image lies on a copy-on-write filesystem: if the host's disk fills up, sandboxes may see i/o errors",
			slog.String("dir", p.cfg.Dir))
	}
}

// checkWritable refuses a pool that the kernel made read-only after an error.
func (p *pool) checkWritable() error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(p.root.Fd()), &st); err != nil {
		return fmt.Errorf("statfs pool: %w", err)
	}
	if st.Type != unix.BTRFS_SUPER_MAGIC {
		return core.Errorf(core.CodeConflict, "%s is not a btrfs", p.mnt)
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return core.Errorf(core.CodeUnavailable, "the pool is read-only, since the kernel found an error in it (see dmesg): end every sandbox and start the server again")
	}
	return nil
}

// makeDirs makes the directories that hold trees, rids them of what a crash has left, and commits them, so that a tree made later has a
// place in any case.
func (p *pool) makeDirs() error {
	if err := p.guard(p.mnt); err != nil {
		return err
	}
	for _, kind := range kinds() {
		dirs := []string{filepath.Join(p.mnt, string(kind))}
		for shard := range shards {
			dirs = append(dirs, filepath.Join(dirs[0], shardName(shard)))
		}
		for _, dir := range dirs {
			if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if err := p.guard(dir); err != nil {
				return err
			}
			if err := p.dropReplaced(dir); err != nil {
				return err
			}
		}
	}
	return commit(int(p.root.Fd()))
}

func kinds() []disk.Kind {
	return []disk.Kind{disk.KindTemplate, disk.KindSandbox, disk.KindCheckpoint, disk.KindView}
}

// release closes what the process holds. Mount and loop device stay.
func (p *pool) release() {
	for _, f := range []*os.File{p.root, p.image, p.lock} {
		if f != nil {
			_ = f.Close()
		}
	}
	p.root = nil
}
