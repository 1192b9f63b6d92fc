package node

import (
	"context"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/runtime"
)

// purgeEvery is how often trees that were set aside are looked at.
const purgeEvery = time.Hour

// watchExits passes on the ends of sandboxes that nobody asked for. Each is seen to on its own: one that can't be cleaned up
// must not keep the others from being told.
func (n *Node) watchExits(ctx context.Context) {
	exits := n.cfg.Runtime.Exits()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-exits:
			if !ok {
				return
			}
			if !n.machines.markEnded(e) {
				n.log.Debug("a sandbox ended during its create or delete", slog.String("sandbox_id", string(e.ID)), slog.Any("reason", e.Reason))
				continue // they clean up themselves
			}
			n.wg.Go(func() { n.exited(ctx, e) })
		case e := <-n.stuck:
			n.wg.Go(func() { n.exited(ctx, e) })
		}
	}
}

// exited removes what is left of a machine that ended by itself, but not its tree, and tells of it.
func (n *Node) exited(ctx context.Context, e runtime.Exit) {
	if err := n.cleanUp(ctx, e); err != nil {
		n.log.Warn("clean up after a sandbox that ended", slog.String("sandbox_id", string(e.ID)), slog.Any("err", err))
	}
	select {
	case n.exits <- core.NodeExit{Sandbox: e.ID, Incarnation: e.Incarnation, Reason: e.Reason}:
	case <-ctx.Done():
	}
}

// cleanUp waits for its turn: by then a delete may have removed everything.
func (n *Node) cleanUp(ctx context.Context, e runtime.Exit) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	done, err := n.turns.take(ctx, e.ID)
	if err != nil {
		return err
	}
	defer done()
	if _, err := n.machines.get(e.ID); err == nil {
		return nil // it has been started again
	}
	if known, ok, err := n.journal.get(e.ID); err == nil && ok && (known.Incarnation != e.Incarnation || known.Phase != phaseRunning) {
		return nil // a stop was first, which has removed it, or it is gone since and another command sees to what is there
	}
	err = n.reclaim(ctx, e.ID)
	n.admission.release(e.ID) // the dead hold no memory
	return err
}

// watchAge drops what was set aside for long enough.
func (n *Node) watchAge(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.cfg.Clock.After(purgeEvery):
			n.differing.dropAgain(ctx)
			if err := n.purge(ctx); err != nil && ctx.Err() == nil {
				n.log.Warn("purge of trees set aside", slog.Any("err", err))
			}
		}
	}
}
