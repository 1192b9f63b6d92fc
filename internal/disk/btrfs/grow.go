package btrfs

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// tendEvery is how often the pool's free space is looked at: often enough that one step lasts until the next look
	// on a disk that writes 10 GB/s.
	tendEvery = 250 * time.Millisecond
	// sweepEvery is how often quota groups of trees that are gone are removed.
	sweepEvery = time.Minute
	// retryEvery is how long a pool that could not grow is left alone.
	retryEvery = 5 * time.Second
)

// tend grows the image as its space gets low, until ctx ends.
func (p *pool) tend(ctx context.Context) {
	grow := time.NewTicker(tendEvery)
	defer grow.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	var state growth
	var empty map[uint64]bool
	for {
		select {
		case <-ctx.Done():
			return
		case <-grow.C:
			if p.image != nil {
				p.growOnce(&state)
			}
		case <-sweep.C:
			empty = p.sweepQgroups(ctx, empty)
		}
	}
}

// growth is what the loop remembers, to tell the operator once and not every time.
type growth struct {
	stuck   bool
	retryAt time.Time
}

func (p *pool) growOnce(state *growth) {
	if time.Now().Before(state.retryAt) {
		return
	}
	low, err := p.isLow()
	if err == nil && !low {
		state.stuck = false
		return
	}
	var grown int64
	if err == nil {
		grown, err = p.grow()
	}
	switch {
	case err == nil && grown > 0:
		*state = growth{}
		p.cfg.Logger.Info("pool grown", slog.String("dir", p.cfg.Dir), slog.Int64("grown_bytes", grown))
		return
	case state.stuck:
	case err != nil:
		p.cfg.Logger.Error("pool can't grow", slog.String("dir", p.cfg.Dir), slog.Any("err", err))
	default:
		p.cfg.Logger.Warn("pool is low on space and can't grow: the host's disk is full, or the limit is reached", slog.String("dir", p.cfg.Dir))
	}
	*state = growth{stuck: true, retryAt: time.Now().Add(retryEvery)}
}

// isLow tells whether less than a step can be written, or no room is left for chunks of metadata: btrfs says "no space"
// when either runs out.
func (p *pool) isLow() (bool, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(p.root.Fd()), &st); err != nil {
		return false, fmt.Errorf("statfs pool: %w", err)
	}
	dev, err := deviceInfo(int(p.root.Fd()), 1)
	if err != nil {
		return false, fmt.Errorf("look at pool's device: %w", err)
	}
	free, unallocated := int64(st.Bavail)*st.Bsize, int64(dev.totalBytes)-int64(dev.bytesUsed)
	return free < p.cfg.GrowStep*3/4 || unallocated < min(p.cfg.GrowStep/4, 1<<30), nil
}

// grow makes the image larger by a step or what fits, then the device, then the filesystem. A cut between any two is
// mended by settleSize at the next start. It returns how much it grew, zero if there is no room.
func (p *pool) grow() (int64, error) {
	st, err := p.image.Stat()
	if err != nil {
		return 0, err
	}
	more, err := room(p.cfg, st.Size(), p.cfg.GrowStep)
	if err != nil || more == 0 {
		return 0, err
	}
	if err := extend(p.image, st.Size(), more); err != nil {
		return 0, err
	}
	return more, p.settleSize()
}

// settleSize makes the loop device as large as the image, and the filesystem as large as the device.
func (p *pool) settleSize() error {
	loop, err := findLoop(p.image)
	if err != nil {
		return err
	}
	if loop == nil {
		return fmt.Errorf("image %s has no loop device", p.image.Name())
	}
	defer func() { _ = loop.close() }()
	image, err := p.image.Stat()
	if err != nil {
		return err
	}
	size, err := loop.size()
	if err != nil {
		return fmt.Errorf("size of %s: %w", loop.path(), err)
	}
	if size < image.Size() {
		if err := loop.followImage(); err != nil {
			return err
		}
	}
	dev, err := deviceInfo(int(p.root.Fd()), 1)
	if err != nil {
		return fmt.Errorf("look at pool's device: %w", err)
	}
	if int64(dev.totalBytes) >= image.Size() {
		return nil
	}
	if err := resizeToDevice(int(p.root.Fd())); err != nil {
		return fmt.Errorf("resize pool: %w", err)
	}
	return nil
}

// sweepQgroups removes quota groups of subvolumes that are gone. The kernel keeps the group of a template that was deleted
// before its clones, for the extents that they share, and before Linux 6.11 every group: they would add up. Only a group
// that counted nothing at the last sweep too is removed, since a subvolume that exists counts its root node at least, if
// not in the instant of its making. It returns the groups that count nothing now.
func (p *pool) sweepQgroups(ctx context.Context, before map[uint64]bool) map[uint64]bool {
	if !p.caps.Quota || p.image == nil {
		return nil
	}
	groups, err := filepath.Glob(filepath.Join(p.sysfs, "qgroups", "0_*"))
	if err != nil {
		return nil
	}
	empty := map[uint64]bool{}
	for _, group := range groups {
		if ctx.Err() != nil {
			break
		}
		id, err := strconv.ParseUint(strings.TrimPrefix(filepath.Base(group), "0_"), 10, 64)
		if err != nil || id < subvolRootInode {
			continue
		}
		if n, err := readNumber(filepath.Join(group, "referenced")); err != nil || n != 0 {
			continue
		}
		if !before[id] || removeQgroup(int(p.root.Fd()), id) != nil {
			empty[id] = true
		}
	}
	return empty
}
