package control

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// RestoreSpec asks for a sandbox's files to be those of a checkpoint of it, or as they were when it was made.
type RestoreSpec struct {
	// Checkpoint is the one to go back to; empty, for a reset, is what the sandbox was made from.
	Checkpoint core.CheckpointID
	// Discard keeps no checkpoint of what is replaced.
	Discard bool
	// Once, unless it is nil, makes a repeat of the call return what the first one did.
	Once *core.Once
}

// Restored is what came of a restore.
type Restored struct {
	Sandbox core.Sandbox
	// Saved is the checkpoint of what was replaced; empty if none was made.
	Saved core.CheckpointID
}

// keepReplaced is how many checkpoints of what restores have replaced are kept of a sandbox.
const keepReplaced = 10

// RestoreSandbox puts the files of one of a sandbox's checkpoints in the place of those that it has, and starts it on them. Id, name, limits
// and lifecycle stay. Its processes are ended at once; what they have written until then is kept in a checkpoint of its own, unless the
// caller discards it.
func (x *restoring) RestoreSandbox(ctx context.Context, p Principal, ref string, spec RestoreSpec) (Restored, error) {
	if err := p.may("RestoreSandbox"); err != nil {
		return Restored{}, err
	}
	if err := p.needKey(); err != nil {
		return Restored{}, err
	}
	if spec.Checkpoint == "" {
		return Restored{}, core.Invalid("checkpoint_id", "say which checkpoint to go back to; a reset goes back to what the sandbox was made from")
	}
	return x.call(ctx, p, ref, spec)
}

// ResetSandbox puts a sandbox's files back to what it was made from, as RestoreSandbox does.
func (x *restoring) ResetSandbox(ctx context.Context, p Principal, ref string, spec RestoreSpec) (Restored, error) {
	if err := p.may("ResetSandbox"); err != nil {
		return Restored{}, err
	}
	spec.Checkpoint = ""
	return x.call(ctx, p, ref, spec)
}

// restoring restores sandboxes.
//
// What is replaced is saved first, as any checkpoint is. Then the record has the new incarnation and says that a restore is under way, and of
// what, until the node has done it. Cut off by a crash it is done again. If the node can't, the sandbox has failed, and its files are as they
// were or as the checkpoint has them: both checkpoints are there.
type restoring struct {
	*finder
	once        *once
	checkpoints *checkpoints
	watchers    *watchers
	waking      *waking
}

// call restores a sandbox for a call.
func (x *restoring) call(ctx context.Context, p Principal, ref string, spec RestoreSpec) (res Restored, err error) {
	if err := p.needKey(); err != nil {
		return res, err
	}
	turn, err := x.once.begin(ctx, p, "restore of "+ref, spec.Once)
	if err != nil {
		return res, err
	}
	var begun atomic.Bool // from then on it goes on without its caller, and the key is taken until it has ended
	defer func() {
		if !begun.Load() {
			turn.over()
		}
	}()
	seen, err := x.settled(ctx, p, ref)
	if err != nil {
		return res, err
	}
	if turn != nil && turn.found != nil {
		return x.before(seen, turn)
	}
	saved := make(chan core.CheckpointID, 1)
	res.Sandbox, err = x.whole(ctx, seen.ID, func(own context.Context) (core.Sandbox, error) {
		begun.Store(true)
		defer turn.over()
		if ctx.Err() != nil {
			return core.Sandbox{}, core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
		}
		sb, id, err := x.restore(own, p, seen, spec, turn)
		saved <- id
		return sb, err
	})
	if err == nil {
		res.Saved = <-saved
	}
	return res, err
}

// before returns what an earlier call with the key did. One that failed has left the key free, but for one that a restart did again.
func (x *restoring) before(seen core.Sandbox, turn *turn) (Restored, error) {
	var did restoreDone
	if !turn.kept(&did) {
		return Restored{}, errForgotten
	}
	switch {
	case seen.Operation == core.OpRestore:
		return Restored{}, &core.Error{Code: core.CodeConflict, Message: "the restore is under way: try again when it has ended", RetryAfter: time.Second}
	case seen.Incarnation < did.Incarnation || seen.Incarnation == did.Incarnation && seen.State == core.StateFailed:
		return Restored{}, core.Errorf(core.CodeConflict, "the restore that was asked for with this key has failed; another key asks for another")
	}
	return Restored{Sandbox: seen, Saved: turn.found.Checkpoint}, nil
}

// restoreDone is what is remembered of a restore that is on record: the incarnation that it began.
type restoreDone struct {
	Incarnation int64 `json:"incarnation"`
}

// restore restores a sandbox. The caller has the turn.
func (x *restoring) restore(ctx context.Context, p Principal, seen core.Sandbox, spec RestoreSpec, turn *turn) (sb core.Sandbox, saved core.CheckpointID, err error) {
	release, err := x.activity.hold(ctx, seen.ID, core.UseOperation)
	if err != nil {
		return sb, "", err
	}
	defer release()
	err = x.store.View(ctx, func(r store.Reader) error {
		sb, err = x.check(r, p, seen, spec.Checkpoint)
		return err
	})
	if err != nil {
		return sb, "", err
	}
	// The place on the node is taken before anything is saved, so that what is replaced is saved right before it is.
	leave, err := x.gate.enter(ctx, sb.Tenant, nil)
	if err == nil {
		defer leave()
		err = x.node.Reserve(ctx, sb.ID, sb.Resources) // one that runs has it, and keeps it
	}
	if err != nil {
		return sb, "", err
	}
	if !spec.Discard {
		saved, err = x.save(ctx, p, sb)
	}
	if err == nil {
		sb, err = x.record(ctx, p, seen, spec.Checkpoint, saved, turn)
	}
	if err != nil {
		x.giveBack(seen)
		return sb, saved, err
	}
	x.waiters.wake(sb.Tenant)
	if err = failpoint.Hit(failpoint.ControlRestoreRecorded); err == nil {
		sb, err = x.finish(ctx, sb, p.Actor)
	}
	if err != nil {
		return sb, saved, x.unfinished(ctx, sb, p.Actor, err, turn)
	}
	if saved != "" {
		x.checkpoints.keepNewest(ctx, sb.ID, core.CauseRestore, keepReplaced)
	}
	return sb, saved, failpoint.Hit(failpoint.ControlRestoreCommitted)
}

