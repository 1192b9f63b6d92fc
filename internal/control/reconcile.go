package control

import (
	"context"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// repair brings the store's and the node's views together, after a restart and when a machine ends by itself.
type repair struct {
	*deps
	creation  *creation
	removal   *removal
	watchers  *watchers
	usage     *usage
	resizing  *resizing
	stopping  *stopping
	waking    *waking
	restoring *restoring
	boot      *boot
	lifecycle *lifecycle
}

// reconcile brings store and node together after a restart: what the store does not know is set aside, what was half done
// is undone or finished, and what no longer runs is said to have failed.
func (r *repair) reconcile(ctx context.Context) error {
	all, known, err := r.recorded(ctx)
	if err != nil {
		return err
	}
	if err := r.node.Sweep(ctx, known); err != nil {
		r.log.Warn("some remains could not be reclaimed yet", slog.Any("err", err))
	}
	here, err := r.node.List(ctx)
	if err != nil {
		return err
	}
	running := map[core.SandboxID]core.NodeSandbox{}
	for _, n := range here {
		if n.Running {
			running[n.Sandbox] = n
		}
	}
	rebooted, err := r.boot.isAnother(ctx)
	if err != nil {
		return err
	}
	for _, sb := range all {
		n, runs := running[sb.ID]
		runs = runs && n.Incarnation == sb.Incarnation && n.Epoch == sb.Epoch
		if err := r.reconcileOne(ctx, sb, runs, rebooted); err != nil {
			return err
		}
	}
	return r.boot.note(ctx)
}

// recorded returns the sandboxes to look after, and all that the store knows of what may lie on the node.
func (r *repair) recorded(ctx context.Context) (all []core.Sandbox, known core.Known, err error) {
	err = r.store.View(ctx, func(tx store.Reader) (err error) {
		known = core.Known{
			Sandboxes: map[core.SandboxID]bool{}, Templates: map[core.TemplateID]bool{}, Checkpoints: map[core.CheckpointID]bool{},
		}
		if all, err = tx.AllSandboxes(); err != nil {
			return err
		}
		for _, sb := range all {
			known.Sandboxes[sb.ID] = true
		}
		for _, state := range []core.TemplateState{core.TemplateBuilding, core.TemplateReady, core.TemplateFailed, core.TemplateDeleted} {
			list, err := tx.TemplatesInState(state)
			if err != nil {
				return err
			}
			for _, t := range list {
				known.Templates[t.ID] = true
			}
		}
		saved, err := tx.AllCheckpoints()
		for _, c := range saved {
			known.Checkpoints[c.ID] = true
		}
		return err
	})
	return all, known, err
}

func (r *repair) reconcileOne(ctx context.Context, sb core.Sandbox, runs, rebooted bool) error {
	switch {
	case sb.State == core.StateDeleted:
		r.removal.finishSoon(sb.ID)
		return nil
	case sb.State == core.StateCreating && sb.Parent != "":
		// All of a fork's sandboxes run, or none is there: see forking.
		return r.removal.start(ctx, system("reconcile"), "the server was restarted during the fork", byID(sb.ID))
	case sb.State == core.StateCreating && runs:
		// It had answered before the crash: its caller may still find it by name, and its ttl holds.
		_, err := r.creation.commit(ctx, Principal{Tenant: sb.Tenant, Actor: system("reconcile")}, sb)
		return err
	case sb.State == core.StateCreating:
		return r.removal.start(ctx, system("reconcile"), "the server was restarted during the create", byID(sb.ID))
	case sb.Operation == core.OpStop:
		var why stopReason
		if !runs && sb.State == core.StateRunning {
			why.seen = r.usage.seen
		}
		r.finishStop(sb, why)
		return nil
	case sb.Operation == core.OpWake && runs:
		// It had answered before the crash: whoever asked for it wants it to run.
		_, err := r.waking.commit(ctx, sb, system("reconcile"))
		return err
	case sb.Operation == core.OpWake:
		r.undoWake(sb)
		return nil
	case sb.Operation == core.OpRestore:
		r.restoring.resume(sb)
		return nil
	case sb.Operation == core.OpResize && sb.State != core.StateRunning:
		r.resizing.resume(ctx, sb)
		return nil
	case sb.State == core.StateRunning && !runs && rebooted && core.AfterReboot(sb.State, sb.Persistent) == core.StateStopped:
		return r.rebooted(ctx, sb)
	case sb.State == core.StateRunning && !runs && rebooted:
		return r.failed(ctx, core.NodeExit{Sandbox: sb.ID, Incarnation: sb.Incarnation, Reason: rebootReason}, r.usage.seen)
	case sb.State == core.StateRunning && !runs:
		return r.failed(ctx, core.NodeExit{
			Sandbox: sb.ID, Incarnation: sb.Incarnation, Reason: "its machine ended while the server was down",
		}, r.usage.seen)
	case sb.State == core.StateRunning:
		if sb.Operation == core.OpResize {
			r.resizing.resume(ctx, sb)
		}
		return r.watchers.resume(ctx, sb)
	}
	return nil
}

// rebootReason is why all that ran on a node has ended.
const rebootReason = "the machine that it ran on was restarted"

// finishStop goes on with a stop that a restart cut off, in the background.
func (r *repair) finishStop(sb core.Sandbox, why stopReason) {
	r.goOn(sb.ID, "a stop", func(ctx context.Context) error {
		return r.stopping.settle(ctx, sb.ID, system("reconcile"), why)
	})
}

// undoWake undoes a wake that a restart cut off, in the background.
func (r *repair) undoWake(sb core.Sandbox) {
	cause := core.Errorf(core.CodeUnavailable, "the server was restarted during the wake")
	r.goOn(sb.ID, "undo of a wake", func(ctx context.Context) error {
		return r.waking.undo(ctx, sb.ID, system("reconcile"), sb.Incarnation, cause)
	})
}

// goOn does act in a sandbox's turn, in the background, until it succeeds. Each failure is logged as what.
func (r *repair) goOn(id core.SandboxID, what string, act func(ctx context.Context) error) {
	r.persist(func(ctx context.Context) error { return r.inTurn(ctx, id, act) }, func(err error) {
		r.log.Warn("what a restart cut off will be tried again", slog.String("what", what), slog.String("sandbox_id", string(id)), slog.Any("err", err))
	})
}

// rebooted records that a sandbox is stopped which ran when its machine was restarted.
func (r *repair) rebooted(ctx context.Context, sb core.Sandbox) error {
	if _, err := r.stopping.commit(ctx, sb, system("reconcile"), stopReason{text: rebootReason, seen: r.usage.seen}); err != nil {
		return goneIsDone(err)
	}
	if err := r.node.Stop(ctx, sb.ID); err != nil { // a wake sees to what may be left
		r.log.Warn("remains of a sandbox of before the machine's restart", slog.String("sandbox_id", string(sb.ID)), slog.Any("err", err))
	}
	return nil
}

func byID(id core.SandboxID) func(store.Reader) (core.Sandbox, error) {
	return func(tx store.Reader) (core.Sandbox, error) { return tx.SandboxByID(id) }
}

// exitLoop records the ends of machines that nobody asked for.
func (r *repair) exitLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-r.node.Exits():
			r.persist(
				func(ctx context.Context) error { return r.failed(ctx, e, time.Time{}) },
				func(err error) {
					r.log.Error("record the end of a machine: will be tried again",
						slog.String("sandbox_id", string(e.Sandbox)), slog.Any("err", err))
				})
		}
	}
}

