package control

import (
	"context"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// WakeSandbox starts a sandbox that is stopped on the files that it has. One that runs is returned as it is; one that is being stopped is
// waited for.
func (s *Service) WakeSandbox(ctx context.Context, p Principal, ref string) (core.Sandbox, error) {
	if err := p.may("WakeSandbox"); err != nil {
		return core.Sandbox{}, err
	}
	sb, err := s.changed(ctx, p, ref)
	if err != nil {
		return core.Sandbox{}, err
	}
	start := s.clock.Now()
	sb, err = s.whole(ctx, sb.ID, func(ctx context.Context) (core.Sandbox, error) { return s.waking.wake(ctx, p, sb.ID) })
	s.observer.Wake(err, s.clock.Now().Sub(start))
	return sb, err
}

// waking wakes sandboxes.
//
// The record has the new incarnation, and says that a wake is under way, before the node begins. What fails, or is cut off by a crash
// before the guest agent has answered, leaves the sandbox as it was: its files, its deadline and its rules.
type waking struct {
	*deps
	lifecycle *lifecycle
	// failed records that a machine ended by itself.
	failed func(ctx context.Context, e core.NodeExit, seen time.Time) error
}

// wake wakes a sandbox. The caller has the turn.
func (x *waking) wake(ctx context.Context, p Principal, id core.SandboxID) (core.Sandbox, error) {
	sb, err := x.reserve(ctx, p, id)
	if err != nil || sb.State == core.StateRunning {
		return sb, err
	}
	sb, config, err := x.record(ctx, p, id)
	if err != nil {
		x.node.Release(id)
		return sb, err
	}
	x.waiters.wake(sb.Tenant)
	if err = failpoint.Hit(failpoint.ControlWakeRecorded); err == nil {
		err = x.wakeInTurn(ctx, nodeSpec(sb, config))
	}
	if err == nil {
		err = failpoint.Hit(failpoint.ControlWakeNodeDone)
	}
	if err == nil {
		sb, err = x.commit(ctx, sb, p.Actor)
	}
	if err != nil {
		return sb, x.unfinished(ctx, sb, p.Actor, err)
	}
	if _, err := x.node.Guest(id); err != nil {
		return sb, x.endedAtOnce(sb, err)
	}
	return sb, failpoint.Hit(failpoint.ControlWakeCommitted)
}

// endedAtOnce records the end of a machine that came before it was on record that it runs: whoever saw it had nothing to mark as failed.
func (x *waking) endedAtOnce(sb core.Sandbox, cause error) error {
	exit := core.NodeExit{Sandbox: sb.ID, Incarnation: sb.Incarnation, Reason: "its machine ended right after it was woken"}
	x.persist(func(ctx context.Context) error { return x.failed(ctx, exit, time.Time{}) }, func(err error) {
		x.log.Error("record the end of a machine: will be tried again", slog.String("sandbox_id", string(sb.ID)), slog.Any("err", err))
	})
	return core.Wrap(core.CodeUnavailable, cause, "the sandbox ended right after it was woken")
}

// reserve looks whether a sandbox can be woken, and has the node promise what it needs. One that runs is returned as it is.
func (x *waking) reserve(ctx context.Context, p Principal, id core.SandboxID) (sb core.Sandbox, err error) {
	err = x.store.View(ctx, func(r store.Reader) error {
		sb, err = x.check(r, p, id)
		return err
	})
	if err != nil || sb.State == core.StateRunning {
		return sb, err
	}
	return sb, x.node.Reserve(ctx, id, sb.Resources)
}

// check returns a sandbox that may be woken now, or runs.
func (x *waking) check(r store.Reader, p Principal, id core.SandboxID) (core.Sandbox, error) {
	sb, err := p.findToChange(r, string(id))
	switch {
	case err != nil:
		return sb, err
	case sb.State == core.StateRunning && sb.Operation != core.OpStop && sb.Operation != core.OpRestore:
		return sb, nil
	case sb.State == core.StateFailed:
		return sb, core.Errorf(core.CodeConflict, "the sandbox has failed (%s): stop it first, which keeps its files, then wake it", sb.Failure)
	case sb.Operation == core.OpStop || sb.Operation == core.OpRestore: // one that is being tried again
		return sb, &core.Error{Code: core.CodeConflict, Message: "a " + string(sb.Operation) + " is under way: try again when it has ended", RetryAfter: time.Second}
	}
	if err := core.Begin(sb.State, sb.Operation, core.OpWake); err != nil {
		return sb, err
	}
	return sb, x.quotas.wake(r, sb)
}

// record makes the intent durable.
func (x *waking) record(ctx context.Context, p Principal, id core.SandboxID) (sb core.Sandbox, config core.TemplateConfig, err error) {
	now := x.clock.Now()
	err = x.store.Update(context.WithoutCancel(ctx), func(tx store.Tx) error {
		if sb, err = x.check(tx, p, id); err != nil {
			return err
		}
		if config, err = configOf(tx, sb); err != nil {
			return err
		}
		sb.Incarnation++
		sb.Begin(core.OpWake, now)
		if err := tx.PutSandbox(sb); err != nil {
			return err
		}
		return appendEvent(tx, sb, core.EventSandboxWaking, p.Actor, now, nil)
	})
	return sb, config, err
}

// wakeInTurn has the node wake a sandbox when there is a place for it.
func (x *waking) wakeInTurn(ctx context.Context, spec core.NodeSpec) error {
	leave, err := x.gate.enter(ctx, spec.Tenant, nil)
	if err != nil {
		return err
	}
	defer leave()
	return x.node.Wake(ctx, spec)
}

// commit records that a sandbox runs, unless it was deleted.
func (x *waking) commit(ctx context.Context, sb core.Sandbox, actor core.Actor) (core.Sandbox, error) {
	now := x.clock.Now()
	err := x.store.Update(context.WithoutCancel(ctx), func(tx store.Tx) error {
		current, err := tx.SandboxByID(sb.ID)
		if err == nil && current.State == core.StateDeleted {
			err = core.Errorf(core.CodeNotFound, "no such sandbox")
		}
		if err != nil {
			return err
		}
		next, _ := core.Next(current.State, core.OpWake)
		current.Become(next.Success, now)
		current.End()
		if current.CountsUse() && now.After(current.ActiveAt) {
			current.ActiveAt = now
		}
		sb = current
		if err := tx.PutSandbox(current); err != nil {
			return err
		}
		return appendEvent(tx, current, core.EventSandboxRunning, actor, now, sizeFacts(current.Resources))
	})
	if err != nil {
		return sb, err
	}
	x.settled(ctx, sb)
	return sb, nil
}

// settled tells whom it concerns that a sandbox is awake, or asleep again.
func (x *waking) settled(ctx context.Context, sb core.Sandbox) {
	x.waiters.wake(sb.Tenant)
	x.activity.reload(ctx, sb.ID)
	x.lifecycle.lookAgain()
}

// unfinished deals with a wake that failed, and returns why. If the server is closing the next one sees to it.
func (x *waking) unfinished(ctx context.Context, sb core.Sandbox, actor core.Actor, cause error) error {
	switch {
	case core.IsCode(cause, core.CodeNotFound) || x.tasks.closing():
		return cause
	case ctx.Err() != nil: // nothing else ends it
		return core.Wrap(core.CodeCanceled, cause, "the sandbox was deleted while it was being woken")
	}
	if err := x.undo(context.WithoutCancel(ctx), sb.ID, actor, sb.Incarnation, cause); err != nil {
		failed := func(err error) {
			x.log.Warn("record a failed wake: will be tried again", slog.String("sandbox_id", string(sb.ID)), slog.Any("err", err))
		}
		failed(err)
		x.persist(func(ctx context.Context) error {
			return x.inTurn(ctx, sb.ID, func(ctx context.Context) error { return x.undo(ctx, sb.ID, actor, sb.Incarnation, cause) })
		}, failed)
	}
	return cause
}

// undo has the node end what a wake has begun, and records that the sandbox is stopped as before. The caller has the turn.
func (x *waking) undo(ctx context.Context, id core.SandboxID, actor core.Actor, incarnation int64, cause error) error {
	var undone core.Sandbox
	under := func(sb core.Sandbox) bool {
		return sb.State != core.StateDeleted && sb.Operation == core.OpWake && sb.Incarnation == incarnation
	}
	var still bool
	err := x.store.View(ctx, func(r store.Reader) error {
		sb, err := r.SandboxByID(id)
		still = err == nil && under(sb)
		return goneIsDone(err)
	})
	if err != nil || !still {
		return err
	}
	if err := x.node.Stop(ctx, id); err != nil {
		return err
	}
	now := x.clock.Now()
	err = x.store.Update(ctx, func(tx store.Tx) error {
		sb, err := tx.SandboxByID(id)
		if err != nil || !under(sb) {
			return goneIsDone(err)
		}
		next, _ := core.Next(sb.State, core.OpWake)
		sb.Become(next.Failure, now)
		sb.End()
		undone = sb
		if err := tx.PutSandbox(sb); err != nil {
			return err
		}
		return appendEvent(tx, sb, core.EventSandboxStopped, actor, now, map[string]string{
			"reason": "it could not be woken", "code": string(core.CodeOf(cause)),
		})
	})
	if err == nil && undone.ID != "" {
		x.settled(ctx, undone)
	}
	return err
}
