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
	for _, sb := range all {
		if err := r.reconcileOne(ctx, sb, running); err != nil {
			return err
		}
	}
	return nil
}

// recorded returns the sandboxes to look after, and all that the store knows of what may lie on the node.
func (r *repair) recorded(ctx context.Context) (all []core.Sandbox, known core.Known, err error) {
	err = r.store.View(ctx, func(tx store.Reader) (err error) {
		known = core.Known{Sandboxes: map[core.SandboxID]bool{}, Templates: map[core.TemplateID]bool{}}
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
		return nil
	})
	return all, known, err
}

func (r *repair) reconcileOne(ctx context.Context, sb core.Sandbox, running map[core.SandboxID]core.NodeSandbox) error {
	n, runs := running[sb.ID]
	runs = runs && n.Incarnation == sb.Incarnation && n.Epoch == sb.Epoch
	switch {
	case sb.State == core.StateDeleted:
		r.removal.finishSoon(sb.ID)
		return nil
	case sb.State == core.StateCreating && runs:
		// It had answered before the crash: its caller may still find it by name, and its ttl holds.
		_, err := r.creation.commit(ctx, Principal{Tenant: sb.Tenant, Actor: system("reconcile")}, sb)
		return err
	case sb.State == core.StateCreating:
		return r.removal.start(ctx, system("reconcile"), "the server was restarted during the create", byID(sb.ID))
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
		sb.Operation, sb.OperationSince, sb.Failure = core.OpNone, time.Time{}, e.Reason
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
