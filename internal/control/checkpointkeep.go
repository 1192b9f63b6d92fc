package control

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// checkpointKeeping looks after checkpoints once they are there: deletes, ttls, and those that a crash has left.
type checkpointKeeping struct {
	*deps
	// moved says that an earlier deadline may have come.
	moved chan struct{}
}

// remove makes the checkpoints that find returns gone durably, and has their files removed in the background.
func (k *checkpointKeeping) remove(
	ctx context.Context, actor core.Actor, reason string, find func(r store.Reader) ([]core.Checkpoint, error),
) error {
	var gone []core.Checkpoint
	now := k.clock.Now()
	err := k.store.Update(ctx, func(tx store.Tx) (err error) {
		if gone, err = find(tx); err != nil {
			return err
		}
		return recordCheckpointsDeleted(tx, gone, actor, reason, now)
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	k.waiters.wake(gone[0].Tenant)
	k.finishSoon(checkpointIDs(gone)...)
	return failpoint.Hit(failpoint.ControlCheckpointDeleted)
}

// recordCheckpointsDeleted makes checkpoints deleted, with the removal of their files still to be done. The newest goes first, so that
// those that stay are moved once.
func recordCheckpointsDeleted(tx store.Tx, list []core.Checkpoint, actor core.Actor, reason string, now time.Time) error {
	for _, rec := range list {
		rec, err := tx.CheckpointByID(rec.ID) // the one before it may have moved its parent
		if err != nil {
			return err
		}
		rec.State = core.CheckpointDeleting
		if err := tx.PutCheckpoint(rec); err != nil {
			return err
		}
		var data map[string]string
		if reason != "" {
			data = map[string]string{"reason": reason}
		}
		if err := checkpointEvent(tx, rec, core.EventCheckpointDeleted, actor, now, data); err != nil {
			return err
		}
	}
	return nil
}

func checkpointIDs(list []core.Checkpoint) []core.CheckpointID {
	ids := make([]core.CheckpointID, len(list))
	for i, rec := range list {
		ids[i] = rec.ID
	}
	return ids
}

// withSandbox returns the checkpoints that go with a sandbox, which is deleted by now: those that nobody called for, or all. Those of its
// forks stay for as long as there are any.
func withSandbox(r store.Reader, id core.SandboxID, all bool) (gone []core.Checkpoint, err error) {
	list, err := r.CheckpointsOf(id)
	for _, rec := range list {
		users := 0
		if rec.Cause == core.CauseFork {
			if users, err = r.CheckpointUsers(rec.ID); err != nil {
				return nil, err
			}
		}
		if users == 0 && (all || rec.Cause != core.CauseCall) {
			gone = append(gone, rec)
		}
	}
	if err != nil {
		return nil, err
	}
	return notRestored(r, gone) // by another sandbox
}

// unusedFork reports whether a checkpoint was made for a fork of which no sandbox is left.
func unusedFork(r store.Reader, rec core.Checkpoint) (bool, error) {
	if rec.Cause != core.CauseFork || rec.State != core.CheckpointReady {
		return false, nil
	}
	users, err := r.CheckpointUsers(rec.ID)
	return users == 0, err
}

// recordUnused makes the checkpoints of forks deleted that a sandbox, deleted in this transaction, was the last to use.
func recordUnused(tx store.Tx, sb core.Sandbox, actor core.Actor, now time.Time) (gone []core.Checkpoint, err error) {
	for _, id := range slices.Compact([]core.CheckpointID{sb.Source, sb.Head}) {
		if id == "" {
			continue
		}
		rec, err := tx.CheckpointByID(id)
		if core.IsCode(err, core.CodeNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		unused, err := unusedFork(tx, rec)
		if err != nil {
			return nil, err
		}
		if unused {
			gone = append(gone, rec)
		}
	}
	return gone, recordCheckpointsDeleted(tx, gone, actor, reasonUnused, now)
}

// reasonUnused is why the checkpoint of a fork is deleted.
const reasonUnused = "the last of its forks was deleted"

// dropUnused deletes the checkpoint of a fork that nothing uses any more.
func (k *checkpointKeeping) dropUnused(ctx context.Context, rec core.Checkpoint) (unused bool, err error) {
	err = k.store.Update(ctx, func(tx store.Tx) error {
		if unused, err = unusedFork(tx, rec); err != nil || !unused {
			return err
		}
		return recordCheckpointsDeleted(tx, []core.Checkpoint{rec}, system("reconcile"), reasonUnused, k.clock.Now())
	})
	return unused, err
}

// keepNewest deletes a sandbox's checkpoints that there are for one cause, but for the newest. That it can't is no failure of the one that
// was made.
func (c *checkpoints) keepNewest(ctx context.Context, id core.SandboxID, cause core.CheckpointCause, most int) {
	c.keepNewestLabeled(ctx, id, cause, nil, most)
}

// keepNewestLabeled is keepNewest among the checkpoints with these labels. Others neither count nor go.
func (c *checkpoints) keepNewestLabeled(ctx context.Context, id core.SandboxID, cause core.CheckpointCause, labels map[string]string, most int) {
	err := c.keeping.remove(context.WithoutCancel(ctx), system("keep_last"), "keep_last", func(r store.Reader) (gone []core.Checkpoint, err error) {
		list, err := r.CheckpointsOf(id)
		if err != nil {
			return nil, err
		}
		kept := 0
		for _, rec := range list {
			if rec.Cause != cause || rec.State != core.CheckpointReady || !hasLabels(rec.Labels, labels) {
				continue
			}
			if kept++; kept > most {
				gone = append(gone, rec)
			}
		}
		return notRestored(r, gone)
	})
	if err != nil {
		c.log.ErrorContext(ctx, "delete older checkpoints", slog.String("sandbox_id", string(id)), slog.Any("err", err))
	}
}

// finishSoon removes the files of deleted checkpoints and then their records, in the background, for as long as it takes.
func (k *checkpointKeeping) finishSoon(ids ...core.CheckpointID) {
	if len(ids) == 0 {
		return
	}
	k.persist(
		func(ctx context.Context) error {
			for len(ids) > 0 {
				if err := k.finish(ctx, ids[0]); err != nil {
					return err
				}
				ids = ids[1:]
			}
			return nil
		},
		func(err error) {
			k.log.Warn("removal of a checkpoint will be tried again", slog.String("checkpoint_id", string(ids[0])), slog.Any("err", err))
		})
}

func (k *checkpointKeeping) finish(ctx context.Context, id core.CheckpointID) error {
	if err := k.node.DeleteCheckpoint(ctx, id); err != nil {
		return err
	}
	if err := failpoint.Hit(failpoint.ControlCheckpointTreeGone); err != nil {
		return err
	}
	return k.store.Update(ctx, func(tx store.Tx) error { return tx.ForgetCheckpoint(id) })
}

// recover undoes what a restart cut off, and goes on with the removals.
func (k *checkpointKeeping) recover(ctx context.Context) error {
	var all []core.Checkpoint
	err := k.store.View(ctx, func(r store.Reader) (err error) {
		all, err = r.AllCheckpoints()
		return err
	})
	if err != nil {
		return err
	}
	var gone []core.CheckpointID
	for _, rec := range all {
		switch rec.State {
		case core.CheckpointReady:
			unused, err := k.dropUnused(ctx, rec)
			if err != nil {
				return err
			}
			if !unused {
				continue
			}
		case core.CheckpointCreating:
			if err := k.cutOff(ctx, rec); err != nil {
				return err
			}
		case core.CheckpointDeleting:
		}
		gone = append(gone, rec.ID)
	}
	if err := k.endStale(ctx); err != nil {
		return err
	}
	k.finishSoon(gone...)
	return nil
}

// endStale ends the operations of sandboxes of which no checkpoint is being made any more.
func (k *checkpointKeeping) endStale(ctx context.Context) error {
	var all []core.Sandbox
	err := k.store.View(ctx, func(r store.Reader) (err error) {
		all, err = r.AllSandboxes()
		return err
	})
	if err != nil {
		return err
	}
	for _, sb := range all {
		if !savesFiles(sb.Operation) {
			continue
		}
		if err := k.store.Update(ctx, func(tx store.Tx) error { return endIfStale(tx, sb.ID) }); err != nil {
			return err
		}
	}
	return nil
}

// endIfStale ends a sandbox's operation if it is to make a checkpoint and none is being made.
func endIfStale(tx store.Tx, id core.SandboxID) error {
	sb, err := tx.SandboxByID(id)
	if err != nil || !savesFiles(sb.Operation) {
		return goneIsDone(err)
	}
	list, err := tx.CheckpointsOf(id)
	if err != nil || slices.ContainsFunc(list, func(c core.Checkpoint) bool { return c.State == core.CheckpointCreating }) {
		return err
	}
	sb.End()
	return tx.PutSandbox(sb)
}

// cutOff records that a checkpoint came to nothing because the server ended.
func (k *checkpointKeeping) cutOff(ctx context.Context, rec core.Checkpoint) error {
	cause := core.Errorf(core.CodeUnavailable, "the server was restarted while it was made")
	return k.store.Update(ctx, func(tx store.Tx) error {
		return recordCheckpointFailed(tx, rec, system("reconcile"), k.clock.Now(), cause)
	})
}

// lookAgain tells the loop that a deadline was set or moved.
func (k *checkpointKeeping) lookAgain() {
	select {
	case k.moved <- struct{}{}:
	default:
	}
}

// loop deletes checkpoints whose ttl has passed, at the time it passes.
func (k *checkpointKeeping) loop(ctx context.Context) {
	for {
		wait, err := k.expire(ctx)
		if err != nil {
			k.log.Error("apply ttls of checkpoints", slog.Any("err", err))
			wait = time.Second
		}
		select {
		case <-ctx.Done():
			return
		case <-k.moved:
		case <-k.clock.After(wait):
		}
	}
}

// expire deletes what has expired and returns how long nothing will expire.
func (k *checkpointKeeping) expire(ctx context.Context) (time.Duration, error) {
	next := func() (at time.Time, ok bool, err error) {
		err = k.store.View(ctx, func(r store.Reader) error {
			at, ok, err = r.NextCheckpointExpiry()
			return err
		})
		return at, ok, err
	}
	at, ok, err := next()
	var least time.Duration
	if err == nil && ok && !at.After(k.clock.Now()) {
		err = k.remove(ctx, system("ttl"), "ttl", func(r store.Reader) ([]core.Checkpoint, error) {
			list, err := r.ExpiredCheckpoints(k.clock.Now())
			if err != nil {
				return nil, err
			}
			free, err := notRestored(r, list)
			if len(free) < len(list) { // a restore that is under way holds one back, which stays due
				least = time.Second
			}
			return free, err
		})
		if err == nil {
			at, ok, err = next()
		}
	}
	if err != nil || !ok {
		return lookMost, err
	}
	return min(max(at.Sub(k.clock.Now()), least), lookMost), nil
}
