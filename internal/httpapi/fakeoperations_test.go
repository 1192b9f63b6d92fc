package httpapi_test

import (
	"context"
	"slices"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// fakeOperations are three operations of the tenant t1: one that gets on by 20 % whenever somebody waits for it, one that has failed
// and one of which nobody knows how far it is.
func fakeOperations() []core.Operation {
	op := func(id string, state core.OperationState) core.Operation {
		return core.Operation{
			ID: core.OperationID(id), Tenant: "t1", Kind: core.WorkTemplateImport, State: state, Revision: 1,
			Target: map[string]string{"template": "app@1", "template_id": "t000000000000000000009"},
			Actor:  core.Actor{Kind: "key", ID: "k-1"}, CreatedAt: epoch,
		}
	}
	running, failed, unknown := op("o000000000000000000001", core.OperationRunning), op("o000000000000000000002", core.OperationFailed),
		op("o000000000000000000003", core.OperationRunning)
	running.Progress = core.OperationProgress{Step: "fetching", Percent: 40, BytesDone: 40, BytesTotal: 100}
	running.Intent = `{"ref":"private"}`
	failed.Progress = core.OperationProgress{Step: "unpacking", Percent: 70}
	failed.Code, failed.Message, failed.EndedAt = core.CodeInvalid, "the image is broken", epoch.Add(time.Second)
	unknown.Kind, unknown.Target, unknown.Progress = core.WorkTemplateCreate, nil, core.OperationProgress{Step: "waiting", Percent: -1}
	return []core.Operation{running, failed, unknown}
}

func (f *fakeControl) ListOperations(
	_ context.Context, p control.Principal, filter store.OperationFilter, page store.Page,
) ([]core.Operation, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []core.Operation
	for _, op := range f.operations {
		if op.Tenant == p.Tenant && (filter.States == nil || slices.Contains(filter.States, op.State)) &&
			(filter.Kinds == nil || slices.Contains(filter.Kinds, op.Kind)) {
			list = append(list, op)
		}
	}
	return paged(list, page)
}

// operation finds one. The caller holds mu.
func (f *fakeControl) operation(p control.Principal, id core.OperationID) (*core.Operation, error) {
	for i, op := range f.operations {
		if op.Tenant == p.Tenant && op.ID == id {
			return &f.operations[i], nil
		}
	}
	return nil, core.Errorf(core.CodeNotFound, "no such operation")
}

func (f *fakeControl) GetOperation(_ context.Context, p control.Principal, id core.OperationID) (core.Operation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	op, err := f.operation(p, id)
	if err != nil {
		return core.Operation{}, err
	}
	return *op, nil
}

func (f *fakeControl) AwaitOperation(
	ctx context.Context, p control.Principal, id core.OperationID, seen int64, wait time.Duration,
) (core.Operation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	op, err := f.operation(p, id)
	switch {
	case err != nil:
		return core.Operation{}, err
	case op.Ended() || wait == 0:
	case op.Progress.Percent < 0:
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		return *op, core.Wrap(core.CodeCanceled, ctx.Err(), "canceled")
	default:
		for !op.Ended() && op.Revision <= seen {
			op.Revision++
			if op.Progress.Percent += 20; op.Progress.Percent == 100 {
				op.State, op.EndedAt, op.Result = core.OperationSucceeded, epoch, map[string]string{"digest": "sha256:1"}
				op.Progress.Step = "done"
			}
		}
	}
	return *op, nil
}

func (f *fakeControl) CancelOperation(_ context.Context, p control.Principal, id core.OperationID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	op, err := f.operation(p, id)
	if err == nil && !op.Ended() {
		op.State, op.EndedAt = core.OperationCanceled, epoch
	}
	return err
}
