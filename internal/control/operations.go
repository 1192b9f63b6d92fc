package control

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

func newOperations(d *deps) *operations {
	return &operations{deps: d, workers: map[core.WorkKind]worker{}, underWay: newLiveOperations()}
}

// ListOperations returns a page of the tenant's operations, newest first.
func (o *operations) ListOperations(
	ctx context.Context, p Principal, f store.OperationFilter, page store.Page,
) (list []core.Operation, next string, err error) {
	if err := p.may("ListOperations"); err != nil {
		return nil, "", err
	}
	if err := p.needKey(); err != nil {
		return nil, "", err
	}
	err = o.store.View(ctx, func(r store.Reader) error {
		list, next, err = r.ListOperations(p.Tenant, f, page)
		return err
	})
	for i := range list {
		o.show(&list[i])
	}
	return list, next, err
}

// GetOperation finds an operation by its id.
func (o *operations) GetOperation(ctx context.Context, p Principal, id core.OperationID) (op core.Operation, err error) {
	if err := p.may("GetOperation"); err != nil {
		return core.Operation{}, err
	}
	if err := p.needKey(); err != nil {
		return core.Operation{}, err
	}
	err = o.store.View(ctx, func(r store.Reader) error {
		op, err = r.Operation(p.Tenant, id)
		return err
	})
	o.show(&op)
	return op, err
}

// show fills in how far an operation is that runs.
func (o *operations) show(op *core.Operation) {
	if op.State != core.OperationRunning {
		return
	}
	if l := o.underWay.get(op.ID); l != nil {
		l.show(op)
	}
}

// AwaitOperation returns an operation once it has ended, or its revision is greater than seen, or wait has passed.
func (o *operations) AwaitOperation(
	ctx context.Context, p Principal, id core.OperationID, seen int64, wait time.Duration,
) (core.Operation, error) {
	if err := p.may("AwaitOperation"); err != nil {
		return core.Operation{}, err
	}
	deadline := o.clock.After(wait)
	for {
		var news <-chan struct{}
		if l := o.underWay.get(id); l != nil {
			news = l.watch()
		}
		op, err := o.GetOperation(ctx, p, id)
		if err != nil || op.Ended() || op.Revision > seen {
			return op, err
		}
		select {
		case <-news:
		case <-deadline:
			return op, nil
		case <-o.tasks.stop.Done():
			return op, nil
		case <-ctx.Done():
			return op, core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
		}
	}
}

// CancelOperation ends an operation that runs, durably, and returns; what it has begun is undone in the background. One that has ended
// stays as it is.
func (o *operations) CancelOperation(ctx context.Context, p Principal, id core.OperationID) error {
	if err := p.may("CancelOperation"); err != nil {
		return err
	}
	if err := p.needKey(); err != nil {
		return err
	}
	return o.cancel(ctx, p.Tenant, id, p.Actor)
}

// cancel records that an operation was canceled, and stops its work.
func (o *operations) cancel(ctx context.Context, tenant core.TenantID, id core.OperationID, actor core.Actor) error {
	now := o.clock.Now()
	var op core.Operation
	err := o.store.Update(ctx, func(tx store.Tx) (err error) {
		if op, err = tx.Operation(tenant, id); err != nil || op.Ended() {
			return err
		}
		o.show(&op)
		return o.recordEnd(tx, op, actor, ending{cause: core.Errorf(core.CodeCanceled, "it was canceled"), at: now})
	})
	if err != nil || op.Ended() {
		return err
	}
	if l := o.underWay.get(id); l != nil {
		l.stop()
	}
	o.waiters.wake(tenant)
	return nil
}

// runningOperations returns the operations of every tenant that have not ended.
func runningOperations(r store.Reader) ([]core.Operation, error) {
	list, err := r.UnsettledOperations()
	return slices.DeleteFunc(list, core.Operation.Ended), err
}

// endAll cancels what runs for a tenant that is deleted, and waits for its work to end.
func (o *operations) endAll(ctx context.Context, tenant core.TenantID) error {
	var running []core.Operation
	err := o.store.View(ctx, func(r store.Reader) (err error) {
		running, err = runningOperations(r)
		return err
	})
	for _, op := range running {
		if err == nil && op.Tenant == tenant {
			err = o.cancel(ctx, tenant, op.ID, system("tenant"))
		}
	}
	for err == nil {
		news := o.underWay.anyOf(tenant)
		if news == nil {
			break
		}
		select {
		case <-news:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return err
}

// recover goes on with the operations that a restart cut off, ends those that can't be gone on with, and cleans up after those that had
// ended, by a cancel say, while their work was not over.
func (o *operations) recover(ctx context.Context) error {
	var unsettled []core.Operation
	err := o.store.View(ctx, func(r store.Reader) (err error) {
		unsettled, err = r.UnsettledOperations()
		return err
	})
	if err != nil {
		return err
	}
	for _, op := range unsettled {
		if op.Ended() {
			o.settle(ctx, op)
			continue
		}
		do, err := o.resume(ctx, op)
		l := o.underWay.add(op)
		if err != nil {
			o.log.Warn("an operation that a restart cut off has failed",
				slog.String("operation_id", string(op.ID)), slog.String("kind", string(op.Kind)), slog.Any("err", err))
			o.end(ctx, op, workResult{}, err)
			continue
		}
		o.launch(l, do)
	}
	return nil
}

// resume returns the work of an operation that was cut off.
func (o *operations) resume(ctx context.Context, op core.Operation) (work, error) {
	w := o.workers[op.Kind]
	if w == nil || op.Intent == "" {
		return nil, core.Errorf(core.CodeUnavailable, "the server was restarted while this was under way, and it can't be gone on with: start it again")
	}
	return w.resume(ctx, op)
}
