package btrfs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/disk"
)

// List returns every tree that is not set aside.
func (d *Driver) List(ctx context.Context) ([]disk.Tree, error) {
	end, err := d.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var trees []disk.Tree
	err = d.eachName(func(kind disk.Kind, _, name string) error {
		ref := disk.Ref{Kind: kind, ID: name}
		if ref.Check() != nil {
			return nil //nolint:nilerr // no tree of ours has such a name
		}
		tree, err := d.lookAt(ref)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		trees = append(trees, tree)
		return err
	})
	if err != nil {
		return nil, disk.Failure(err, "list trees")
	}
	return trees, nil
}

// eachName calls f with every name in the directories that hold trees.
func (d *Driver) eachName(f func(kind disk.Kind, dir, name string) error) error {
	for _, kind := range kinds() {
		for shard := range shards {
			dir := filepath.Join(d.pool.mnt, string(kind), shardName(shard))
			names, err := readNames(dir)
			if err != nil {
				return err
			}
			for _, name := range names {
				if err := f(kind, dir, name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func (d *Driver) lookAt(ref disk.Ref) (disk.Tree, error) {
	f, err := d.openTree(ref)
	if err != nil {
		return disk.Tree{}, err
	}
	defer f.Close()
	info, err := subvolumeInfo(int(f.Fd()))
	if err != nil {
		return disk.Tree{}, err
	}
	frozen := info.flags&rootReadOnly != 0
	cloned := info.parentUUID != [16]byte{}
	return disk.Tree{Ref: ref, Frozen: frozen, Complete: frozen || cloned}, nil
}

// A tree that is set aside stays where it is, as <id>.<unix nanoseconds>: the kernel lets a read-only subvolume change its
// name but not its directory, and a dot is in no id.

// Quarantine sets a tree aside.
func (d *Driver) Quarantine(ctx context.Context, ref disk.Ref) error {
	end, err := d.begin(ctx, ref)
	if err != nil {
		return err
	}
	defer end()
	aside := d.treePath(ref) + "." + strconv.FormatInt(time.Now().UnixNano(), 10)
	err = unix.Renameat2(unix.AT_FDCWD, d.treePath(ref), unix.AT_FDCWD, aside, unix.RENAME_NOREPLACE)
	if err != nil {
		return disk.Failure(err, "set tree aside")
	}
	return disk.Failure(commit(int(d.pool.root.Fd())), "commit setting aside")
}

// PurgeQuarantine removes what was set aside longer ago than age.
func (d *Driver) PurgeQuarantine(ctx context.Context, age time.Duration) (int, error) {
	end, err := d.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	purged := 0
	err = d.eachName(func(_ disk.Kind, dir, name string) error {
		since, ok := asideSince(name)
		if !ok || time.Since(since) < age {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := destroy(dir, name); err != nil {
			return err
		}
		purged++
		return nil
	})
	return purged, disk.Failure(err, "purge")
}

// asideSince tells since when a name is set aside.
func asideSince(name string) (time.Time, bool) {
	_, text, ok := strings.Cut(name, ".")
	nanos, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(0, nanos), ok && err == nil
}

// Space returns what the trees have.
func (d *Driver) Space(ctx context.Context) (disk.Space, error) {
	end, err := d.begin(ctx)
	if err != nil {
		return disk.Space{}, err
	}
	defer end()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(d.pool.root.Fd()), &st); err != nil {
		return disk.Space{}, disk.Failure(err, "statfs pool")
	}
	total, free := int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
	if d.pool.image == nil {
		return disk.Space{
			TotalBytes:     total,
			FreeBytes:      max(0, free-d.pool.cfg.MinHostFree),
			AllocatedBytes: total - int64(st.Bfree)*st.Bsize,
		}, nil
	}
	var image unix.Stat_t
	if err := unix.Fstat(int(d.pool.image.Fd()), &image); err != nil {
		return disk.Space{}, disk.Failure(err, "stat image")
	}
	dev, err := deviceInfo(int(d.pool.root.Fd()), 1)
	if err != nil {
		return disk.Space{}, disk.Failure(err, "look at pool's device")
	}
	more, err := room(d.pool.cfg, image.Size, 1<<62)
	if err != nil {
		return disk.Space{}, disk.Failure(err, "look for room")
	}
	// While the pool grows, the image is larger than the file system for a moment.
	more += max(0, image.Size-int64(dev.totalBytes))
	return disk.Space{
		TotalBytes:     int64(dev.totalBytes) + more,
		FreeBytes:      free + more,
		AllocatedBytes: image.Blocks * 512,
	}, nil
}
