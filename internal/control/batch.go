package control

import (
	"context"
	"strconv"
	"sync"

	"shoal/internal/core"
)

// MaxBatch is how many sandboxes one call may create.
const MaxBatch = 1000

// Batch is what one call creates.
type Batch struct {
	Specs []core.SandboxSpec
	// Stop begins no further create once one has failed.
	Stop bool
	// Once, unless it is nil, makes a repeat of the call create what the first one did not.
	Once *core.Once
}

// BatchResult is what became of one of a batch: the sandbox, or why there is none.
type BatchResult struct {
	Index   int
	Sandbox core.Sandbox
	Err     error
}

// batches creates many sandboxes for one call. Its methods are Service's.
type batches struct {
	*deps
	once *once
	// create creates one, under a route of its own if its call has a key.
	create func(ctx context.Context, p Principal, route string, spec core.SandboxSpec) (core.Sandbox, error)
}

func newBatches(d *deps, o *once, create func(context.Context, Principal, string, core.SandboxSpec) (core.Sandbox, error)) *batches {
	return &batches{deps: d, once: o, create: create}
}

// CreateSandboxes creates many sandboxes, some at a time, and tells of each as soon as it runs or has failed, one by one. Each is made
// whole or not at all. If ctx ends, or tell returns an error, what is under way is undone and nothing further begins; what was told, or
// would have been told next, stays.
func (b *batches) CreateSandboxes(ctx context.Context, p Principal, batch Batch, tell func(BatchResult) error) error {
	if err := p.may("CreateSandboxes"); err != nil {
		return err
	}
	if err := p.needKey(); err != nil {
		return err
	}
	if n := len(batch.Specs); n == 0 || n > MaxBatch {
		return core.Invalid("count", "a batch creates 1 to %d sandboxes", MaxBatch)
	}
	turn, err := b.once.begin(ctx, p, "batch", batch.Once)
	if err != nil {
		return err
	}
	defer turn.over()
	if turn != nil {
		// What each one made is recorded with it; this is only so that no other batch gets the key.
		if err := turn.mark(ctx); err != nil {
			return err
		}
	}
	return b.run(ctx, p, batch, tell)
}

// run has some workers create what there is, in its order. Of each batch only a few wait at the gate: none makes another one, or a single
// create, wait for its end.
func (b *batches) run(ctx context.Context, p Principal, batch Batch, tell func(BatchResult) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next, results := make(chan int), make(chan BatchResult)
	failed := make(chan struct{})
	var workers sync.WaitGroup
	for range min(cap(b.gate.places), len(batch.Specs)) {
		workers.Go(func() {
			for i := range next {
				results <- b.one(ctx, p, batch, i, failed)
			}
		})
	}
	workers.Go(func() {
		defer close(next)
		for i := range batch.Specs {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	})
	go func() { workers.Wait(); close(results) }() // ended by the loop below, which reads to the end
	var err error
	stopped := false
	for r := range results {
		if r.Err != nil && batch.Stop && !stopped {
			stopped = true
			close(failed)
		}
		if err == nil && ctx.Err() == nil {
			if err = tell(r); err != nil {
				cancel(err)
			}
		}
	}
	if err == nil && ctx.Err() != nil {
		err = core.Wrap(core.CodeCanceled, context.Cause(ctx), "the call was canceled")
	}
	return err
}

// one creates one of a batch.
func (b *batches) one(ctx context.Context, p Principal, batch Batch, i int, failed <-chan struct{}) BatchResult {
	r := BatchResult{Index: i}
	if leave, err := b.gate.enter(ctx, p.Tenant, failed); err == nil {
		defer leave()
	}
	select {
	case <-failed:
		r.Err = core.Errorf(core.CodeCanceled, "it was not begun: another one had failed, and the call says to stop then")
		return r
	case <-ctx.Done():
		r.Err = core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
		return r
	default:
	}
	spec := batch.Specs[i]
	if batch.Once != nil {
		spec.Once = &core.Once{Key: batch.Once.Key, Digest: batch.Once.Digest}
	}
	r.Sandbox, r.Err = b.create(context.WithValue(ctx, placed{}, true), p, "batch, number "+strconv.Itoa(i), spec)
	return r
}
