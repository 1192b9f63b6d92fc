package control

import (
	"context"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// DeleteSandbox makes a sandbox gone for every caller, durably, and returns; its machine and files are removed in the
// background. It is allowed in every state and cancels whatever is under way. The checkpoints that calls have made of it stay.
func (s *Service) DeleteSandbox(ctx context.Context, p Principal, ref string) error {
	if err := p.may("DeleteSandbox"); err != nil {
		return err
	}
	return s.deleteSandbox(ctx, p, ref, false)
}

// DeleteSandboxWithCheckpoints is DeleteSandbox for all of its checkpoints too.
func (s *Service) DeleteSandboxWithCheckpoints(ctx context.Context, p Principal, ref string) error {
	if err := p.may("DeleteSandboxWithCheckpoints"); err != nil {
		return err
	}
	return s.deleteSandbox(ctx, p, ref, true)
}

func (s *Service) deleteSandbox(ctx context.Context, p Principal, ref string, checkpoints bool) error {
	start := s.clock.Now()
	err := s.removal.startWith(ctx, p.Actor, "", checkpoints, func(r store.Reader) (core.Sandbox, error) { return p.findToChange(r, ref) })
	s.observer.Delete(err, s.clock.Now().Sub(start))
	return err
}

// removal deletes sandboxes: durably at once, then in the background until nothing is left.
type removal struct {
	*deps
	watchers    *watchers
	checkpoints *checkpointKeeping
}

// start records the delete of the sandbox that find returns, and begins to carry it out.
func (r *removal) start(ctx context.Context, actor core.Actor, reason string, find func(store.Reader) (core.Sandbox, error)) error {
	return r.startWith(ctx, actor, reason, false, find)
}

// startWith is start, for the checkpoints that calls have made of the sandbox too if they are to go with it. Those that nobody has called
// for always do.
func (r *removal) startWith(
	ctx context.Context, actor core.Actor, reason string, checkpoints bool, find func(store.Reader) (core.Sandbox, error),
) error {
	var sb core.Sandbox
	var gone []core.Checkpoint
	now := r.clock.Now()
	err := r.store.Update(ctx, func(tx store.Tx) (err error) {
		if sb, err = find(tx); err != nil {
			return err
		}
		if err := core.Begin(sb.State, sb.Operation, core.OpDelete); err != nil {
			return err
		}
		if err := recordDeleted(tx, &sb, actor, reason, now); err != nil {
			return err
		}
		if gone, err = withSandbox(tx, sb.ID, checkpoints); err != nil {
			return err
		}
		if err := recordCheckpointsDeleted(tx, gone, actor, "the sandbox was deleted", now); err != nil {
			return err
		}
		unused, err := recordUnused(tx, sb, actor, now)
		gone = append(gone, unused...)
		return err
	})
	if err != nil {
		return err
	}
	r.activity.doom(sb.ID)
	r.commands.interrupt(sb.ID)
	r.waiters.wake(sb.Tenant)
	r.finishSoon(sb.ID)
	r.checkpoints.finishSoon(checkpointIDs(gone)...)
	return failpoint.Hit(failpoint.ControlDeleteRecorded)
}

// recordDeleted makes a sandbox deleted, with the removal still to be done.
func recordDeleted(tx store.Tx, sb *core.Sandbox, actor core.Actor, reason string, now time.Time) error {
	sb.Become(core.StateDeleted, now)
	sb.Begin(core.OpDelete, now)
	sb.DeletedAt = now
	if err := tx.PutSandbox(*sb); err != nil {
		return err
	}
	if err := loseExecs(tx, *sb, actor, now); err != nil {
		return err
	}
	var data map[string]string
	if reason != "" {
		data = map[string]string{"reason": reason}
	}
	return appendEvent(tx, *sb, core.EventSandboxDeleted, actor, now, data)
}

// loseExecs ends the execs that have no outcome.
func loseExecs(tx store.Tx, sb core.Sandbox, actor core.Actor, now time.Time) error {
	lost, err := tx.LoseExecs(sb.ID, now)
	if err != nil {
		return err
	}
	for _, e := range lost {
		e.EndedAt = now
		if err := execEnded(tx, sb, actor, e); err != nil {
			return err
		}
	}
	return nil
}

// finishSoon removes a deleted sandbox's machine and files in the background, for as long as it takes.
func (r *removal) finishSoon(id core.SandboxID) {
	r.persist(
		func(ctx context.Context) error { return r.finish(ctx, id) },
		func(err error) {
			r.log.Warn("removal of a deleted sandbox will be tried again", slog.String("sandbox_id", string(id)), slog.Any("err", err))
		})
}

// finish waits for the sandbox's turn, has the node remove it, and records that nothing is left.
func (r *removal) finish(ctx context.Context, id core.SandboxID) error {
	done, err := r.commands.beginDelete(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	r.watchers.forget(id)
	if err := r.node.Delete(ctx, id); err != nil {
		return err
	}
	r.activity.forget(id)
	if err := failpoint.Hit(failpoint.ControlDeleteNodeDone); err != nil {
		return err
	}
	err = r.store.Update(ctx, func(tx store.Tx) error {
		sb, err := tx.SandboxByID(id)
		if err != nil {
			return goneIsDone(err)
		}
		sb.Operation, sb.OperationSince = core.OpNone, time.Time{}
		return tx.PutSandbox(sb)
	})
	if err != nil {
		return err
	}
	return failpoint.Hit(failpoint.ControlDeleteCommitted)
}
