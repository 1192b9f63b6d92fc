package control_test

import (
	"context"

	"shoal/internal/core"
)

func (n *node) Checkpoint(ctx context.Context, id core.CheckpointID, from core.SandboxID) (core.CheckpointTree, error) {
	n.mu.Lock()
	on := n.onCheckpoint
	n.mu.Unlock()
	if on != nil {
		if err := on(ctx, id, from); err != nil {
			return core.CheckpointTree{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return core.CheckpointTree{}, core.Wrap(core.CodeCanceled, err, "the checkpoint was canceled")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	tree := core.CheckpointTree{Origin: "pool/" + string(from), WrittenBytes: n.written}
	n.checkpoints[id] = tree
	return tree, nil
}

func (n *node) HasCheckpoint(_ context.Context, id core.CheckpointID) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.checkpoints[id]
	return ok, nil
}

func (n *node) DeleteCheckpoint(_ context.Context, id core.CheckpointID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.checkpointErr != nil {
		return n.checkpointErr
	}
	delete(n.checkpoints, id)
	return nil
}

// saved is how many trees of checkpoints there are.
func (n *node) saved() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.checkpoints)
}

// setCheckpoint scripts Checkpoint and the deletes.
func (n *node) setCheckpoint(on func(ctx context.Context, id core.CheckpointID, from core.SandboxID) error, deletes error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.onCheckpoint, n.checkpointErr = on, deletes
}

// write has sandboxes write more.
func (n *node) write(bytes int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.written += bytes
}

// promised is how many sandboxes have a reservation.
func (n *node) promised() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.reserved)
}
