package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// takeAll is take for so many sandboxes with the same resources. Who may not have them all is told how many.
func (q *quotas) takeAll(r store.Reader, id core.TenantID, now time.Time, each core.Resources, n int) error {
	take := func(n int) error { return q.take(r, id, now, slices.Repeat([]core.Resources{each}, n)...) }
	err := take(n)
	over, ok := errors.AsType[*core.Error](err)
	if !ok || over.Code != core.CodeQuota || n == 1 {
		return err
	}
	told := *over
	told.Message += fmt.Sprintf("; of the %d sandboxes %d would fit", n, sort.Search(n-1, func(i int) bool { return take(i+1) != nil }))
	return &told
}

// record makes the intent durable: the checkpoint's record, the operation of its sandbox and the new sandboxes' records.
func (x *forking) record(ctx context.Context, f *fork) error {
	now := x.clock.Now()
	return x.store.Update(context.WithoutCancel(ctx), func(tx store.Tx) error {
		sb, err := f.p.findToChange(tx, string(f.source))
		if err != nil {
			return err
		}
		if err := core.Begin(sb.State, sb.Operation, core.OpFork); err != nil {
			return err
		}
		if sb.Operation != core.OpNone { // one that a crash cut off, and that is being undone
			return core.Errorf(core.CodeConflict, "a %s is under way: try again when it has ended", sb.Operation)
		}
		if err := x.quotas.checkpoint(tx, sb.Tenant); err != nil {
			return err
		}
		if err := x.quotas.takeAll(tx, sb.Tenant, f.saved.CreatedAt, f.each, len(f.all)); err != nil {
			return err
		}
		config, err := configOf(tx, sb)
		if err != nil {
			return err
		}
		f.saved.Parent, f.saved.Template, f.saved.TemplateName, f.saved.Config = sb.Head, sb.Template, sb.TemplateName, config
		f.saved.Resources, f.saved.Labels = sb.Resources, sb.Labels
		sb.Begin(core.OpFork, now)
		sb.OperationArg = string(f.saved.ID)
		if err := tx.PutSandbox(sb); err != nil {
			return err
		}
		if err := tx.PutCheckpoint(f.saved); err != nil {
			return err
		}
		if err := f.recordAll(tx, inheritedEnv(sb.Env, f.env)); err != nil {
			return err
		}
		return f.turn.saved(tx, f.saved.ID)
	})
}

// recordAll writes the records of the new sandboxes.
func (f *fork) recordAll(tx store.Tx, env map[string]string) error {
	if err := checkEnv("env", env); err != nil {
		return err
	}
	from := originOf(f.saved)
	for i := range f.all {
		one := &f.all[i]
		from.mark(one)
		one.Env = env
		if err := tx.PutSandbox(*one); err != nil {
			return err
		}
		if err := tellEvent(tx, *one, core.EventSandboxCreating, f.p.Actor, one.CreatedAt, startFacts(*one)); err != nil {
			return err
		}
	}
	return nil
}

// recordSaved writes what the checkpoint has, and ends the operation of its sandbox. It is not ready before the forks are.
func (x *forking) recordSaved(ctx context.Context, f *fork) error {
	return x.store.Update(ctx, func(tx store.Tx) error {
		now, err := f.creating(tx)
		if err != nil {
			return err
		}
		f.saved.Parent = now.Parent
		if err := tx.PutCheckpoint(f.saved); err != nil {
			return err
		}
		if err := x.quotas.checkpointFits(tx, f.saved.Tenant); err != nil {
			return err
		}
		return endCheckpoint(tx, f.saved, "")
	})
}

// creating returns the record of the checkpoint, unless it was deleted.
func (f *fork) creating(r store.Reader) (core.Checkpoint, error) {
	now, err := r.CheckpointByID(f.saved.ID)
	if err != nil || now.State != core.CheckpointCreating {
		return now, core.Wrap(core.CodeCanceled, err, "the checkpoint that the fork needs was deleted meanwhile")
	}
	return now, nil
}

// commit makes the checkpoint ready and all of the sandboxes running.
func (x *forking) commit(ctx context.Context, f *fork) error {
	all := slices.Clone(f.all)
	now := x.clock.Now()
	err := x.store.Update(ctx, func(tx store.Tx) error {
		saved, err := f.creating(tx)
		if err != nil {
			return err
		}
		saved.State = core.CheckpointReady
		if err := tx.PutCheckpoint(saved); err != nil {
			return err
		}
		if err := checkpointEvent(tx, saved, core.EventCheckpointCreated, f.p.Actor, now, nil); err != nil {
			return err
		}
		for i := range all {
			if all[i], err = x.creation.run(tx, all[i].ID, f.p.Actor, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		f.all = all
	}
	return err
}

// undo records that nothing came of a fork, and starts the removal of what there is of it. gone says that a delete of a new sandbox has come
// first.
func (x *forking) undo(ctx context.Context, f *fork, cause error) (gone bool, err error) {
	now := x.clock.Now()
	err = x.store.Update(ctx, func(tx store.Tx) error {
		for _, sb := range f.all {
			current, err := tx.SandboxByID(sb.ID)
			if err == nil && current.State == core.StateDeleted {
				gone = true
			} else if err == nil {
				err = recordUndone(tx, current, f.p.Actor, now, cause)
			}
			if err := goneIsDone(err); err != nil {
				return err
			}
		}
		if err := f.turn.undo(tx); err != nil {
			return err
		}
		return undoCheckpoint(tx, f.saved, f.p.Actor, now, cause)
	})
	if err != nil {
		return false, err
	}
	x.waiters.wake(f.p.Tenant)
	for _, sb := range f.all {
		x.creation.removal.finishSoon(sb.ID)
	}
	x.checkpoints.keeping.finishSoon(f.saved.ID)
	return gone, nil
}
