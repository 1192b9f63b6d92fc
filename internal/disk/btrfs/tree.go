package btrfs

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/disk"
)

// A tree is the subvolume <kind>/<shard>/<id>. What it is can be read from the kernel's own record of it, so that no marker of ours
// can disagree with it: frozen is the read-only flag; a tree that Create made has no parent, and is complete once frozen.

// begin checks what every call on a tree checks, and holds the driver open until end is called.
func (d *Driver) begin(ctx context.Context, refs ...disk.Ref) (end func(), err error) {
	for _, ref := range refs {
		if err := ref.Check(); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, disk.Failure(err, "begin")
	}
	d.mu.RLock()
	if d.pool.root == nil {
		d.mu.RUnlock()
		return nil, core.Errorf(core.CodeUnavailable, "the node is shutting down")
	}
	return d.mu.RUnlock, nil
}

// shards is how many directories trees of a kind are spread over, by their ids. The kernel makes one clone at a time in a
// directory, with a commit each; clones in different directories share one.
const shards = 32

func shardOf(id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return shardName(int(h.Sum32() % shards))
}

func shardName(n int) string { return fmt.Sprintf("%02x", n) }

// dirOf is the directory that holds a tree.
func (d *Driver) dirOf(ref disk.Ref) string {
	return filepath.Join(d.pool.mnt, string(ref.Kind), shardOf(ref.ID))
}

func (d *Driver) treePath(ref disk.Ref) string { return filepath.Join(d.dirOf(ref), ref.ID) }

// openTree opens a tree's root directory without following a link.
func (d *Driver) openTree(ref disk.Ref) (*os.File, error) {
	path := d.treePath(ref)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = f.Close()
		return nil, err
	}
	if st.Ino != subvolRootInode {
		_ = f.Close()
		return nil, fmt.Errorf("%s is not a subvolume", path)
	}
	return f, nil
}

// Capabilities says what can be done here.
func (d *Driver) Capabilities() disk.Capabilities { return d.pool.caps }

// Create makes an empty writable tree.
func (d *Driver) Create(ctx context.Context, ref disk.Ref) (string, error) {
	end, err := d.begin(ctx, ref)
	if err != nil {
		return "", err
	}
	defer end()
	dir, err := os.Open(d.dirOf(ref))
	if err != nil {
		return "", disk.Failure(err, "create tree")
	}
	defer dir.Close()
	if err := createSubvolume(int(dir.Fd()), ref.ID); err != nil {
		return "", disk.Failure(err, "create tree")
	}
	// The process's umask is not the tree's.
	if err := os.Chmod(d.treePath(ref), 0o755); err != nil {
		return "", disk.Failure(errors.Join(err, destroy(d.dirOf(ref), ref.ID)), "create tree")
	}
	return d.treePath(ref), nil
}

// Clone makes a tree from another one. The kernel commits the clone, with its limit, before it returns.
func (d *Driver) Clone(ctx context.Context, from, to disk.Ref, opts disk.CloneOptions) (string, error) {
	end, err := d.begin(ctx, from, to)
	if err != nil {
		return "", err
	}
	defer end()
	if err := d.clone(from, d.dirOf(to), to.ID, opts); err != nil {
		return "", err
	}
	return d.treePath(to), nil
}

// clone makes a clone of a tree under a name in a directory.
func (d *Driver) clone(from disk.Ref, path, name string, opts disk.CloneOptions) error {
	if err := opts.Check(); err != nil {
		return err
	}
	if opts.LimitBytes > 0 && !d.pool.caps.Quota {
		return core.Errorf(core.CodeUnsupported, "%s", d.pool.caps.QuotaReason)
	}
	source, err := d.openTree(from)
	if err != nil {
		return disk.Failure(err, "open source")
	}
	defer source.Close()
	info, err := subvolumeInfo(int(source.Fd()))
	if err != nil {
		return disk.Failure(err, "look at source")
	}
	if info.flags&rootReadOnly == 0 {
		if err := flush(source, opts.Live); err != nil {
			return err
		}
	}
	dir, err := os.Open(path)
	if err != nil {
		return disk.Failure(err, "clone tree")
	}
	defer dir.Close()
	return disk.Failure(cloneSubvolume(int(dir.Fd()), int(source.Fd()), name, opts), "clone tree")
}

// flush writes out what was written to a tree that may still be written, if it may be cloned so. The clone has what is on the disk: what
// the kernel flushes by itself while it clones leaves out pages that were dirtied anew during their write-back.
func flush(source *os.File, live bool) error {
	if !live {
		return core.Errorf(core.CodeConflict, "a tree must be frozen before it is cloned")
	}
	return disk.Failure(unix.Syncfs(int(source.Fd())), "flush source")
}