// failed records that a running sandbox's machine ended by itself. Its execs are lost; its files stay until it is deleted. If nobody was
// there when it ended, seen is when it was last known to run.
func (r *repair) failed(ctx context.Context, e core.NodeExit, seen time.Time) error {
	var tenant core.TenantID
	now := r.clock.Now()
	err := r.store.Update(ctx, func(tx store.Tx) error {
		sb, err := tx.SandboxByID(e.Sandbox)
		if err != nil {
			return goneIsDone(err)
		}
		if sb.State != core.StateRunning || sb.Incarnation != e.Incarnation {
			return nil
		}
		tenant = sb.Tenant
		sb.Become(core.StateFailed, now)
		sb.End()
		sb.Failure = e.Reason
		if err := tx.PutSandbox(sb); err != nil {
			return err
		}
		if err := loseExecs(tx, sb, system("exit"), now); err != nil {
			return err
		}
		data := map[string]string{"reason": e.Reason}
		if !seen.IsZero() {
			if err := r.usage.endAt(tx, sb, seen, now, data); err != nil {
				return err
			}
		}
		return appendEvent(tx, sb, core.EventSandboxFailed, system("exit"), now, data)
	})
	if err != nil {
		return err
	}
	r.watchers.forget(e.Sandbox)
	if tenant != "" {
		r.waiters.wake(tenant)
		r.activity.reload(ctx, e.Sandbox)
		r.lifecycle.lookAgain()
	}
	return nil
}
