package control

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// How many operations may run at the same time. What is refused is refused at once: nothing queues.
const (
	maxOperationsPerTenant = 8
	maxOperations          = 32
)

// operationRetryAfter is when a caller who was refused may try again.
const operationRetryAfter = 5 * time.Second

// operations looks after long work: it records the intent, does the work in the background, and records how it ended, together with
// what came of it. Its exported methods are Service's.
//
// Durable: every operation. Process-only: the work under way and how far it is between two writes.
type operations struct {
	*deps
	workers  map[core.WorkKind]worker
	underWay *liveOperations
}

// worker is what operations must know of one kind of work.
type worker interface {
	// resume returns the work of an operation that a restart cut off, or why it can't be gone on with.
	resume(ctx context.Context, op core.Operation) (work, error)
	// abandon records that an operation came to nothing, in the transaction that ends it.
	abandon(tx store.Tx, op core.Operation, cause error) error
	// ended removes what an operation has needed, and what it has left if it came to nothing, once its end is recorded and its work over.
	// After a restart it may be called once more.
	ended(op core.Operation, state core.OperationState)
}

// work does an operation. When its context ends, by a cancel or because the server stops, it undoes what it has begun and returns.
type work func(ctx context.Context, op core.Operation, report func(core.OperationProgress)) (workResult, error)

// workResult is what came of an operation. Commit records it in the transaction that ends the operation; it may be nil.
type workResult struct {
	Result map[string]string
	Commit func(tx store.Tx) error
}

// intended is an operation that is to begin.
type intended struct {
	kind   core.WorkKind
	intent any // becomes Operation.Intent; nil if the work can't be done again
	// record records what the operation is about and fills in its target, in the transaction that records it.
	record func(tx store.Tx, op *core.Operation) error
	do     work
}

// begin records an operation and begins its work. The caller's going away changes nothing any more.
func (o *operations) begin(ctx context.Context, p Principal, in intended) (core.Operation, error) {
	op := core.Operation{
		ID: core.OperationID(core.NewID()), Tenant: p.Tenant, Kind: in.kind, State: core.OperationRunning,
		Progress: core.OperationProgress{Step: "starting"}, Actor: p.Actor, CreatedAt: o.clock.Now(),
	}
	if in.intent != nil {
		text, err := json.Marshal(in.intent)
		if err != nil {
			return op, fmt.Errorf("encode intent: %w", err)
		}
		op.Intent = string(text)
	}
	l := o.underWay.add(op) // before anyone can know it, so that whoever waits for it learns of its end
	err := o.store.Update(context.WithoutCancel(ctx), func(tx store.Tx) error {
		op := op // a transaction may be tried again
		if err := roomFor(tx, p.Tenant); err != nil {
			return err
		}
		if err := in.record(tx, &op); err != nil {
			return err
		}
		if err := tx.PutOperation(op); err != nil {
			return err
		}
		l.recorded(op)
		return operationEvent(tx, op, core.EventOperationStarted, p.Actor, op.CreatedAt)
	})
	if err != nil {
		o.underWay.remove(op.ID)
		return core.Operation{}, err
	}
	op = l.op
	o.waiters.wake(p.Tenant)
	o.launch(l, in.do)
	return op, nil
}

// roomFor refuses an operation that would be one too many.
func roomFor(r store.Reader, tenant core.TenantID) error {
	running, err := runningOperations(r)
	if err != nil {
		return err
	}
	own := 0
	for _, op := range running {
		if op.Tenant == tenant {
			own++
		}
	}
	switch {
	case own >= maxOperationsPerTenant:
		return &core.Error{
			Code: core.CodeQuota, RetryAfter: operationRetryAfter,
			Message: fmt.Sprintf("%d operations are running, and no tenant has more at a time: wait for one to end, or cancel one", own),
		}
	case len(running) >= maxOperations:
		return &core.Error{
			Code: core.CodeExhausted, RetryAfter: operationRetryAfter,
			Message: "the server has as many operations running as it takes: try again later",
		}
	}
	return nil
}

// launch does the work in the background.
func (o *operations) launch(l *liveOperation, do work) {
	o.tasks.run(func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if !l.begin(cancel) {
			cancel() // It was canceled before it began.
		}
		res, err := o.try(ctx, l, do)
		if err != nil && o.tasks.closing() {
			return // The next start goes on with it, or says that it can't.
		}
		o.end(ctx, l.op, res, err)
	})
}

func (o *operations) try(ctx context.Context, l *liveOperation, do work) (res workResult, err error) {
	if err = failpoint.Hit(failpoint.ControlOperationRecorded); err == nil {
		err = ctx.Err()
	}
	if err == nil {
		res, err = do(ctx, l.op, func(p core.OperationProgress) { o.report(ctx, l, p) })
	}
	if err == nil {
		err = failpoint.Hit(failpoint.ControlOperationWorked)
	}
	return res, err
}