// Flush writes out what has been written to a tree, and with it to all others: the kernel has no smaller step.
func (d *Driver) Flush(ctx context.Context, ref disk.Ref) error {
	end, err := d.begin(ctx, ref)
	if err != nil {
		return err
	}
	defer end()
	tree, err := d.openTree(ref)
	if err != nil {
		return disk.Failure(err, "open tree")
	}
	defer tree.Close()
	return flush(tree, true)
}

// Freeze makes a tree durable and then immutable. In this order: whoever finds it frozen after a power loss finds all of it.
func (d *Driver) Freeze(ctx context.Context, ref disk.Ref) error {
	end, err := d.begin(ctx, ref)
	if err != nil {
		return err
	}
	defer end()
	tree, err := d.openTree(ref)
	if err != nil {
		return disk.Failure(err, "open tree")
	}
	defer tree.Close()
	info, err := subvolumeInfo(int(tree.Fd()))
	if err != nil {
		return disk.Failure(err, "look at tree")
	}
	if info.flags&rootReadOnly != 0 {
		return nil
	}
	if err := unix.Syncfs(int(tree.Fd())); err != nil {
		return disk.Failure(err, "sync tree")
	}
	return disk.Failure(setReadOnly(int(tree.Fd())), "freeze tree")
}

// Path returns a tree's host path.
func (d *Driver) Path(ref disk.Ref) (string, error) {
	end, err := d.begin(context.Background(), ref)
	if err != nil {
		return "", err
	}
	defer end()
	path := d.treePath(ref)
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", disk.Failure(err, "look at tree")
	}
	if st.Ino != subvolRootInode {
		return "", core.Errorf(core.CodeNotFound, "no such tree")
	}
	return path, nil
}

// Delete unlinks a tree and commits; the kernel's cleaner frees what it held, in the background and across restarts.
func (d *Driver) Delete(ctx context.Context, ref disk.Ref) error {
	end, err := d.begin(ctx, ref)
	if err != nil {
		return err
	}
	defer end()
	return destroy(d.dirOf(ref), ref.ID)
}

func destroy(path, name string) error {
	dir, err := os.Open(path)
	if err != nil {
		return disk.Failure(err, "delete tree")
	}
	defer dir.Close()
	err = destroySubvolume(int(dir.Fd()), name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return disk.Failure(err, "delete tree")
	}
	return disk.Failure(commit(int(dir.Fd())), "commit delete")
}

// Limit changes the limit of a tree.
func (d *Driver) Limit(ctx context.Context, ref disk.Ref, bytes int64) error {
	end, err := d.begin(ctx, ref)
	if err != nil {
		return err
	}
	defer end()
	if bytes <= 0 {
		return core.Errorf(core.CodeInvalid, "a limit is above zero")
	}
	tree, err := d.openTree(ref)
	if err != nil {
		return disk.Failure(err, "open tree")
	}
	defer tree.Close()
	if !d.pool.caps.Quota {
		return core.Errorf(core.CodeUnsupported, "%s", d.pool.caps.QuotaReason)
	}
	info, err := subvolumeInfo(int(tree.Fd()))
	if err == nil {
		err = limitSubvolume(int(tree.Fd()), info.treeID, bytes)
	}
	return disk.Failure(err, "limit tree")
}

// Usage returns what a tree keeps of its own writes. Bytes that were overwritten count until the kernel has freed them.
func (d *Driver) Usage(ctx context.Context, ref disk.Ref) (disk.Usage, error) {
	end, err := d.begin(ctx, ref)
	if err != nil {
		return disk.Usage{}, err
	}
	defer end()
	tree, err := d.openTree(ref)
	if err != nil {
		return disk.Usage{}, disk.Failure(err, "open tree")
	}
	defer tree.Close()
	if !d.pool.caps.Quota {
		return disk.Usage{WrittenBytes: -1}, nil
	}
	info, err := subvolumeInfo(int(tree.Fd()))
	if err != nil {
		return disk.Usage{}, disk.Failure(err, "look at tree")
	}
	bytes, err := d.pool.written(info.treeID)
	return disk.Usage{WrittenBytes: bytes, Origin: d.pool.origin(info.treeID)}, disk.Failure(err, "usage")
}

// Written returns what is kept of a tree's own writes, whether the tree is there or not: the kernel keeps its quota group for as long.
func (d *Driver) Written(ctx context.Context, origin string) (int64, error) {
	end, err := d.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	if !d.pool.caps.Quota {
		return 0, core.Errorf(core.CodeUnsupported, "%s", d.pool.caps.QuotaReason)
	}
	id, ok := d.pool.originID(origin)
	if !ok {
		return 0, nil // another pool's: nothing is kept of it here
	}
	bytes, err := d.pool.written(id)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return bytes, disk.Failure(err, "usage")
}
