package control

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// How often progress is worth showing to those who follow it, and worth writing: a restart shows how far the work was then.
const (
	operationShowEvery  = 200 * time.Millisecond
	operationWriteEvery = 2 * time.Second
)

// liveOperations are those whose work this server does.
type liveOperations struct {
	mu sync.Mutex
	by map[core.OperationID]*liveOperation
}

// liveOperation is the work of one. Its mutex guards all of it.
type liveOperation struct {
	mu sync.Mutex
	// op is the operation as it was recorded at the beginning. It is not written once the work has begun.
	op       core.Operation
	progress core.OperationProgress
	revision int64
	// changed is closed and renewed with every revision, and closed for good at the end.
	changed        chan struct{}
	shown, written time.Time
	cancel         context.CancelFunc
	canceled, over bool
}

func newLiveOperations() *liveOperations {
	return &liveOperations{by: map[core.OperationID]*liveOperation{}}
}

func (t *liveOperations) add(op core.Operation) *liveOperation {
	l := &liveOperation{op: op, progress: op.Progress, revision: 1, changed: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.by[op.ID] = l
	return l
}

func (t *liveOperations) get(id core.OperationID) *liveOperation {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.by[id]
}

// ofTemplate tells how far the work is that makes a template.
func (t *liveOperations) ofTemplate(id core.TemplateID) (p core.OperationProgress, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.by {
		if l.template() == id {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.progress, true
		}
	}
	return p, false
}

// anyOf returns what is closed at the next change of one of a tenant's operations, nil if no work of a tenant's is under way.
func (t *liveOperations) anyOf(tenant core.TenantID) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.by {
		if news := l.watchOf(tenant); news != nil {
			return news
		}
	}
	return nil
}

// remove ends the watch of an operation: who waits for it looks at its record.
func (t *liveOperations) remove(id core.OperationID) {
	t.mu.Lock()
	l := t.by[id]
	delete(t.by, id)
	t.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.over = true
		close(l.changed)
	}
}

// recorded takes the operation as it was recorded.
func (l *liveOperation) recorded(op core.Operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.op = op
}

// watchOf is watch for the work of one tenant, and nil for any other.
func (l *liveOperation) watchOf(tenant core.TenantID) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.op.Tenant != tenant {
		return nil
	}
	return l.changed
}

// template is the template that the work makes.
func (l *liveOperation) template() core.TemplateID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return core.TemplateID(l.op.Target[targetTemplate])
}

// begin hands over what cancels the work. It reports whether nobody has canceled it before.
func (l *liveOperation) begin(cancel context.CancelFunc) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel = cancel
	return !l.canceled
}

// stop cancels the work, and wakes who waits.
func (l *liveOperation) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.canceled = true
	if l.cancel != nil {
		l.cancel()
	}
	l.bump()
}

// bump makes a new revision. The caller holds mu.
func (l *liveOperation) bump() {
	if l.over {
		return
	}
	l.revision++
	close(l.changed)
	l.changed = make(chan struct{})
}

// watch returns what is closed at the next change.
func (l *liveOperation) watch() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// show fills in how far the work is by now.
func (l *liveOperation) show(op *core.Operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	op.Progress, op.Revision = l.progress, l.revision
}

// set takes what the work reports. It reports whether that is to be written.
func (l *liveOperation) set(p core.OperationProgress, now time.Time) (write bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.Percent = min(p.Percent, 99) // All of it is done only when that is recorded.
	step := p.Step != l.progress.Step
	l.progress = p
	if step || now.Sub(l.shown) >= operationShowEvery {
		l.shown = now
		l.bump()
	}
	if write = step || now.Sub(l.written) >= operationWriteEvery; write {
		l.written = now
	}
	return write
}

// report shows how far an operation is, and writes it down now and then.
func (o *operations) report(ctx context.Context, l *liveOperation, p core.OperationProgress) {
	if !l.set(p, o.clock.Now()) {
		return
	}
	err := o.store.UpdateRelaxed(ctx, func(tx store.Tx) error { return tx.PutOperationProgress(l.op.ID, p) })
	if err != nil && ctx.Err() == nil {
		o.log.Warn("show an operation's progress", slog.String("operation_id", string(l.op.ID)), slog.Any("err", err))
	}
}
