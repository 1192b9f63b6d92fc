package control

import (
	"context"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// CreateCheckpoint saves a sandbox's files as they are at one moment, and returns what was saved. If it fails, or the caller goes away
// first, nothing of it is left. With spec.Once a repeat returns what the first call made.
func (c *checkpoints) CreateCheckpoint(ctx context.Context, p Principal, ref string, spec core.CheckpointSpec) (rec core.Checkpoint, err error) {
	if err := p.may("CreateCheckpoint"); err != nil {
		return rec, err
	}
	if err := p.needKey(); err != nil {
		return rec, err
	}
	if spec, err = checkCheckpoint(spec); err != nil {
		return rec, err
	}
	turn, err := c.once.begin(ctx, p, "checkpoint of "+ref, spec.Once)
	if err != nil {
		return rec, err
	}
	defer turn.over()
	if turn != nil && turn.found != nil {
		return c.before(ctx, p, turn)
	}
	sb, err := c.settled(ctx, p, ref)
	if err != nil {
		return rec, err
	}
	release, err := c.activity.hold(ctx, sb.ID, core.UseOperation)
	if err != nil {
		return rec, err
	}
	defer release()
	cmd, done, err := c.commands.begin(ctx, sb.ID)
	if err != nil {
		return rec, err
	}
	defer done()
	rec, err = c.make(cmd, checkpointing{
		sandbox: sb.ID, actor: p.Actor, cause: core.CauseCall, spec: spec, turn: turn,
		find: func(r store.Reader) (core.Sandbox, error) { return p.findToChange(r, string(sb.ID)) },
	})
	if err != nil {
		return rec, err
	}
	turn.keep(ctx, rec)
	if spec.KeepLast > 0 {
		c.keepNewestLabeled(ctx, rec.Sandbox, core.CauseCall, p.Labels, spec.KeepLast)
	}
	return rec, failpoint.Hit(failpoint.ControlCheckpointCommitted)
}

// before returns the checkpoint that an earlier call with the key made. One that came to nothing has left the key free.
func (c *checkpoints) before(ctx context.Context, p Principal, t *turn) (rec core.Checkpoint, err error) {
	if t.kept(&rec) {
		return rec, nil
	}
	err = c.store.View(ctx, func(r store.Reader) error {
		rec, err = r.CheckpointByID(t.found.Checkpoint)
		return err
	})
	switch {
	case core.IsCode(err, core.CodeNotFound), err == nil && (rec.State == core.CheckpointDeleting || !hasLabels(rec.Labels, p.Labels)):
		return core.Checkpoint{}, errForgotten
	case err == nil && rec.State == core.CheckpointCreating:
		return core.Checkpoint{}, core.Errorf(core.CodeUnavailable, "an earlier call with this key is being undone")
	case err != nil:
		return core.Checkpoint{}, err
	}
	t.repeated()
	return rec, nil
}

// checkpointing is a checkpoint that is to be made.
type checkpointing struct {
	sandbox core.SandboxID
	actor   core.Actor
	cause   core.CheckpointCause
	spec    core.CheckpointSpec
	// find finds the sandbox again, in the transaction that records the intent.
	find func(r store.Reader) (core.Sandbox, error)
	turn *turn
}

// make makes a checkpoint. The caller has the sandbox's turn.
func (c *checkpoints) make(ctx context.Context, want checkpointing) (rec core.Checkpoint, err error) {
	if rec, err = c.record(ctx, want); err != nil {
		return rec, err
	}
	var tree core.CheckpointTree
	if err = failpoint.Hit(failpoint.ControlCheckpointRecorded); err == nil {
		tree, err = c.node.Checkpoint(ctx, rec.ID, rec.Sandbox)
	}
	if err == nil {
		err = failpoint.Hit(failpoint.ControlCheckpointNodeDone)
	}
	if err == nil {
		c.log.InfoContext(ctx, "checkpoint", slog.String("sandbox_id", string(rec.Sandbox)), slog.String("checkpoint_id", string(rec.ID)),
			slog.Float64("held_ms", float64(tree.Held.Microseconds())/1000))
		rec.Origin, rec.WrittenBytes = tree.Origin, tree.WrittenBytes
		rec, err = c.commit(context.WithoutCancel(ctx), rec, want.actor)
	}
	if err != nil {
		return core.Checkpoint{}, c.abandon(context.WithoutCancel(ctx), rec, want.actor, err)
	}
	c.waiters.wake(rec.Tenant)
	c.keeping.lookAgain()
	return rec, nil
}

// record makes the intent durable: the checkpoint's record, and the operation of its sandbox.
func (c *checkpoints) record(ctx context.Context, want checkpointing) (rec core.Checkpoint, err error) {
	id, now := core.CheckpointID(core.NewID()), c.clock.Now()
	err = c.store.Update(context.WithoutCancel(ctx), func(tx store.Tx) error {
		sb, err := want.find(tx)
		if err != nil {
			return err
		}
		if err := core.Begin(sb.State, sb.Operation, core.OpCheckpoint); err != nil {
			return err
		}
		if sb.Operation != core.OpNone { // one that a crash cut off, and that is being undone
			return core.Errorf(core.CodeConflict, "a %s is under way: try again when it has ended", sb.Operation)
		}
		if err := c.quotas.checkpoint(tx, sb.Tenant); err != nil {
			return err
		}
		config, err := configOf(tx, sb)
		if err != nil {
			return err
		}
		rec = core.Checkpoint{
			ID: id, Tenant: sb.Tenant, Sandbox: sb.ID, Parent: sb.Head, Kind: want.spec.Kind, State: core.CheckpointCreating,
			Cause: want.cause, Comment: want.spec.Comment, Template: sb.Template, TemplateName: sb.TemplateName, Config: config,
			Resources: sb.Resources, Labels: sb.Labels, CreatedAt: now, ExpiresAt: endAfter(now, want.spec.TTL), WrittenBytes: -1,
		}
		sb.Begin(core.OpCheckpoint, now)
		sb.OperationArg = string(rec.ID)
		if err := tx.PutSandbox(sb); err != nil {
			return err
		}
		if err := tx.PutCheckpoint(rec); err != nil {
			return err
		}
		return want.turn.saved(tx, rec.ID)
	})
	return rec, err
}

// commit makes the checkpoint ready, and the head of its sandbox.
func (c *checkpoints) commit(ctx context.Context, rec core.Checkpoint, actor core.Actor) (core.Checkpoint, error) {
	made := rec
	err := c.store.Update(ctx, func(tx store.Tx) error {
		now, err := tx.CheckpointByID(rec.ID)
		if err != nil || now.State != core.CheckpointCreating {
			return core.Wrap(core.CodeCanceled, err, "the checkpoint was deleted with its sandbox while it was made")
		}
		made = rec
		// Its parent may have been deleted meanwhile.
		made.Parent, made.State = now.Parent, core.CheckpointReady
		if err := tx.PutCheckpoint(made); err != nil {
			return err
		}
		if err := c.quotas.checkpointFits(tx, made.Tenant); err != nil {
			return err
		}
		if err := endCheckpoint(tx, made, made.ID); err != nil {
			return err
		}
		return checkpointEvent(tx, made, core.EventCheckpointCreated, actor, c.clock.Now(), nil)
	})
	if err != nil {
		return rec, err
	}
	return made, nil
}

// endCheckpoint ends the operation that made a checkpoint, for itself or for a fork, and no other of its sandbox. head is the checkpoint,
// or empty if it is not to be the head.
func endCheckpoint(tx store.Tx, rec core.Checkpoint, head core.CheckpointID) error {
	sb, err := tx.SandboxByID(rec.Sandbox)
	if err != nil || sb.State == core.StateDeleted {
		return goneIsDone(err) // It was deleted meanwhile; the checkpoint stays.
	}
	if savesFiles(sb.Operation) && sb.OperationArg == string(rec.ID) {
		sb.End()
	}
	if head != "" {
		sb.Head = head
	}
	return tx.PutSandbox(sb)
}

// savesFiles reports whether an operation makes a checkpoint, which is then its argument.
func savesFiles(op core.OperationKind) bool { return op == core.OpCheckpoint || op == core.OpFork }

// abandon records that a checkpoint came to nothing, and has what is left of it removed. It returns the error for the caller. What can't
// be written now is written later.
func (c *checkpoints) abandon(ctx context.Context, rec core.Checkpoint, actor core.Actor, cause error) error {
	undo := func(ctx context.Context) error { return c.undo(ctx, rec, actor, cause) }
	if err := undo(ctx); err != nil {
		failed := func(err error) {
			c.log.Error("record a checkpoint that failed: will be tried again",
				slog.String("checkpoint_id", string(rec.ID)), slog.Any("err", err))
		}
		failed(err)
		c.persist(undo, failed)
	}
	return cause
}

func (c *checkpoints) undo(ctx context.Context, rec core.Checkpoint, actor core.Actor, cause error) error {
	err := c.store.Update(ctx, func(tx store.Tx) error {
		return undoCheckpoint(tx, rec, actor, c.clock.Now(), cause)
	})
	if err == nil {
		c.waiters.wake(rec.Tenant)
		c.keeping.finishSoon(rec.ID)
	}
	return err
}

// undoCheckpoint records that a checkpoint came to nothing, unless it was deleted meanwhile. Its operation ends in any case.
func undoCheckpoint(tx store.Tx, rec core.Checkpoint, actor core.Actor, at time.Time, cause error) error {
	now, err := tx.CheckpointByID(rec.ID)
	switch {
	case core.IsCode(err, core.CodeNotFound), err == nil && now.State == core.CheckpointDeleting:
		return endCheckpoint(tx, rec, "")
	case err != nil:
		return err
	}
	return recordCheckpointFailed(tx, now, actor, at, cause)
}

// recordCheckpointFailed makes a checkpoint that came to nothing deleted, and ends the operation of its sandbox.
func recordCheckpointFailed(tx store.Tx, rec core.Checkpoint, actor core.Actor, at time.Time, cause error) error {
	rec.State = core.CheckpointDeleting
	if err := tx.PutCheckpoint(rec); err != nil {
		return err
	}
	if err := endCheckpoint(tx, rec, ""); err != nil {
		return err
	}
	return checkpointEvent(tx, rec, core.EventCheckpointFailed, actor, at, map[string]string{
		"code": string(core.CodeOf(cause)), "reason": publicMessage(cause),
	})
}

// checkpointEvent adds an event about a checkpoint to the transaction that makes it true.
func checkpointEvent(
	tx store.Tx, rec core.Checkpoint, t core.EventType, actor core.Actor, at time.Time, data map[string]string,
) error {
	facts := map[string]string{"checkpoint_id": string(rec.ID), "kind": string(rec.Kind), "cause": string(rec.Cause)}
	if rec.Parent != "" {
		facts["parent"] = string(rec.Parent)
	}
	for k, v := range data {
		facts[k] = v
	}
	_, err := tx.AppendEvent(core.Event{Tenant: rec.Tenant, Sandbox: rec.Sandbox, Type: t, At: at, Actor: actor, Data: facts})
	return err
}
