package control_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
)

// TestGate: single creates pass the gate that batches pass, all in the end, and whoever goes away while waiting leaves nothing.
func TestGate(t *testing.T) {
	t.Parallel()
	places := max(4, 2*runtime.GOMAXPROCS(0))
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.time = core.SystemClock{}
		w.store = &watchedStore{Store: w.store}
		w.start().ready()
		let, now := make(chan struct{}), make(chan struct{}, 1000)
		w.node.onCreate = func(ctx context.Context, _ core.NodeSpec) error {
			now <- struct{}{}
			select {
			case <-let:
				return nil
			case <-ctx.Done():
				return core.Wrap(core.CodeCanceled, ctx.Err(), "canceled")
			}
		}
		var calls sync.WaitGroup
		var errs [40]error
		leaving, leave := context.WithCancel(t.Context())
		for i := range 20 {
			calls.Go(func() { _, errs[i] = w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{}) })
		}
		synctest.Wait()
		for i := 20; i < 30; i++ {
			calls.Go(func() { _, errs[i] = w.svc.CreateSandbox(leaving, alice, core.SandboxSpec{Name: fmt.Sprint("n", i)}) })
		}
		calls.Go(func() {
			errs[30] = w.svc.CreateSandboxes(t.Context(), alice, control.Batch{Specs: specs(10, nil)}, func(r control.BatchResult) error { return r.Err })
		})
		synctest.Wait()
		if len(now) != places {
			t.Errorf("%d are made at once, want %d", len(now), places)
		}
		leave()
		synctest.Wait()
		for i := 20; i < 30; i++ {
			wantCode(t, errs[i], core.CodeCanceled)
		}
		close(let)
		calls.Wait()
		for i, err := range errs {
			if err != nil && (i < 20 || i >= 30) {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if n := w.node.count(); n != 30 {
			t.Errorf("%d run, want 30", n)
		}
		if _, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{Name: "n20"}); err != nil {
			t.Errorf("the name of one that came to nothing isn't free: %v", err)
		}
	})
}

// TestGateIsFair: one tenant's hundreds of creates, single ones and batches, make another's wait for a few of them, not for all.
func TestGateIsFair(t *testing.T) {
	t.Parallel()
	places := max(4, 2*runtime.GOMAXPROCS(0))
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.time = core.SystemClock{}
		w.store = &watchedStore{Store: w.store}
		w.start().ready()
		w.node.onCreate = func(context.Context, core.NodeSpec) error {
			<-time.After(time.Second) // of synctest's own time: it takes none
			return nil
		}
		var calls sync.WaitGroup
		for range 40 {
			calls.Go(func() { _, _ = w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{}) })
			calls.Go(func() {
				_ = w.svc.CreateSandboxes(t.Context(), alice, control.Batch{Specs: specs(10, nil)}, func(control.BatchResult) error { return nil })
			})
		}
		synctest.Wait()
		begin := time.Now()
		if _, err := w.svc.CreateSandbox(t.Context(), bob, core.SandboxSpec{}); err != nil {
			t.Fatal(err)
		}
		// At most what is under way, what waits in the common line, and the own one.
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("bob waited %s behind %d places", took, places)
		}
		calls.Wait()
	})
}

// TestLastPlace: of many racing creates for the last place on the node, some of which come to nothing by a name that is taken or their tenant's
// quota, exactly one wins.
func TestLastPlace(t *testing.T) {
	t.Parallel()
	one := int64(1)
	w := newWorld(t)
	w.quota.Sandboxes = &one
	w.start().ready()
	w.node.max = 1
	for round := range 30 {
		var calls sync.WaitGroup
		var won [24]core.Sandbox
		for i := range won {
			p := []control.Principal{alice, bob}[i%2]
			calls.Go(func() {
				sb, err := w.svc.CreateSandbox(t.Context(), p, core.SandboxSpec{Name: "same"})
				if err == nil {
					won[i] = sb
				} else if !core.IsCode(err, core.CodeExhausted) && !core.IsCode(err, core.CodeQuota) && !core.IsCode(err, core.CodeConflict) {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		winners := 0
		for i, sb := range won {
			if sb.ID == "" {
				continue
			}
			winners++
			if err := w.svc.DeleteSandbox(t.Context(), []control.Principal{alice, bob}[i%2], string(sb.ID)); err != nil {
				t.Fatal(err)
			}
			eventually(t, "its place is free", func() bool {
				w.node.mu.Lock()
				defer w.node.mu.Unlock()
				return len(w.node.reserved) == 0
			})
		}
		if winners != 1 {
			t.Fatalf("round %d: %d creates won the one place", round, winners)
		}
	}
}
