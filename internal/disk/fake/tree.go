package fake

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/disk"
)

// Capabilities says that there are no quotas.
func (d *Driver) Capabilities() disk.Capabilities {
	return disk.Capabilities{QuotaReason: "disk limits are not enforced: trees are ordinary directories; use the btrfs driver"}
}

// Create makes an empty writable tree.
func (d *Driver) Create(ctx context.Context, ref disk.Ref) (string, error) {
	end, err := d.begin(ctx, Call{Op: OpCreate, Ref: ref}, ref)
	if err != nil {
		return "", err
	}
	defer end()
	path, err := d.place(ref, &state{}, func(dir string) error {
		return errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)) // the umask is not the tree's
	})
	return path, failure(err)
}

// Freeze takes the write permission from every file. The modes are kept, for clones.
func (d *Driver) Freeze(ctx context.Context, ref disk.Ref) error {
	end, err := d.begin(ctx, Call{Op: OpFreeze, Ref: ref}, ref)
	if err != nil {
		return err
	}
	defer end()
	home := d.home(ref)
	st, err := readState(home)
	if err != nil || st.Frozen {
		return failure(err)
	}
	modes, err := writableModes(files(home))
	if err != nil {
		return failure(err)
	}
	// A process that dies after this finishes it when it opens the directory again.
	if err := writeState(home, state{Frozen: true, Complete: true, Modes: modes}); err != nil {
		return failure(err)
	}
	return failure(takeWriteBits(files(home)))
}

// Clone copies a tree.
func (d *Driver) Clone(ctx context.Context, from, to disk.Ref, opts disk.CloneOptions) (string, error) {
	end, err := d.begin(ctx, Call{Op: OpClone, Ref: to, From: from, Options: opts}, from, to)
	if err != nil {
		return "", err
	}
	defer end()
	st, fill, err := d.copyOf(ctx, from, opts)
	if err != nil {
		return "", err
	}
	path, err := d.place(to, st, fill)
	return path, failure(err)
}

// Replace copies a tree to the place of another.
func (d *Driver) Replace(ctx context.Context, from, to disk.Ref, opts disk.CloneOptions) (string, error) {
	end, err := d.begin(ctx, Call{Op: OpReplace, Ref: to, From: from, Options: opts}, from, to)
	if err != nil {
		return "", err
	}
	defer end()
	if from == to {
		return "", core.Errorf(core.CodeInvalid, "a tree can't take its own place")
	}
	st, fill, err := d.copyOf(ctx, from, opts)
	if err != nil {
		return "", err
	}
	if _, err := readState(d.home(to)); err != nil {
		return "", failure(err)
	}
	path, err := d.exchange(to, st, fill)
	return path, failure(err)
}

// copyOf returns what fills a clone of a tree, and the state that it has then.
func (d *Driver) copyOf(ctx context.Context, from disk.Ref, opts disk.CloneOptions) (st *state, fill func(dir string) error, err error) {
	if err := opts.Check(); err != nil {
		return nil, nil, err
	}
	if opts.LimitBytes > 0 {
		return nil, nil, core.Errorf(core.CodeUnsupported, "%s", d.Capabilities().QuotaReason)
	}
	source, err := readState(d.home(from))
	if err != nil {
		return nil, nil, failure(err)
	}
	if !source.Frozen && !opts.Live {
		return nil, nil, core.Errorf(core.CodeConflict, "a tree must be frozen before it is cloned")
	}
	st = &state{Complete: true, Frozen: opts.Frozen}
	return st, func(dir string) error {
		copyOf := copyTree
		if !source.Frozen {
			copyOf = copyLive
		}
		err := copyOf(ctx, files(d.home(from)), dir)
		if err == nil {
			err = giveModes(dir, source.Modes)
		}
		if err != nil || !opts.Frozen {
			return err
		}
		if st.Modes, err = writableModes(dir); err != nil {
			return err
		}
		return takeWriteBits(dir)
	}, nil
}

// Flush has nothing to do: a copy reads what is written, flushed or not.
func (d *Driver) Flush(ctx context.Context, ref disk.Ref) error {
	end, err := d.begin(ctx, Call{Op: OpFlush, Ref: ref}, ref)
	if err != nil {
		return err
	}
	defer end()
	_, err = os.Lstat(d.home(ref))
	return failure(err)
}

// Path returns a tree's host path.
func (d *Driver) Path(ref disk.Ref) (string, error) {
	end, err := d.begin(context.Background(), Call{Op: OpPath, Ref: ref}, ref)
	if err != nil {
		return "", err
	}
	defer end()
	if _, err := os.Lstat(d.home(ref)); err != nil {
		return "", failure(err)
	}
	return files(d.home(ref)), nil
}

// Delete removes a tree.
func (d *Driver) Delete(ctx context.Context, ref disk.Ref) error {
	end, err := d.begin(ctx, Call{Op: OpDelete, Ref: ref}, ref)
	if err != nil {
		return err
	}
	defer end()
	if err := d.discard(d.home(ref)); !errors.Is(err, fs.ErrNotExist) {
		return failure(err)
	}
	return nil
}