// save makes a checkpoint of what a sandbox has.
func (x *restoring) save(ctx context.Context, p Principal, sb core.Sandbox) (core.CheckpointID, error) {
	rec, err := x.checkpoints.make(ctx, checkpointing{
		sandbox: sb.ID, actor: p.Actor, cause: core.CauseRestore, spec: core.CheckpointSpec{Kind: core.CheckpointDisk, Comment: "before a restore"},
		find: func(r store.Reader) (core.Sandbox, error) { return p.findToChange(r, string(sb.ID)) },
	})
	return rec.ID, err
}

// check returns a sandbox that can be restored now, with what from as OperationArg. seen is how the caller found it: what was started anew or stopped since is not what
// he meant.
func (x *restoring) check(r store.Reader, p Principal, seen core.Sandbox, id core.CheckpointID) (core.Sandbox, error) {
	sb, err := p.findToChange(r, string(seen.ID))
	if err != nil {
		return sb, err
	}
	if err := core.Begin(sb.State, sb.Operation, core.OpRestore); err != nil {
		return sb, err
	}
	switch {
	case sb.Operation != core.OpNone: // one that a crash cut off, and that is being done again
		return sb, &core.Error{Code: core.CodeConflict, Message: "a restore is under way: try again when it has ended", RetryAfter: time.Second}
	case sb.Incarnation != seen.Incarnation || sb.State != seen.State:
		return sb, core.Errorf(core.CodeConflict, "the sandbox was restored, stopped or woken meanwhile: look at it, then try again")
	case sb.State != core.StateRunning:
		if err := x.quotas.wake(r, sb); err != nil {
			return sb, err
		}
	}
	from, err := x.restorable(r, p, sb, id)
	sb.OperationArg = string(from)
	return sb, err
}

// restorable returns the checkpoint that a sandbox is to be restored from, empty for its template. For none it is what the sandbox was made
// from.
func (x *restoring) restorable(r store.Reader, p Principal, sb core.Sandbox, id core.CheckpointID) (core.CheckpointID, error) {
	if id != "" {
		rec, err := p.findCheckpoint(r, id)
		if core.IsCode(err, core.CodeNotFound) {
			return "", blame(err, "checkpoint_id")
		}
		if err == nil && rec.Sandbox != sb.ID && rec.ID != sb.Source {
			err = core.Invalid("checkpoint_id", "this is a checkpoint of another sandbox: a sandbox goes back to its own")
		}
		return id, err
	}
	err := stillThere(r, sb)
	if core.IsCode(err, core.CodeNotFound) {
		err = core.Errorf(core.CodeConflict, "what the sandbox was made from is gone")
	}
	return sb.Source, err
}

// record makes the intent durable.
func (x *restoring) record(
	ctx context.Context, p Principal, seen core.Sandbox, id, saved core.CheckpointID, turn *turn,
) (sb core.Sandbox, err error) {
	now := x.clock.Now()
	err = x.store.Update(context.WithoutCancel(ctx), func(tx store.Tx) error {
		if sb, err = x.check(tx, p, seen, id); err != nil {
			return err
		}
		from := sb.OperationArg
		sb.Incarnation++
		sb.Begin(core.OpRestore, now)
		sb.OperationArg = from
		if err := tx.PutSandbox(sb); err != nil {
			return err
		}
		done, err := json.Marshal(restoreDone{sb.Incarnation})
		if err != nil {
			return err
		}
		if err := turn.put(tx, core.KeyedCall{Sandbox: sb.ID, Checkpoint: saved, Result: done}); err != nil {
			return err
		}
		data := restoreFacts(sb)
		if saved != "" {
			data["saved"] = string(saved)
		}
		return appendEvent(tx, sb, core.EventSandboxRestoring, p.Actor, now, data)
	})
	return sb, err
}

// restoreFacts names what a sandbox is being restored from.
func restoreFacts(sb core.Sandbox) map[string]string {
	if sb.OperationArg == "" {
		return map[string]string{"template": sb.TemplateName}
	}
	return map[string]string{"checkpoint_id": sb.OperationArg}
}

// giveBack gives back what was reserved for a sandbox that doesn't run, and that is not restored.
func (x *restoring) giveBack(sb core.Sandbox) {
	if _, err := x.node.Guest(sb.ID); err != nil {
		x.node.Release(sb.ID)
	}
}

// notRestored leaves out the checkpoints to which a sandbox is just being restored.
func notRestored(r store.Reader, list []core.Checkpoint) (free []core.Checkpoint, err error) {
	for _, rec := range list {
		busy, err := r.IsRestored(rec.ID)
		if err != nil {
			return nil, err
		}
		if !busy {
			free = append(free, rec)
		}
	}
	return free, nil
}
