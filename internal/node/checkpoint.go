package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/failpoint"
	"shoal/internal/runtime"
)

// thawTimeout bounds one attempt to let a sandbox go on; thawTries is how often it is tried.
const (
	thawTimeout = 10 * time.Second
	thawTries   = 3
)

// checkpointing is the node's part that makes and removes checkpoints.
//
// Calls on one checkpoint's tree take turns: it must not go while it is cloned.
type checkpointing struct {
	n     *Node
	trees *turnsOf[core.CheckpointID]
}

// Checkpoint makes a frozen tree of a sandbox's files as they are at one moment.
func (c *checkpointing) Checkpoint(ctx context.Context, id core.CheckpointID, from core.SandboxID) (core.CheckpointTree, error) {
	done, err := c.n.turns.take(ctx, from)
	if err != nil {
		return core.CheckpointTree{}, err
	}
	defer done()
	has, err := c.HasCheckpoint(ctx, id)
	if err != nil {
		return core.CheckpointTree{}, err
	}
	var tree core.CheckpointTree
	if !has {
		tree.Held, err = c.make(ctx, id, from)
	}
	if err == nil {
		err = c.describe(ctx, from, &tree)
	}
	if err != nil && !has {
		c.undo(ctx, id)
	}
	return tree, err
}

// make clones the sandbox's tree, while its processes are held if it runs. They are let go whatever happens.
func (c *checkpointing) make(ctx context.Context, id core.CheckpointID, from core.SandboxID) (held time.Duration, err error) {
	m, err := c.n.machines.get(from)
	if err != nil {
		return 0, c.clone(ctx, id, from)
	}
	steps := newSteps(c.n.cfg.Clock)
	// What the disk has not written yet is flushed before: while the processes are held there is little left. The guest agent is not asked
	// for a sync: the sandbox's kernel holds back no data, and it would flush each file by itself (docs/adr/0015-disk-checkpoints.md).
	if err := c.n.cfg.Disk.Flush(ctx, sandboxTree(from)); err != nil {
		return 0, fmt.Errorf("flush tree: %w", err)
	}
	steps.done("flush_ms")
	if err := failpoint.Hit(failpoint.NodeCheckpointFlushed); err != nil {
		return 0, err
	}
	start := c.n.cfg.Clock.Now()
	letGo := m.hold()
	defer func() {
		err = errors.Join(err, c.release(ctx, m))
		letGo()
		held = c.n.cfg.Clock.Now().Sub(start)
		steps.done("thaw_ms")
		c.n.log.Debug("steps of a checkpoint", append(steps.took, slog.String("sandbox_id", string(from)), slog.String("checkpoint_id", string(id)))...)
		if err == nil {
			err = failpoint.Hit(failpoint.NodeCheckpointThawed)
		}
	}()
	if err := c.n.cfg.Runtime.Freeze(ctx, from); err != nil {
		return 0, fmt.Errorf("hold sandbox: %w", err)
	}
	steps.done("hold_ms")
	if err := failpoint.Hit(failpoint.NodeCheckpointHeld); err != nil {
		return 0, err
	}
	if err := c.clone(ctx, id, from); err != nil {
		return 0, err
	}
	steps.done("clone_ms")
	return 0, nil
}

// steps are how long the parts of something took, for the log.
type steps struct {
	clock core.Clock
	last  time.Time
	took  []any
}

func newSteps(clock core.Clock) *steps { return &steps{clock: clock, last: clock.Now()} }

// done notes that a part has ended, and the next begins.
func (s *steps) done(name string) {
	now := s.clock.Now()
	s.took = append(s.took, slog.Float64(name, float64(now.Sub(s.last).Microseconds())/1000))
	s.last = now
}

func (c *checkpointing) clone(ctx context.Context, id core.CheckpointID, from core.SandboxID) error {
	opts := disk.CloneOptions{Live: true, Frozen: true}
	if _, err := c.n.cfg.Disk.Clone(ctx, sandboxTree(from), checkpointTree(id), opts); err != nil {
		return fmt.Errorf("clone sandbox: %w", err)
	}
	return failpoint.Hit(failpoint.NodeCheckpointCloned)
}

// release lets a machine go on. One that can't be let go would stay held for ever, and is ended.
func (c *checkpointing) release(ctx context.Context, m *machine) error {
	err := c.thaw(ctx, m.id)
	if err == nil || !c.n.machines.drop(m.id, m.incarnation) {
		return err
	}
	e := runtime.Exit{ID: m.id, Incarnation: m.incarnation, Reason: "it was held for a checkpoint and could not be let go"}
	select {
	case c.n.stuck <- e:
	case <-c.n.closing: // the next start tries again
	}
	return err
}

// thaw lets a sandbox go on. It isn't canceled.
func (c *checkpointing) thaw(ctx context.Context, id core.SandboxID) (err error) {
	for range thawTries {
		try, cancel := context.WithTimeout(context.WithoutCancel(ctx), thawTimeout)
		err = c.n.cfg.Runtime.Thaw(try, id)
		cancel()
		if err == nil || core.IsCode(err, core.CodeNotFound) {
			return nil
		}
	}
	c.n.log.Error("a sandbox that was held for a checkpoint can't be let go", slog.String("sandbox_id", string(id)), slog.Any("err", err))
	return fmt.Errorf("let sandbox go: %w", err)
}

// undo removes what a checkpoint that failed has left.
func (c *checkpointing) undo(ctx context.Context, id core.CheckpointID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if err := c.DeleteCheckpoint(ctx, id); err != nil {
		c.n.log.Warn("remove a checkpoint that failed", slog.String("checkpoint_id", string(id)), slog.Any("err", err))
	}
}

// describe tells what the sandbox's tree keeps of its own writes.
func (c *checkpointing) describe(ctx context.Context, from core.SandboxID, tree *core.CheckpointTree) error {
	use, err := c.n.cfg.Disk.Usage(ctx, sandboxTree(from))
	if err != nil {
		return fmt.Errorf("look at tree: %w", err)
	}
	tree.Origin, tree.WrittenBytes = use.Origin, use.WrittenBytes
	return nil
}

// HasCheckpoint reports whether the checkpoint's tree is here: there is none that is not whole.
func (c *checkpointing) HasCheckpoint(_ context.Context, id core.CheckpointID) (bool, error) {
	_, err := c.n.cfg.Disk.Path(checkpointTree(id))
	if core.IsCode(err, core.CodeNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find tree: %w", err)
	}
	return true, nil
}

// DeleteCheckpoint removes the checkpoint's tree.
func (c *checkpointing) DeleteCheckpoint(ctx context.Context, id core.CheckpointID) error {
	done, err := c.trees.take(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	return c.n.cfg.Disk.Delete(ctx, checkpointTree(id))
}

// cloneCheckpoint makes a writable tree of a checkpoint's files.
func (c *checkpointing) cloneCheckpoint(ctx context.Context, from core.CheckpointID, to disk.Ref, opts disk.CloneOptions) (dir string, err error) {
	done, err := c.trees.take(ctx, from)
	if err != nil {
		return "", err
	}
	defer done()
	if dir, err = c.n.cfg.Disk.Clone(ctx, checkpointTree(from), to, opts); err != nil {
		return "", fmt.Errorf("clone checkpoint: %w", err)
	}
	return dir, nil
}

func checkpointTree(id core.CheckpointID) disk.Ref {
	return disk.Ref{Kind: disk.KindCheckpoint, ID: string(id)}
}
