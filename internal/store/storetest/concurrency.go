package storetest

import (
	"sync"
	"testing"

	"shoal/internal/core"
	"shoal/internal/store"
)

// inParallel runs fn n times at once and returns the errors in order.
func inParallel(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-gate
			errs[i] = fn(i)
		})
	}
	close(gate)
	wg.Wait()
	return errs
}

func testConcurrency(t *testing.T, open Open) {
	t.Helper()
	t.Run("of creates with one name one wins", func(t *testing.T) {
		s := start(t, open)
		errs := inParallel(20, func(i int) error {
			b := newSandbox(alice)
			b.Name = "only-one"
			write := s.Update
			if i%2 == 1 {
				write = s.UpdateRelaxed
			}
			return write(t.Context(), func(tx store.Tx) error { return tx.PutSandbox(b) })
		})
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			wantCode(t, err, core.CodeConflict)
		}
		if won != 1 {
			t.Fatalf("%d creates won, want 1", won)
		}
	})
	t.Run("event numbers have no gaps", func(t *testing.T) {
		s := start(t, open)
		const writers, each = 10, 12
		errs := inParallel(writers, func(i int) error {
			for n := range each {
				write := s.Update
				if n%2 == 1 {
					write = s.UpdateRelaxed
				}
				err := write(t.Context(), func(tx store.Tx) error {
					_, err := tx.AppendEvent(core.Event{Tenant: alice, Type: core.EventExecStarted})
					if err == nil && n%3 == 2 {
						return core.Errorf(core.CodeQuota, "rolled back by the test")
					}
					return err
				})
				if err != nil && !core.IsCode(err, core.CodeQuota) {
					return err
				}
			}
			return nil
		})
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
		list, _ := s.events(alice, "", 0, 1000)
		if want := writers * each * 2 / 3; len(list) != want {
			t.Fatalf("%d events, want %d", len(list), want)
		}
		for i, e := range list {
			if e.Seq != int64(i+1) {
				t.Fatalf("event %d has number %d", i+1, e.Seq)
			}
		}
	})
	t.Run("read, change, write loses nothing", func(t *testing.T) {
		s := start(t, open)
		b := newSandbox(alice)
		s.put(b)
		errs := inParallel(20, func(int) error {
			return s.Update(t.Context(), func(tx store.Tx) error {
				x, err := tx.SandboxByID(b.ID)
				if err != nil {
					return err
				}
				x.Incarnation++
				return tx.PutSandbox(x)
			})
		})
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.sandbox(alice, string(b.ID)); err != nil || got.Incarnation != 20 {
			t.Fatalf("incarnation %d, %v: want 20", got.Incarnation, err)
		}
	})
	t.Run("readers don't wait for a writer", func(t *testing.T) {
		s := start(t, open)
		b := newSandbox(alice)
		s.put(b)
		s.update(func(tx store.Tx) error {
			changed := b
			changed.Failure = "not yet committed"
			if err := tx.PutSandbox(changed); err != nil {
				return err
			}
			got, err := s.sandbox(alice, string(b.ID))
			wantSame(t, got, b)
			return err
		})
	})
}
