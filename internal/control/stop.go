package control

import (
	"context"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// DefaultGrace is how long a stop waits for processes to end by themselves if its caller doesn't say, and MaxGrace the most that he may say.
const (
	DefaultGrace = 10 * time.Second
	MaxGrace     = time.Minute
)

// StopSandbox ends a sandbox's processes and keeps its files: nothing of it is left in memory. Execs are asked to end first, for at most as
// long as the grace, which a second stop with a shorter one cuts short. One that is stopped already is returned as it is.
func (s *Service) StopSandbox(ctx context.Context, p Principal, ref string, grace time.Duration) (core.Sandbox, error) {
	if err := p.may("StopSandbox"); err != nil {
		return core.Sandbox{}, err
	}
	if grace < 0 || grace > MaxGrace {
		return core.Sandbox{}, core.Invalid("grace_seconds", "a grace is 0 to %d seconds", int64(MaxGrace/time.Second))
	}
	sb, err := s.changed(ctx, p, ref)
	if err != nil {
		return core.Sandbox{}, err
	}
	start := s.clock.Now()
	s.stopping.graces.shorten(sb.ID, start.Add(grace))
	order := stopOrder{
		actor: p.Actor, grace: grace, find: func(r store.Reader) (core.Sandbox, error) { return p.findToChange(r, string(sb.ID)) },
	}
	sb, err = s.whole(ctx, sb.ID, func(ctx context.Context) (core.Sandbox, error) { return s.stopping.stop(ctx, order) })
	s.observer.Stop(err, s.clock.Now().Sub(start))
	return sb, err
}

// stopping stops sandboxes.
//
// The record says that a stop is under way until the node has ended the sandbox. From then on it is finished, by this server or the
// next, unless the node could not begin with it; a delete is the end of it.
type stopping struct {
	*deps
	watchers  *watchers
	usage     *usage
	lifecycle *lifecycle
	graces    graces
}

// stopOrder says who wants a sandbox stopped, and how.
type stopOrder struct {
	actor core.Actor
	// reason is the name of the rule that asks for it; empty if a caller does.
	reason string
	grace  time.Duration
	// find finds the sandbox, in the transaction that records the intent. Its error leaves the sandbox as it is.
	find func(r store.Reader) (core.Sandbox, error)
}

// stopFound stops a sandbox for a rule.
func (x *stopping) stopFound(ctx context.Context, actor core.Actor, reason string, find func(store.Reader) (core.Sandbox, error)) error {
	var sb core.Sandbox
	err := x.store.View(ctx, func(r store.Reader) (err error) {
		sb, err = find(r)
		return err
	})
	if err != nil {
		return err
	}
	return x.inTurn(ctx, sb.ID, func(ctx context.Context) error {
		_, err := x.stop(ctx, stopOrder{actor: actor, reason: reason, grace: DefaultGrace, find: find})
		return err
	})
}

// stop stops a sandbox. The caller has the turn.
func (x *stopping) stop(ctx context.Context, order stopOrder) (core.Sandbox, error) {
	sb, err := x.record(ctx, order)
	if err != nil || sb.State == core.StateStopped {
		return sb, err
	}
	x.waiters.wake(sb.Tenant)
	if err = failpoint.Hit(failpoint.ControlStopRecorded); err == nil {
		x.endExecs(ctx, sb, order.grace)
		sb, err = x.finish(ctx, sb, order.actor, stopReason{text: order.reason})
	}
	if err != nil {
		return sb, x.unfinished(ctx, sb, order, err)
	}
	return sb, failpoint.Hit(failpoint.ControlStopCommitted)
}

// record makes the intent durable. One that is stopped is left as it is.
func (x *stopping) record(ctx context.Context, order stopOrder) (sb core.Sandbox, err error) {
	now := x.clock.Now()
	err = x.store.Update(context.WithoutCancel(ctx), func(tx store.Tx) error {
		if sb, err = order.find(tx); err != nil || sb.State == core.StateStopped && sb.Operation == core.OpNone {
			return err
		}
		if err := core.Begin(sb.State, sb.Operation, core.OpStop); err != nil {
			return err
		}
		if sb.Operation == core.OpStop { // one that is being tried again
			return nil
		}
		sb.Begin(core.OpStop, now)
		if err := tx.PutSandbox(sb); err != nil {
			return err
		}
		return appendEvent(tx, sb, core.EventSandboxStopping, order.actor, now, reasonData(order.reason))
	})
	return sb, err
}

// stopReason says why a sandbox is stopped, if nobody asked for it, and when it was last known to run, if nobody saw its end.
type stopReason struct {
	text string
	seen time.Time
}

// reasonData is an event's data that may hold a reason.
func reasonData(reason string) map[string]string {
	if reason == "" {
		return map[string]string{}
	}
	return map[string]string{"reason": reason}
}

// finish has the node end a sandbox, and records that it is stopped.
func (x *stopping) finish(ctx context.Context, sb core.Sandbox, actor core.Actor, why stopReason) (core.Sandbox, error) {
	if err := x.node.Stop(ctx, sb.ID); err != nil {
		return sb, err
	}
	if err := failpoint.Hit(failpoint.ControlStopNodeDone); err != nil {
		return sb, err
	}
	return x.commit(ctx, sb, actor, why)
}

// commit records that a sandbox is stopped, unless it was deleted.
func (x *stopping) commit(ctx context.Context, sb core.Sandbox, actor core.Actor, why stopReason) (core.Sandbox, error) {
	now := x.clock.Now()
	err := x.store.Update(context.WithoutCancel(ctx), func(tx store.Tx) error {
		current, err := tx.SandboxByID(sb.ID)
		if err == nil && current.State == core.StateDeleted {
			err = core.Errorf(core.CodeNotFound, "no such sandbox")
		}
		if err != nil {
			return err
		}
		next, ok := core.Next(current.State, core.OpStop)
		if !ok {
			sb = current
			return nil // it is stopped
		}
		data := reasonData(why.text)
		if current.Failure != "" {
			data["failure"] = current.Failure
		}
		current.Become(next.Success, now)
		current.End()
		current.Failure = ""
		sb = current
		if err := tx.PutSandbox(current); err != nil {
			return err
		}
		if err := loseExecs(tx, current, actor, now); err != nil {
			return err
		}
		if !why.seen.IsZero() {
			if err := x.usage.endAt(tx, current, why.seen, now, data); err != nil {
				return err
			}
		}
		return appendEvent(tx, current, core.EventSandboxStopped, actor, now, data)
	})
	if err != nil {
		return sb, err
	}
	x.watchers.forget(sb.ID)
	x.waiters.wake(sb.Tenant)
	x.activity.reload(ctx, sb.ID)
	x.lifecycle.lookAgain()
	return sb, nil
}

// unfinished deals with a stop that failed, and returns why. If the sandbox runs as before, that is recorded. Otherwise the stop goes on in
// the background, or at the next start if the server is closing.
func (x *stopping) unfinished(ctx context.Context, sb core.Sandbox, order stopOrder, cause error) error {
	switch {
	case core.IsCode(cause, core.CodeNotFound) || x.tasks.closing():
		return cause
	case ctx.Err() != nil: // nothing else ends it
		return core.Wrap(core.CodeCanceled, cause, "the sandbox was deleted while it was being stopped")
	}
	failed := func(err error) {
		x.log.Warn("a stop that could not be carried out", slog.String("sandbox_id", string(sb.ID)), slog.Any("err", err))
	}
	failed(cause)
	if _, err := x.node.Guest(sb.ID); err != nil {
		x.persist(func(ctx context.Context) error {
			return x.inTurn(ctx, sb.ID, func(ctx context.Context) error {
				return x.settle(ctx, sb.ID, order.actor, stopReason{text: order.reason})
			})
		}, failed)
		return core.Wrap(core.CodeUnavailable, cause, "the sandbox has ended, but not all of it could be removed yet: its stop goes on by itself")
	}
	if err := x.keep(ctx, sb, order.actor, cause); err != nil {
		failed(err)
		x.persist(func(ctx context.Context) error {
			return x.inTurn(ctx, sb.ID, func(ctx context.Context) error { return x.keep(ctx, sb, order.actor, cause) })
		}, failed)
	}
	return cause
}

// keep records that a sandbox which could not be stopped runs as before.
func (x *stopping) keep(ctx context.Context, sb core.Sandbox, actor core.Actor, cause error) error {
	now := x.clock.Now()
	err := x.store.Update(ctx, func(tx store.Tx) error {
		current, err := tx.SandboxByID(sb.ID)
		if err != nil || current.State != core.StateRunning || current.Operation != core.OpStop {
			return goneIsDone(err)
		}
		current.End()
		if err := tx.PutSandbox(current); err != nil {
			return err
		}
		return appendEvent(tx, current, core.EventSandboxRunning, actor, now, map[string]string{
			"reason": "it could not be stopped", "code": string(core.CodeOf(cause)),
		})
	})
	if err == nil {
		x.waiters.wake(sb.Tenant)
	}
	return err
}

// settle finishes a stop that is under way on record. The caller has the turn.
func (x *stopping) settle(ctx context.Context, id core.SandboxID, actor core.Actor, why stopReason) error {
	var sb core.Sandbox
	err := x.store.View(ctx, func(r store.Reader) error {
		var err error
		sb, err = r.SandboxByID(id)
		return err
	})
	if err != nil || sb.State == core.StateDeleted || sb.Operation != core.OpStop {
		return goneIsDone(err)
	}
	_, err = x.finish(ctx, sb, actor, why)
	return goneIsDone(err)
}
