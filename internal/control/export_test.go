package control

import (
	"context"
	"errors"
	"maps"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// ScopeNeeded is the table of which scope each use case takes.
func ScopeNeeded() map[string]core.Scope { return maps.Clone(scopeNeeded()) }

// TestWork is long work of a test.
type TestWork struct {
	// Do does it; Commit, if it is not nil, records what came of it.
	Do     func(ctx context.Context, report func(core.OperationProgress)) (map[string]string, error)
	Commit func(tx store.Tx) error
	// Intent is recorded; with none it can't be done again.
	Intent any
}

func (w TestWork) work(ctx context.Context, _ core.Operation, report func(core.OperationProgress)) (workResult, error) {
	res, err := w.Do(ctx, report)
	return workResult{Result: res, Commit: w.Commit}, err
}

// TestWorker is a kind of long work of a test.
type TestWorker struct {
	Resume  func(op core.Operation) (TestWork, error)
	Abandon func(tx store.Tx, op core.Operation, cause error) error
	Ended   func(op core.Operation, state core.OperationState)
}

func (w TestWorker) resume(_ context.Context, op core.Operation) (work, error) {
	again, err := w.Resume(op)
	return again.work, err
}

func (w TestWorker) abandon(tx store.Tx, op core.Operation, cause error) error {
	return w.Abandon(tx, op, cause)
}
func (w TestWorker) ended(op core.Operation, state core.OperationState) { w.Ended(op, state) }

// TestKind is the kind of work that tests do.
const TestKind core.WorkKind = "test.work"

// SetWorker makes the service know a kind of work. It is called before Start.
func SetWorker(s *Service, w TestWorker) { s.operations.workers[TestKind] = w }

// BeginWork begins an operation.
func BeginWork(ctx context.Context, s *Service, p Principal, w TestWork) (core.Operation, error) {
	return s.operations.begin(ctx, p, intended{
		kind: TestKind, intent: w.Intent, do: w.work,
		record: func(_ store.Tx, op *core.Operation) error {
			op.Target = map[string]string{"thing": "one"}
			return nil
		},
	})
}

// The bounds of operations.
const (
	MaxOperationsPerTenant = maxOperationsPerTenant
	MaxOperations          = maxOperations
)

// KeptWatches tells how many watches are kept, and what their events take.
func (s *Service) KeptWatches() (n, bytes int) {
	s.fileWatches.mu.Lock()
	defer s.fileWatches.mu.Unlock()
	return len(s.fileWatches.kept), s.fileWatches.size
}

// TryForgotten does once what is tried again and again about a sandbox of which nothing is on record any more.
func TryForgotten(ctx context.Context, s *Service, p Principal, id core.SandboxID) map[string]error {
	sb := core.Sandbox{ID: id, Tenant: p.Tenant}
	cause := core.Errorf(core.CodeUnavailable, "no luck")
	deleted, err := s.creation.undo(ctx, p, sb, cause)
	if !deleted {
		err = errors.Join(err, errors.New("nobody is told that it was deleted"))
	}
	return map[string]error{
		"undo of a create": err,
		"removal":          s.removal.finish(ctx, id),
		"end of a machine": s.repair.failed(ctx, core.NodeExit{Sandbox: id, Incarnation: 1}, time.Time{}),
		"limits of before": s.resizing.restore(ctx, p, id, core.Resources{}, cause),
		"limits on record": s.resizing.settle(ctx, id),
	}
}

// ExpireCheckpoints does what the loop does once, and returns how long it would wait.
func ExpireCheckpoints(ctx context.Context, s *Service) (time.Duration, error) {
	return s.checkpoints.keeping.expire(ctx)
}

// CommandsWaiting counts those who have a sandbox's turn or wait for it.
func CommandsWaiting(s *Service, id core.SandboxID) int {
	s.commands.mu.Lock()
	defer s.commands.mu.Unlock()
	if q := s.commands.by[id]; q != nil {
		return q.refs
	}
	return 0
}

// GracesUnderWay counts the waits for processes that were asked to end.
func GracesUnderWay(s *Service) int {
	s.stopping.graces.mu.Lock()
	defer s.stopping.graces.mu.Unlock()
	return len(s.stopping.graces.by)
}
