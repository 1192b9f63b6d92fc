package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/failpoint"
)

// captureFlush bounds how long a sandbox's programs' writes are flushed before its tree is cloned.
const captureFlush = 5 * time.Minute

// CaptureTemplate makes a frozen tree of the files of a sandbox or a checkpoint.
func (n *Node) CaptureTemplate(ctx context.Context, id core.TemplateID, from core.TreeSource) (core.CapturedTree, error) {
	ref := templateTree(id)
	if err := n.cfg.Disk.Delete(ctx, ref); err != nil {
		return core.CapturedTree{}, fmt.Errorf("remove a cut-off capture: %w", err)
	}
	tree, err := capture(ctx, n, ref, from)
	if err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		if derr := n.cfg.Disk.Delete(undo, ref); derr != nil {
			n.log.Warn("remove a template that was not finished", slog.String("template_id", string(id)), slog.Any("err", derr))
		}
	}
	return tree, err
}

func capture(ctx context.Context, n *Node, ref disk.Ref, from core.TreeSource) (tree core.CapturedTree, err error) {
	dir, err := cloneOf(ctx, n, ref, from)
	if err == nil {
		err = failpoint.Hit(failpoint.NodeCaptureCloned)
	}
	if err != nil {
		return tree, err
	}
	if tree.Packages, err = n.cfg.Clean(ctx, dir); err != nil {
		return tree, fmt.Errorf("clean tree: %w", err)
	}
	if err = failpoint.Hit(failpoint.NodeCaptureCleaned); err != nil {
		return tree, err
	}
	if tree.TreeInfo, err = digestOf(ctx, n, dir); err != nil {
		return tree, err
	}
	// What the clone shares with the sandbox is what that has written itself; the rest is its template's.
	if use, err := n.cfg.Disk.Usage(ctx, sandboxTree(from.Sandbox)); from.Sandbox != "" && err == nil && use.WrittenBytes >= 0 {
		tree.OwnBytes = min(tree.SizeBytes, use.WrittenBytes)
	}
	if err = n.cfg.Disk.Freeze(ctx, ref); err == nil {
		err = failpoint.Hit(failpoint.NodeCaptureFrozen)
	}
	if err != nil {
		return tree, fmt.Errorf("freeze tree: %w", err)
	}
	return tree, nil
}

// cloneOf clones the tree of a checkpoint, or of a sandbox.
func cloneOf(ctx context.Context, n *Node, ref disk.Ref, from core.TreeSource) (dir string, err error) {
	if from.Checkpoint == "" {
		return cloneLive(ctx, n, ref, from.Sandbox)
	}
	return n.cloneCheckpoint(ctx, from.Checkpoint, ref, disk.CloneOptions{})
}

// flushGuest has what a sandbox's programs have written flushed to its tree.
func flushGuest(ctx context.Context, m *machine) error {
	ctx, cancel := context.WithTimeout(ctx, captureFlush)
	defer cancel()
	if err := m.guest.Sync(ctx); err != nil {
		return fmt.Errorf("flush sandbox: %w", err)
	}
	return nil
}

// cloneLive clones the tree of a sandbox, after its programs' writes were flushed to it if it runs.
func cloneLive(ctx context.Context, n *Node, ref disk.Ref, from core.SandboxID) (dir string, err error) {
	done, err := n.turns.take(ctx, from)
	if err != nil {
		return "", err
	}
	defer done()
	if m, err := n.machines.get(from); err == nil {
		if err := flushGuest(ctx, m); err != nil {
			return "", err
		}
	}
	if dir, err = n.cfg.Disk.Clone(ctx, sandboxTree(from), ref, disk.CloneOptions{Live: true}); err != nil {
		return "", fmt.Errorf("clone sandbox: %w", err)
	}
	return dir, nil
}
