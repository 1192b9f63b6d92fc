package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/diff"
	"shoal/internal/disk"
	"shoal/internal/failpoint"
	"shoal/internal/files/hostfiles"
)

// diffFlush bounds how long a sandbox's programs' writes are flushed: a delete waits as long at most.
const diffFlush = 15 * time.Second

// differing compares sandboxes' files with others. What a sandbox may still change, or a command on it, is read from a clone: a view,
// which nobody else knows of. So a delete, a stop or a wake waits for a clone at most.
type differing struct {
	n *Node

	mu sync.Mutex
	// left are the views that could not be removed yet.
	left []disk.Ref
}

// Diff tells what is different in a sandbox's files.
func (d *differing) Diff(ctx context.Context, q core.TreeDiffQuery) (core.TreeDiff, error) {
	now, drop, err := d.view(ctx, q.Sandbox)
	if err != nil {
		return core.TreeDiff{}, err
	}
	defer drop()
	was, drop, err := d.against(ctx, q.Against)
	if err != nil {
		return core.TreeDiff{}, err
	}
	defer drop()
	if err := failpoint.Hit(failpoint.NodeDiffCloned); err != nil {
		return core.TreeDiff{}, err
	}
	out, err := diff.Compare(ctx, d.tree(was), d.tree(now), q)
	if err == nil {
		err = d.stillThere(q.Against)
	}
	if err != nil {
		return core.TreeDiff{}, err
	}
	return out, failpoint.Hit(failpoint.NodeDiffCompared)
}

func (d *differing) tree(dir string) *hostfiles.Tree {
	return hostfiles.New(dir, hostfiles.Owners{First: uint32(d.n.cfg.OwnerUID), Count: guestIDs})
}

// against makes what was before ready to be read, and returns where it is.
func (d *differing) against(ctx context.Context, ref core.TreeRef) (dir string, drop func(), err error) {
	if ref.Kind == core.TreeSandbox {
		return d.view(ctx, core.SandboxID(ref.ID))
	}
	at, err := frozenTree(ref)
	if err == nil {
		dir, err = d.n.cfg.Disk.Path(at)
	}
	if err != nil {
		return "", nil, fmt.Errorf("find tree: %w", err)
	}
	return dir, func() {}, nil
}

// stillThere fails if what was read where it is has been removed meanwhile: then it looked as if all in it had been.
func (d *differing) stillThere(ref core.TreeRef) error {
	if ref.Kind == core.TreeSandbox {
		return nil
	}
	at, err := frozenTree(ref)
	if err == nil {
		_, err = d.n.cfg.Disk.Path(at)
	}
	if err != nil {
		return fmt.Errorf("find tree again: %w", err)
	}
	return nil
}

// frozenTree returns a tree that nobody changes.
func frozenTree(ref core.TreeRef) (disk.Ref, error) {
	switch ref.Kind {
	case core.TreeTemplate:
		return disk.Ref{Kind: disk.KindTemplate, ID: ref.ID}, nil
	case core.TreeCheckpoint:
		return disk.Ref{Kind: disk.KindCheckpoint, ID: ref.ID}, nil
	case core.TreeSandbox:
	}
	return disk.Ref{}, core.Errorf(core.CodeInvalid, "unknown kind of tree")
}

// view clones a sandbox's files to read them, and returns where the clone is and what removes it.
func (d *differing) view(ctx context.Context, id core.SandboxID) (dir string, drop func(), err error) {
	ref := disk.Ref{Kind: disk.KindView, ID: core.NewID()}
	drop = func() { d.drop(ctx, ref) }
	if dir, err = d.clone(ctx, ref, id); err != nil {
		drop()
		return "", nil, err
	}
	return dir, drop, nil
}

// clone makes a view of a sandbox's tree, after its programs' writes were flushed to it if it runs.
func (d *differing) clone(ctx context.Context, ref disk.Ref, id core.SandboxID) (dir string, err error) {
	done, err := d.n.turns.take(ctx, id)
	if err != nil {
		return "", err
	}
	defer done()
	if m, err := d.n.machines.get(id); err == nil {
		flush, cancel := context.WithTimeout(ctx, diffFlush)
		defer cancel()
		if err := m.guest.Sync(flush); err != nil {
			return "", fmt.Errorf("flush sandbox: %w", err)
		}
	}
	if dir, err = d.n.cfg.Disk.Clone(ctx, sandboxTree(id), ref, disk.CloneOptions{Live: true, Frozen: true}); err != nil {
		return "", fmt.Errorf("clone sandbox: %w", err)
	}
	return dir, nil
}

// drop removes a view. What can't be removed now is removed later, or after a restart.
func (d *differing) drop(ctx context.Context, ref disk.Ref) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	err := d.n.cfg.Disk.Delete(ctx, ref)
	if err == nil {
		return
	}
	d.n.log.Warn("remove a view", slog.String("tree", ref.ID), slog.Any("err", err))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = append(d.left, ref)
}

// dropAgain removes the views that could not be removed before.
func (d *differing) dropAgain(ctx context.Context) {
	d.mu.Lock()
	left := d.left
	d.left = nil
	d.mu.Unlock()
	for _, ref := range left {
		d.drop(ctx, ref)
	}
}
