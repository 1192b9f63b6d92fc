package node

import (
	"context"
	"fmt"
	"log/slog"

	"shoal/internal/core"
	"shoal/internal/failpoint"
)

// Delete ends and removes a sandbox in any condition.
func (n *Node) Delete(ctx context.Context, id core.SandboxID) error {
	done, err := n.turns.take(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	e, ok, err := n.journal.get(id)
	if err != nil {
		n.log.Warn("journal entry of a sandbox to delete is damaged", slog.String("sandbox_id", string(id)), slog.Any("err", err))
	}
	if ok && e.Phase != phaseDeleting {
		e.Phase = phaseDeleting
		if err := n.journal.put(e); err != nil {
			// Deleting is how a full disk gets room again. Cut off half way, the delete is repeated by whoever asked for it,
			// or the rest is set aside.
			n.log.Warn("delete without a note in the journal", slog.String("sandbox_id", string(id)), slog.Any("err", err))
		}
	}
	if err := failpoint.Hit(failpoint.NodeDeleteBegun); err != nil {
		return err
	}
	return n.teardown(ctx, id)
}

// teardown removes every part of a sandbox, whichever are there, and last its journal entry and reservation: only when
// nothing is left. It may be repeated. The caller has the turn.
func (n *Node) teardown(ctx context.Context, id core.SandboxID) error {
	if err := n.end(ctx, id); err != nil {
		return err
	}
	if err := n.cfg.Disk.Delete(ctx, sandboxTree(id)); err != nil {
		return fmt.Errorf("delete tree: %w", err)
	}
	if err := failpoint.Hit(failpoint.NodeDeleteTreeGone); err != nil {
		return err
	}
	return n.forget(id)
}

// end kills the processes and cuts the network, in this order: a namespace in use is not taken away. The tree stays.
func (n *Node) end(ctx context.Context, id core.SandboxID) error {
	n.machines.drop(id, 0)
	if err := n.cfg.Runtime.Kill(ctx, id); err != nil {
		return fmt.Errorf("kill sandbox: %w", err)
	}
	if err := failpoint.Hit(failpoint.NodeDeleteKilled); err != nil {
		return err
	}
	if err := n.cfg.Network.Detach(ctx, id); err != nil {
		return fmt.Errorf("detach network: %w", err)
	}
	return failpoint.Hit(failpoint.NodeDeleteDetached)
}

// reclaim ends a sandbox and keeps what it has on disk.
func (n *Node) reclaim(ctx context.Context, id core.SandboxID) error {
	if err := n.end(ctx, id); err != nil {
		return err
	}
	return n.runDirs.remove(id)
}

// forget removes the run directory, the journal entry and the reservation.
func (n *Node) forget(id core.SandboxID) error {
	if err := n.runDirs.remove(id); err != nil {
		return err
	}
	if err := failpoint.Hit(failpoint.NodeDeleteRunDirGone); err != nil {
		return err
	}
	if err := n.journal.remove(id); err != nil {
		return fmt.Errorf("remove journal entry: %w", err)
	}
	n.admission.release(id)
	return nil
}

// setAside keeps the tree and journal entry of a sandbox that has no record for a day, and reclaims the rest at once.
func (n *Node) setAside(ctx context.Context, id core.SandboxID) error {
	if err := n.end(ctx, id); err != nil {
		return err
	}
	if err := n.cfg.Disk.Quarantine(ctx, sandboxTree(id)); err != nil && !core.IsCode(err, core.CodeNotFound) {
		return fmt.Errorf("set tree aside: %w", err)
	}
	if err := n.journal.setAside(id, n.cfg.Clock.Now()); err != nil {
		return fmt.Errorf("set journal entry aside: %w", err)
	}
	return n.forget(id)
}
