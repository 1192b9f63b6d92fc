package control_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// workshop is a kind of work in a world, and what became of it.
type workshop struct {
	*world
	mu        sync.Mutex
	abandoned map[core.OperationID]core.Code
	cleaned   map[core.OperationID]int
	resumed   []core.OperationID
	// again is what a restart goes on with.
	again func(op core.Operation) (control.TestWork, error)
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	s := &workshop{world: newWorld(t), abandoned: map[core.OperationID]core.Code{}, cleaned: map[core.OperationID]int{}}
	s.prepare = func(svc *control.Service) {
		control.SetWorker(svc, control.TestWorker{
			Resume: func(op core.Operation) (control.TestWork, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.resumed = append(s.resumed, op.ID)
				return s.again(op)
			},
			Abandon: func(tx store.Tx, op core.Operation, cause error) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.abandoned[op.ID] = core.CodeOf(cause)
				return nil
			},
			Ended: func(op core.Operation, state core.OperationState) {
				if state == core.OperationSucceeded {
					return
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				s.cleaned[op.ID]++
			},
		})
	}
	s.start()
	return s
}

func (s *workshop) begin(w control.TestWork) core.Operation {
	s.t.Helper()
	op, err := control.BeginWork(s.t.Context(), s.svc, alice, w)
	if err != nil {
		s.t.Fatal(err)
	}
	return op
}

// ended waits for an operation's end.
func (s *workshop) ended(id core.OperationID) core.Operation {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	op, err := s.svc.AwaitOperation(ctx, alice, id, math.MaxInt64, time.Hour)
	if err != nil || !op.Ended() {
		s.t.Fatalf("%+v, %v", op, err)
	}
	return op
}

// traces returns what was recorded and cleaned of an operation that came to nothing.
func (s *workshop) traces(id core.OperationID) (core.Code, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.abandoned[id], s.cleaned[id]
}

