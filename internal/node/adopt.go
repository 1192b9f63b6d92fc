package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shoal/internal/core"
	"shoal/internal/disk"
)

// QuarantineAge is how long a tree without a record is kept.
const QuarantineAge = 24 * time.Hour

// adopt takes over every sandbox of the journal that still runs. Of one that does not run any more
// List says so, and its tree stays.
func (n *Node) adopt(ctx context.Context) error {
	entries, err := n.journal.list()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Phase != phaseRunning {
			n.admission.force(e.Sandbox, e.Resources)
			continue
		}
		if _, err := n.cfg.Network.Adopt(ctx, e.Sandbox); err != nil {
			n.log.Warn("sandbox has lost its network", "sandbox_id", string(e.Sandbox), "err", err)
			continue
		}
		if err := n.cfg.Runtime.Adopt(ctx, e.Sandbox, e.Incarnation); err != nil {
			n.log.Warn("sandbox did not outlive the restart", "sandbox_id", string(e.Sandbox), "err", err)
			continue
		}
		n.admission.force(e.Sandbox, e.Resources)
		n.putLive(n.newMachine(e.Sandbox, e.Incarnation))
	}
	return nil
}

// Sweep reclaims what has no right to be here. known holds the sandboxes that the store wants. It runs once after a start,
// before any command.
func (n *Node) Sweep(ctx context.Context, known map[core.SandboxID]bool) error {
	entries, err := n.journal.list()
	if err != nil {
		return err
	}
	journaled := map[core.SandboxID]bool{}
	var errs []error
	for _, e := range entries {
		journaled[e.Sandbox] = true
		switch {
		case e.Phase == phaseDeleting, e.Phase == phaseCreating:
			n.log.Info("finishing what a restart cut off", "sandbox_id", string(e.Sandbox), "phase", string(e.Phase))
			errs = append(errs, n.teardown(ctx, e.Sandbox))
		case !known[e.Sandbox]:
			n.log.Warn("sandbox without a record: its tree is set aside", "sandbox_id", string(e.Sandbox))
			errs = append(errs, n.setAside(ctx, e.Sandbox))
		case !n.isLive(e.Sandbox):
			// What could not be taken over must not run on unseen: its record is about to say that it failed.
			errs = append(errs, n.end(ctx, e.Sandbox))
		}
	}
	errs = append(errs, n.sweepStrays(ctx, journaled), n.sweepTrees(ctx, journaled, known), n.purge(ctx))
	return errors.Join(errs...)
}

// isLive reports whether a machine is reachable.
func (n *Node) isLive(id core.SandboxID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.live[id] != nil
}

// sweepStrays reclaims processes, slots and run directories that no journal entry stands for.
func (n *Node) sweepStrays(ctx context.Context, journaled map[core.SandboxID]bool) error {
	stray := map[core.SandboxID]bool{}
	machines, err := n.cfg.Runtime.List(ctx)
	if err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	for _, m := range machines {
		stray[m.ID] = !journaled[m.ID]
	}
	slots, err := n.cfg.Network.List(ctx)
	if err != nil {
		return fmt.Errorf("list slots: %w", err)
	}
	for _, s := range slots {
		stray[s.Sandbox] = !journaled[s.Sandbox]
	}
	dirs, err := n.listRunDirs()
	if err != nil {
		return err
	}
	for _, id := range dirs {
		stray[id] = !journaled[id]
	}
	var errs []error
	for id, is := range stray {
		if is {
			n.log.Warn("reclaiming remains of a sandbox", "sandbox_id", string(id))
			errs = append(errs, n.end(ctx, id), n.removeRunDir(id))
		}
	}
	return errors.Join(errs...)
}

// sweepTrees removes cut-off imports, and sets aside the trees of sandboxes that neither journal nor store knows.
func (n *Node) sweepTrees(ctx context.Context, journaled, known map[core.SandboxID]bool) error {
	trees, err := n.cfg.Disk.List(ctx)
	if err != nil {
		return fmt.Errorf("list trees: %w", err)
	}
	var errs []error
	for _, t := range trees {
		id := core.SandboxID(t.Ref.ID)
		switch {
		case t.Ref.Kind == disk.KindTemplate && !t.Complete:
			errs = append(errs, n.cfg.Disk.Delete(ctx, t.Ref))
		case t.Ref.Kind == disk.KindSandbox && !journaled[id] && !known[id]:
			n.log.Warn("tree without a record is set aside", "tree", t.Ref.ID)
			errs = append(errs, n.cfg.Disk.Quarantine(ctx, t.Ref))
		}
	}
	return errors.Join(errs...)
}

// purge drops what has been set aside for long enough.
func (n *Node) purge(ctx context.Context) error {
	count, err := n.cfg.Disk.PurgeQuarantine(ctx, QuarantineAge)
	if err != nil {
		return fmt.Errorf("purge trees set aside: %w", err)
	}
	if count > 0 {
		n.log.Info("removed trees that were set aside", "count", count)
	}
	return n.journal.purgeAside(n.cfg.Clock.Now(), QuarantineAge)
}
