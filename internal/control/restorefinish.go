package control

import (
	"context"
	"log/slog"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// finish has the node do a restore that is on record, and records that it is done. The caller has the turn.
func (x *restoring) finish(ctx context.Context, sb core.Sandbox, actor core.Actor) (core.Sandbox, error) {
	var config core.TemplateConfig
	err := x.store.View(ctx, func(r store.Reader) (err error) {
		config, err = configOf(r, sb)
		return err
	})
	if err == nil {
		spec := nodeSpec(sb, config)
		spec.Source = core.TreeSource{Template: sb.Template}
		if sb.OperationArg != "" {
			spec.Source = core.TreeSource{Checkpoint: core.CheckpointID(sb.OperationArg)}
		}
		if err = x.node.Reserve(ctx, sb.ID, sb.Resources); err == nil { // its machine may have ended, and what it had is given back
			err = x.node.Restore(ctx, spec)
		}
	}
	if err == nil {
		err = failpoint.Hit(failpoint.ControlRestoreNodeDone)
	}
	if err != nil {
		return sb, err
	}
	return x.done(ctx, sb, actor)
}

// done records that a restore is done. A machine that has ended by then was not on record as running when it did.
func (x *restoring) done(ctx context.Context, sb core.Sandbox, actor core.Actor) (core.Sandbox, error) {
	sb, err := x.commit(ctx, sb, actor)
	if err != nil {
		return sb, err
	}
	if _, err := x.node.Guest(sb.ID); err != nil {
		return sb, x.waking.endedAtOnce(sb, err)
	}
	return sb, nil
}

// underRestore reports whether a record says that this very restore of it is under way.
func underRestore(now, begun core.Sandbox) bool {
	return now.State != core.StateDeleted && now.Operation == core.OpRestore && now.Incarnation == begun.Incarnation
}

// commit records that a sandbox runs on what it was restored to.
func (x *restoring) commit(ctx context.Context, sb core.Sandbox, actor core.Actor) (core.Sandbox, error) {
	now := x.clock.Now()
	x.watchers.forget(sb.ID) // those of the machine before; the next exec comes after this
	err := x.store.Update(context.WithoutCancel(ctx), func(tx store.Tx) error {
		current, err := tx.SandboxByID(sb.ID)
		switch {
		case err != nil:
			return err
		case current.State == core.StateDeleted:
			return core.Errorf(core.CodeNotFound, "no such sandbox")
		case !underRestore(current, sb): // it was told meanwhile
			return core.Errorf(core.CodeUnavailable, "the sandbox ended right after it was restored")
		}
		data := restoreFacts(current)
		for k, v := range sizeFacts(current.Resources) {
			data[k] = v
		}
		next, _ := core.Next(current.State, core.OpRestore)
		current.Head, current.Failure = core.CheckpointID(current.OperationArg), ""
		current.Become(next.Success, now)
		current.End()
		if current.CountsUse() && now.After(current.ActiveAt) {
			current.ActiveAt = now
		}
		sb = current
		if err := tx.PutSandbox(current); err != nil {
			return err
		}
		if err := loseExecs(tx, current, actor, now); err != nil {
			return err
		}
		return appendEvent(tx, current, core.EventSandboxRestored, actor, now, data)
	})
	if err != nil {
		return sb, err
	}
	x.waking.settled(ctx, sb)
	return sb, nil
}

// unfinished deals with a restore that failed, and returns why. One that was not begun leaves the sandbox as it was; otherwise it has failed.
// If the server is closing the next one sees to it.
func (x *restoring) unfinished(ctx context.Context, sb core.Sandbox, actor core.Actor, cause error, turn *turn) error {
	switch {
	case core.IsCode(cause, core.CodeNotFound) && ctx.Err() == nil && x.isGone(ctx, sb):
		return cause
	case x.tasks.closing():
		return cause
	case ctx.Err() != nil: // nothing else ends it
		return core.Wrap(core.CodeCanceled, cause, "the sandbox was deleted while it was being restored")
	}
	failed := func(err error) {
		x.log.Warn("record a restore that failed: will be tried again", slog.String("sandbox_id", string(sb.ID)), slog.Any("err", err))
	}
	if err := x.fail(context.WithoutCancel(ctx), sb, actor, cause, turn); err != nil {
		failed(err)
		x.persist(func(ctx context.Context) error {
			return x.inTurn(ctx, sb.ID, func(ctx context.Context) error { return x.fail(ctx, sb, actor, cause, turn) })
		}, failed)
	}
	return cause
}

// isGone reports whether a sandbox was deleted.
func (x *restoring) isGone(ctx context.Context, sb core.Sandbox) bool {
	gone := false
	err := x.store.View(ctx, func(r store.Reader) error {
		now, err := r.SandboxByID(sb.ID)
		gone = core.IsCode(err, core.CodeNotFound) || err == nil && now.State == core.StateDeleted
		return goneIsDone(err)
	})
	return err == nil && gone
}

// fail settles a restore that failed, by what the node has: a machine that was not touched goes on, one that runs on what was restored is
// taken for that, and a sandbox of which nothing runs has failed. The caller has the turn.
func (x *restoring) fail(ctx context.Context, sb core.Sandbox, actor core.Actor, cause error, turn *turn) error {
	var still bool
	err := x.store.View(ctx, func(r store.Reader) error {
		now, err := r.SandboxByID(sb.ID)
		still = err == nil && underRestore(now, sb)
		return goneIsDone(err)
	})
	if err != nil || !still {
		return err
	}
	runs, err := x.machine(ctx, sb.ID)
	switch {
	case err != nil:
		return err
	case runs == sb.Incarnation:
		_, err := x.done(ctx, sb, actor)
		return err
	case runs == 0:
		if err := x.node.Stop(ctx, sb.ID); err != nil {
			return err
		}
	}
	return x.recordFailed(ctx, sb, actor, cause, runs, turn)
}

// machine returns the incarnation of a sandbox that runs; 0 if none does.
func (x *restoring) machine(ctx context.Context, id core.SandboxID) (incarnation int64, err error) {
	here, err := x.node.List(ctx)
	for _, n := range here {
		if n.Sandbox == id && n.Running {
			incarnation = n.Incarnation
		}
	}
	return incarnation, err
}

// recordFailed records what became of a sandbox whose restore failed: runs is the incarnation that goes on, 0 if none does. The key of the
// call is free again.
func (x *restoring) recordFailed(ctx context.Context, sb core.Sandbox, actor core.Actor, cause error, runs int64, turn *turn) error {
	now := x.clock.Now()
	var current core.Sandbox
	err := x.store.Update(ctx, func(tx store.Tx) (err error) {
		current = core.Sandbox{}
		found, err := tx.SandboxByID(sb.ID)
		if err != nil || !underRestore(found, sb) {
			return goneIsDone(err)
		}
		data := map[string]string{"reason": "its restore failed: " + publicMessage(cause), "code": string(core.CodeOf(cause))}
		event := core.EventSandboxRunning
		if runs > 0 {
			found.Incarnation = runs
		} else {
			next, _ := core.Next(found.State, core.OpRestore)
			found.Become(next.Failure, now)
			found.Failure, event = data["reason"], core.EventSandboxFailed
		}
		found.End()
		if err := tx.PutSandbox(found); err != nil {
			return err
		}
		if err := turn.undo(tx); err != nil {
			return err
		}
		if runs == 0 {
			if err := loseExecs(tx, found, actor, now); err != nil {
				return err
			}
		}
		current = found
		return appendEvent(tx, found, event, actor, now, data)
	})
	if err != nil || current.ID == "" {
		return err
	}
	if runs == 0 {
		x.watchers.forget(sb.ID)
	} else if _, err := x.node.Guest(sb.ID); err != nil { // it has ended since, when it was not on record as running
		_ = x.waking.endedAtOnce(current, err) // which is recorded; the caller is told why the restore failed
	}
	x.waking.settled(ctx, current)
	return nil
}

// resume does again, in the background, a restore that a restart cut off.
func (x *restoring) resume(sb core.Sandbox) {
	actor := system("reconcile")
	act := func(ctx context.Context) error {
		return x.inTurn(ctx, sb.ID, func(ctx context.Context) error { return x.again(ctx, sb, actor) })
	}
	x.persist(act, func(err error) {
		x.log.Warn("a restore that a restart cut off: will be tried again", slog.String("sandbox_id", string(sb.ID)), slog.Any("err", err))
	})
}

// again finishes a restore that is still under way on record, or records that it failed. The caller has the turn.
func (x *restoring) again(ctx context.Context, sb core.Sandbox, actor core.Actor) error {
	still := false
	err := x.store.View(ctx, func(r store.Reader) error {
		now, err := r.SandboxByID(sb.ID)
		still = err == nil && underRestore(now, sb)
		return goneIsDone(err)
	})
	if err != nil || !still { // it was deleted since, or is settled
		return err
	}
	runs, err := x.machine(ctx, sb.ID)
	if err == nil && runs == sb.Incarnation { // the node had done it
		_, err = x.done(ctx, sb, actor)
	} else if err == nil {
		err = x.finishInGate(ctx, sb, actor)
	}
	if err == nil || ctx.Err() != nil || core.IsCode(err, core.CodeNotFound) && x.isGone(ctx, sb) {
		return nil //nolint:nilerr // a delete, or the next start, sees to it
	}
	x.log.Warn("a restore that a restart cut off failed", slog.String("sandbox_id", string(sb.ID)), slog.Any("err", err))
	return x.fail(ctx, sb, actor, err, nil)
}

// finishInGate is finish when there is a place on the node.
func (x *restoring) finishInGate(ctx context.Context, sb core.Sandbox, actor core.Actor) error {
	leave, err := x.gate.enter(ctx, sb.Tenant, nil)
	if err != nil {
		return err
	}
	defer leave()
	_, err = x.finish(ctx, sb, actor)
	return err
}