// end records how an operation ended. If that can't be written now it is written later: until then it is running.
func (o *operations) end(ctx context.Context, op core.Operation, res workResult, cause error) {
	try := func(ctx context.Context) error {
		err := o.conclude(ctx, op, res, cause)
		if err != nil && cause == nil && !temporary(err) {
			cause = err // What came of it can't be recorded, ever.
		}
		return err
	}
	failed := func(err error) {
		o.log.Error("record the end of an operation: will be tried again", slog.String("operation_id", string(op.ID)), slog.Any("err", err))
	}
	// At once, for after a close nothing new is begun.
	if err := try(context.WithoutCancel(ctx)); err != nil {
		failed(err)
		o.persist(try, failed)
	}
}

// temporary reports whether the same write may succeed later.
func temporary(err error) bool {
	switch core.CodeOf(err) { //nolint:exhaustive // All others are answers, not troubles.
	case core.CodeUnavailable, core.CodeExhausted, core.CodeTimeout, core.CodeCanceled:
		return true
	}
	return false
}

// conclude writes the end, unless the operation has ended already: it was canceled.
func (o *operations) conclude(ctx context.Context, op core.Operation, res workResult, cause error) error {
	var was core.Operation
	now := o.clock.Now()
	err := o.store.Update(ctx, func(tx store.Tx) (err error) {
		was, err = tx.Operation(op.Tenant, op.ID)
		if core.IsCode(err, core.CodeNotFound) { // Its tenant is gone with all that it had.
			was, err = op, nil
			was.State = core.OperationCanceled
		}
		if err != nil || was.Ended() {
			return err
		}
		o.show(&was)
		return o.recordEnd(tx, was, op.Actor, ending{res, cause, now})
	})
	if err != nil {
		return err
	}
	o.underWay.remove(op.ID)
	o.waiters.wake(op.Tenant)
	state := endState(cause)
	if was.Ended() {
		state = was.State
	}
	o.observer.OperationEnd(op.Kind, state, now.Sub(op.CreatedAt))
	_ = failpoint.Hit(failpoint.ControlOperationEnded) // Only a kill matters here: all is recorded.
	was.State = state
	o.settle(ctx, was)
	return nil
}

// settle removes what an operation that has ended has needed and left, and writes down that this was done. A server that is killed before
// leaves it to the next one.
func (o *operations) settle(ctx context.Context, op core.Operation) {
	if w := o.workers[op.Kind]; w != nil {
		w.ended(op, op.State)
	}
	if err := o.store.UpdateRelaxed(ctx, func(tx store.Tx) error { return tx.SettleOperation(op.ID) }); err != nil {
		o.log.Warn("write down that an operation is cleaned up after: the next start will do it again",
			slog.String("operation_id", string(op.ID)), slog.Any("err", err))
	}
}

// ending is how an operation ends.
type ending struct {
	result workResult
	cause  error
	at     time.Time
}

// endState is the state that follows from why an operation came to nothing.
func endState(cause error) core.OperationState {
	switch {
	case cause == nil:
		return core.OperationSucceeded
	case core.IsCode(cause, core.CodeCanceled):
		return core.OperationCanceled
	}
	return core.OperationFailed
}

// recordEnd writes an operation's end with all that it brings.
func (o *operations) recordEnd(tx store.Tx, op core.Operation, actor core.Actor, e ending) (err error) {
	op.State, op.EndedAt = endState(e.cause), e.at
	if e.cause != nil {
		op.Code, op.Message = core.CodeOf(e.cause), publicMessage(e.cause)
		if w := o.workers[op.Kind]; w != nil {
			err = w.abandon(tx, op, e.cause)
		}
	} else {
		op.Result, op.Progress.Step, op.Progress.Percent = e.result.Result, "done", 100
		if e.result.Commit != nil {
			err = e.result.Commit(tx)
		}
	}
	if err != nil {
		return err
	}
	if err := tx.PutOperation(op); err != nil {
		return err
	}
	return operationEvent(tx, op, core.EventOperationEnded, actor, e.at)
}

// operationEvent adds an event about an operation to the transaction that makes it true.
func operationEvent(tx store.Tx, op core.Operation, t core.EventType, actor core.Actor, at time.Time) error {
	data := map[string]string{"operation_id": string(op.ID), "kind": string(op.Kind)}
	if op.Ended() {
		data["state"] = string(op.State)
	}
	if op.Code != "" {
		data["code"] = string(op.Code)
	}
	_, err := tx.AppendEvent(core.Event{Tenant: op.Tenant, Type: t, At: at, Actor: actor, Data: data})
	return err
}