// until is work that ends well when the channel is closed, or as its context does.
func until(c <-chan struct{}) control.TestWork {
	return control.TestWork{Do: func(ctx context.Context, report func(core.OperationProgress)) (map[string]string, error) {
		report(core.OperationProgress{Step: "working", Percent: 30})
		select {
		case <-c:
			return map[string]string{"answer": "42"}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

func TestOperationSucceeds(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t)
	goOn, committed := make(chan struct{}), false
	w := until(goOn)
	w.Commit = func(store.Tx) error { committed = true; return nil }
	op := s.begin(w)
	if op.State != core.OperationRunning || op.Tenant != "alice" || op.Actor != alice.Actor || op.Target["thing"] != "one" {
		t.Fatalf("begun: %+v", op)
	}
	eventually(t, "its step is shown", func() bool {
		got, err := s.svc.GetOperation(t.Context(), alice, op.ID)
		return err == nil && got.Progress.Step == "working" && got.Progress.Percent == 30
	})
	_, err := s.svc.GetOperation(t.Context(), bob, op.ID)
	wantCode(t, err, core.CodeNotFound)
	wantCode(t, s.svc.CancelOperation(t.Context(), bob, op.ID), core.CodeNotFound)
	close(goOn)
	got := s.ended(op.ID)
	if got.State != core.OperationSucceeded || got.Result["answer"] != "42" || got.Progress.Percent != 100 || got.Code != "" || !committed {
		t.Fatalf("ended: %+v, committed %v", got, committed)
	}
	if code, cleaned := s.traces(op.ID); code != "" || cleaned != 0 {
		t.Fatalf("it was abandoned (%s) or cleaned (%d times)", code, cleaned)
	}
	if err := s.svc.CancelOperation(t.Context(), alice, op.ID); err != nil {
		t.Fatal(err)
	}
	if again := s.ended(op.ID); again.State != core.OperationSucceeded {
		t.Fatalf("a cancel changed one that had ended: %+v", again)
	}
	events := s.operationEvents(op.ID)
	if len(events) != 2 || events[0] != "operation.started" || events[1] != "operation.ended succeeded" {
		t.Fatalf("events: %v", events)
	}
}

func (s *workshop) operationEvents(id core.OperationID) (out []string) {
	s.t.Helper()
	list, _, err := s.svc.Events(s.t.Context(), alice, "", 0, 1000, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range list {
		if e.Data["operation_id"] == string(id) {
			text := string(e.Type)
			if e.Data["state"] != "" {
				text += " " + e.Data["state"]
			}
			out = append(out, text)
		}
	}
	return out
}

func TestOperationFails(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t)
	for name, tc := range map[string]struct {
		do      error
		commit  error
		code    core.Code
		message string
	}{
		"public":   {do: core.Invalid("ref", "no such image"), code: core.CodeInvalid, message: "no such image"},
		"internal": {do: errors.New("/secret/path"), code: core.CodeInternal, message: "an internal error: see the server's log"},
		"commit":   {commit: core.Errorf(core.CodeConflict, "the name is taken"), code: core.CodeConflict, message: "the name is taken"},
	} {
		t.Run(name, func(t *testing.T) {
			op := s.begin(control.TestWork{
				Do:     func(context.Context, func(core.OperationProgress)) (map[string]string, error) { return nil, tc.do },
				Commit: func(store.Tx) error { return tc.commit },
			})
			var got core.Operation
			eventually(t, "it has ended", func() bool {
				s.clock.advance(time.Second) // The end is tried again.
				got, _ = s.svc.GetOperation(t.Context(), alice, op.ID)
				return got.Ended()
			})
			if got.State != core.OperationFailed || got.Code != tc.code || got.Message != tc.message || got.Result != nil {
				t.Fatalf("ended: %+v", got)
			}
			eventually(t, "it is cleaned up after", func() bool {
				code, cleaned := s.traces(op.ID)
				return code == tc.code && cleaned == 1
			})
		})
	}
}

func TestOperationCanceled(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t)
	deaf := make(chan struct{})
	began := make(chan struct{})
	op := s.begin(control.TestWork{
		Do: func(context.Context, func(core.OperationProgress)) (map[string]string, error) {
			close(began)
			<-deaf // It notices nothing, and ends well: too late.
			return map[string]string{"answer": "42"}, nil
		},
		Commit: func(store.Tx) error { t.Error("its result was recorded"); return nil },
	})
	<-began
	if err := s.svc.CancelOperation(t.Context(), alice, op.ID); err != nil {
		t.Fatal(err)
	}
	got := s.ended(op.ID)
	if got.State != core.OperationCanceled || got.Code != core.CodeCanceled || got.Result != nil {
		t.Fatalf("ended: %+v", got)
	}
	if code, cleaned := s.traces(op.ID); code != core.CodeCanceled || cleaned != 0 {
		t.Fatalf("abandoned as %q, cleaned %d times while the work goes on", code, cleaned)
	}
	close(deaf)
	eventually(t, "it is cleaned up after", func() bool { _, cleaned := s.traces(op.ID); return cleaned == 1 })

	op = s.begin(until(nil))
	if err := s.svc.CancelOperation(t.Context(), alice, op.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "work that listens ends", func() bool { _, cleaned := s.traces(op.ID); return cleaned == 1 })
}

func TestOperationIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t)
	steps := make(chan core.OperationProgress)
	op := s.begin(control.TestWork{Do: func(_ context.Context, report func(core.OperationProgress)) (map[string]string, error) {
		for p := range steps {
			report(p)
		}
		return nil, nil
	}})
	seen := int64(1)
	for i := range 3 {
		steps <- core.OperationProgress{Step: string(rune('a' + i)), Percent: 100}
		got, err := s.svc.AwaitOperation(t.Context(), alice, op.ID, seen, time.Hour)
		if err != nil || got.Revision <= seen || got.Progress.Percent > 99 {
			t.Fatalf("after revision %d: %+v, %v", seen, got, err)
		}
		seen = got.Revision
	}
	done := make(chan core.Operation, 1)
	go func() {
		got, _ := s.svc.AwaitOperation(context.Background(), alice, op.ID, math.MaxInt64, time.Minute)
		done <- got
	}()
	eventually(t, "its time is over", func() bool {
		s.clock.advance(time.Minute)
		return len(done) == 1
	})
	if got := <-done; got.Ended() {
		t.Fatalf("%+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.svc.AwaitOperation(ctx, alice, op.ID, math.MaxInt64, time.Minute)
	wantCode(t, err, core.CodeCanceled)
	close(steps)
	s.ended(op.ID)
}

func TestOperationsAreBounded(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t)
	goOn := make(chan struct{})
	var first core.Operation
	for i := range control.MaxOperationsPerTenant {
		op := s.begin(until(goOn))
		if i == 0 {
			first = op
		}
	}
	_, err := control.BeginWork(t.Context(), s.svc, alice, until(goOn))
	if e := wantCode(t, err, core.CodeQuota); e.RetryAfter == 0 {
		t.Error("it doesn't say when to come again")
	}
	for i := control.MaxOperationsPerTenant; i < control.MaxOperations; i++ {
		other := control.Principal{Tenant: core.TenantID("t" + string(rune('a'+i/control.MaxOperationsPerTenant)))}
		if _, err := control.BeginWork(t.Context(), s.svc, other, until(goOn)); err != nil {
			t.Fatal(err)
		}
	}
	_, err = control.BeginWork(t.Context(), s.svc, bob, until(goOn))
	wantCode(t, err, core.CodeExhausted)
	if err := s.svc.CancelOperation(t.Context(), alice, first.ID); err != nil {
		t.Fatal(err)
	}
	if _, err = control.BeginWork(t.Context(), s.svc, bob, until(goOn)); err != nil {
		t.Fatal(err)
	}
	list, _, err := s.svc.ListOperations(t.Context(), alice, store.OperationFilter{States: []core.OperationState{core.OperationRunning}}, store.Page{Limit: 100})
	if err != nil || len(list) != control.MaxOperationsPerTenant-1 {
		t.Fatalf("%d run, %v", len(list), err)
	}
	close(goOn)
}

// TestOperationCanceledAndKilled kills a server after a cancel was recorded and before the work was over: the next one cleans up after it,
// once.
func TestOperationCanceledAndKilled(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t)
	if err := s.svc.Close(); err != nil {
		t.Fatal(err)
	}
	watched := &watchedStore{Store: s.store}
	s.store = watched
	s.start()
	deaf, began := make(chan struct{}), make(chan struct{})
	op := s.begin(control.TestWork{Do: func(context.Context, func(core.OperationProgress)) (map[string]string, error) {
		close(began)
		<-deaf
		return nil, nil
	}})
	<-began
	if err := s.svc.CancelOperation(t.Context(), alice, op.ID); err != nil {
		t.Fatal(err)
	}
	watched.fail(errors.New("killed"))
	close(deaf)
	if err := s.svc.Close(); err != nil {
		t.Fatal(err)
	}
	if _, cleaned := s.traces(op.ID); cleaned != 0 {
		t.Fatal("a server that is killed cleans up")
	}
	s.store = &watchedStore{Store: watched.Store}
	for range 2 {
		s.start()
		if _, cleaned := s.traces(op.ID); cleaned != 1 {
			t.Errorf("it was cleaned up after %d times, want once", cleaned)
		}
		if err := s.svc.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.ended(op.ID); got.State != core.OperationCanceled {
		t.Errorf("it has become %+v", got)
	}
}

// TestOperationsAfterRestart stops a server with operations under way: what can be done again is done again, all else has failed.
func TestOperationsAfterRestart(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t)
	repeatable := until(nil)
	repeatable.Intent = map[string]string{"what": "this"}
	again, refused, never := s.begin(repeatable), s.begin(repeatable), s.begin(until(nil))
	canceled := s.begin(repeatable)
	if err := s.svc.CancelOperation(t.Context(), alice, canceled.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.svc.Close(); err != nil {
		t.Fatal(err)
	}
	err := s.store.View(t.Context(), func(r store.Reader) error {
		list, err := r.UnsettledOperations()
		list = slices.DeleteFunc(list, core.Operation.Ended)
		if len(list) != 3 {
			t.Errorf("%d run after the server has closed, want 3", len(list))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	goOn := make(chan struct{})
	s.again = func(op core.Operation) (control.TestWork, error) {
		if op.Intent != `{"what":"this"}` {
			t.Errorf("the intent is %q", op.Intent)
		}
		if op.ID == refused.ID {
			return control.TestWork{}, core.Errorf(core.CodeUnavailable, "its upload is gone")
		}
		return until(goOn), nil
	}
	s.start()
	for id, message := range map[core.OperationID]string{
		refused.ID: "its upload is gone",
		never.ID:   "the server was restarted while this was under way, and it can't be gone on with: start it again",
	} {
		got := s.ended(id)
		if got.State != core.OperationFailed || got.Code != core.CodeUnavailable || got.Message != message {
			t.Errorf("ended: %+v", got)
		}
		eventually(t, "it is cleaned up after", func() bool { _, cleaned := s.traces(id); return cleaned == 1 })
	}
	close(goOn)
	if got := s.ended(again.ID); got.State != core.OperationSucceeded || got.Result["answer"] != "42" {
		t.Errorf("ended: %+v", got)
	}
	if got := s.ended(canceled.ID); got.State != core.OperationCanceled {
		t.Errorf("ended: %+v", got)
	}
	if len(s.resumed) != 2 {
		t.Errorf("%d were gone on with", len(s.resumed))
	}
}