// Quarantine sets a tree aside.
func (d *Driver) Quarantine(ctx context.Context, ref disk.Ref) error {
	end, err := d.begin(ctx, Call{Op: OpQuarantine, Ref: ref}, ref)
	if err != nil {
		return err
	}
	defer end()
	aside := d.home(ref) + "." + strconv.FormatInt(time.Now().UnixNano(), 10)
	return failure(os.Rename(d.home(ref), aside))
}

// PurgeQuarantine removes what was set aside longer ago than age.
func (d *Driver) PurgeQuarantine(ctx context.Context, age time.Duration) (int, error) {
	end, err := d.begin(ctx, Call{Op: OpPurgeQuarantine})
	if err != nil {
		return 0, err
	}
	defer end()
	purged := 0
	for _, kind := range kinds() {
		dir := filepath.Join(d.dir, string(kind))
		entries, err := os.ReadDir(dir)
		if err != nil {
			return purged, failure(err)
		}
		for _, entry := range entries {
			since, ok := asideSince(entry.Name())
			if !ok || time.Since(since) < age {
				continue
			}
			if err := d.discard(filepath.Join(dir, entry.Name())); err != nil {
				return purged, failure(err)
			}
			purged++
		}
	}
	return purged, nil
}

// List returns every tree that is not set aside.
func (d *Driver) List(ctx context.Context) ([]disk.Tree, error) {
	end, err := d.begin(ctx, Call{Op: OpList})
	if err != nil {
		return nil, err
	}
	defer end()
	var trees []disk.Tree
	for _, kind := range kinds() {
		entries, err := os.ReadDir(filepath.Join(d.dir, string(kind)))
		if err != nil {
			return nil, failure(err)
		}
		for _, entry := range entries {
			ref := disk.Ref{Kind: kind, ID: entry.Name()}
			if ref.Check() != nil {
				continue
			}
			st, err := readState(d.home(ref))
			if errors.Is(err, fs.ErrNotExist) {
				continue // deleted meanwhile
			}
			if err != nil {
				return nil, failure(err)
			}
			trees = append(trees, disk.Tree{Ref: ref, Frozen: st.Frozen, Complete: st.Complete})
		}
	}
	return trees, nil
}

// Limit can't be enforced.
func (d *Driver) Limit(ctx context.Context, ref disk.Ref, bytes int64) error {
	end, err := d.begin(ctx, Call{Op: OpLimit, Ref: ref, Options: disk.CloneOptions{LimitBytes: bytes}}, ref)
	if err != nil {
		return err
	}
	defer end()
	if bytes <= 0 {
		return core.Errorf(core.CodeInvalid, "a limit is above zero")
	}
	if _, err := os.Lstat(d.home(ref)); err != nil {
		return failure(err)
	}
	return core.Errorf(core.CodeUnsupported, "%s", d.Capabilities().QuotaReason)
}

// Usage can't be told.
func (d *Driver) Usage(ctx context.Context, ref disk.Ref) (disk.Usage, error) {
	end, err := d.begin(ctx, Call{Op: OpUsage, Ref: ref}, ref)
	if err != nil {
		return disk.Usage{}, err
	}
	defer end()
	if _, err := os.Lstat(d.home(ref)); err != nil {
		return disk.Usage{}, failure(err)
	}
	return disk.Usage{WrittenBytes: -1}, nil
}

// Written can't be told.
func (d *Driver) Written(ctx context.Context, _ string) (int64, error) {
	end, err := d.begin(ctx, Call{Op: OpWritten})
	if err != nil {
		return 0, err
	}
	defer end()
	return 0, core.Errorf(core.CodeUnsupported, "%s", d.Capabilities().QuotaReason)
}

// Space returns what SetSpace said, or what the filesystem of the directory has.
func (d *Driver) Space(ctx context.Context) (disk.Space, error) {
	end, err := d.begin(ctx, Call{Op: OpSpace})
	if err != nil {
		return disk.Space{}, err
	}
	defer end()
	d.scriptMu.Lock()
	scripted := d.space
	d.scriptMu.Unlock()
	if scripted != nil {
		return *scripted, nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		return disk.Space{}, failure(err)
	}
	block := st.Bsize
	return disk.Space{
		TotalBytes:     int64(st.Blocks) * block,
		FreeBytes:      int64(st.Bavail) * block,
		AllocatedBytes: int64(st.Blocks-st.Bfree) * block,
	}, nil
}

// Close waits for calls under way. Trees stay.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}

// Remove closes the driver and removes all its trees. A test calls it before its directory is removed: an ordinary user
// can't remove a frozen tree otherwise.
func (d *Driver) Remove() error {
	_ = d.Close()
	return failure(removeTree(d.dir))
}
