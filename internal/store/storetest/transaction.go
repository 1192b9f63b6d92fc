package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

func asError(err error) *core.Error {
	var e *core.Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

func testTransaction(t *testing.T, open Open) {
	t.Helper()
	t.Run("rollback leaves nothing, a retry starts afresh", func(t *testing.T) {
		s := start(t, open)
		b := newSandbox(alice)
		mine := errors.New("mine")
		attempt := func(end error) error {
			return s.try(func(tx store.Tx) error {
				_, err := tx.Sandbox(alice, string(b.ID))
				wantCode(t, err, core.CodeNotFound)
				if err := tx.PutSandbox(b); err != nil {
					return err
				}
				if e, err := tx.AppendEvent(core.Event{Tenant: alice, Type: core.EventSandboxCreating}); err != nil || e.Seq != 1 {
					t.Fatalf("event %+v, %v: want seq 1", e, err)
				}
				if _, err := tx.Sandbox(alice, string(b.ID)); err != nil {
					t.Fatalf("a transaction doesn't see its own write: %v", err)
				}
				return end
			})
		}
		for range 2 {
			if err := attempt(mine); !errors.Is(err, mine) {
				t.Fatalf("got %v, want fn's own error", err)
			}
			_, err := s.sandbox(alice, string(b.ID))
			wantCode(t, err, core.CodeNotFound)
		}
		if err := attempt(nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.sandbox(alice, string(b.ID)); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a panic rolls back and releases the writer", func(t *testing.T) {
		s := start(t, open)
		b := newSandbox(alice)
		func() {
			defer func() { _ = recover() }()
			_ = s.try(func(tx store.Tx) error {
				if err := tx.PutSandbox(b); err != nil {
					return err
				}
				panic("by the test")
			})
		}()
		_, err := s.sandbox(alice, string(b.ID))
		wantCode(t, err, core.CodeNotFound)
		s.put(b)
	})
	t.Run("a refused write can be given up without losing the rest", func(t *testing.T) {
		s := start(t, open)
		one, two := newSandbox(alice), newSandbox(alice)
		one.Name, two.Name = "same", "same"
		s.update(func(tx store.Tx) error {
			if err := tx.PutSandbox(one); err != nil {
				return err
			}
			wantCode(t, tx.PutSandbox(two), core.CodeConflict)
			return nil
		})
		if _, err := s.sandbox(alice, string(one.ID)); err != nil {
			t.Fatal(err)
		}
		_, err := s.sandbox(alice, string(two.ID))
		wantCode(t, err, core.CodeNotFound)
	})
	t.Run("a view is one moment", func(t *testing.T) { testOneMoment(t, open) })
	t.Run("canceled", func(t *testing.T) { testCanceled(t, open) })
	t.Run("closed", func(t *testing.T) {
		s := open(t, t.TempDir())
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		wantCode(t, s.View(t.Context(), func(store.Reader) error { return nil }), core.CodeUnavailable)
		wantCode(t, s.Update(t.Context(), func(store.Tx) error { return nil }), core.CodeUnavailable)
		wantCode(t, s.UpdateRelaxed(t.Context(), func(store.Tx) error { return nil }), core.CodeUnavailable)
	})
}

func testOneMoment(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	s.put(newSandbox(alice))
	s.view(func(r store.Reader) error {
		before, err := r.AllSandboxes()
		if err != nil {
			return err
		}
		s.put(newSandbox(alice))
		after, err := r.AllSandboxes()
		if err != nil {
			return err
		}
		wantSame(t, ids(after), ids(before))
		return nil
	})
	s.view(func(r store.Reader) error {
		all, err := r.AllSandboxes()
		if len(all) != 2 {
			t.Fatalf("a later view has %d sandboxes, want 2", len(all))
		}
		return err
	})
}

func testCanceled(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	wantCode(t, s.View(gone, func(store.Reader) error { return nil }), core.CodeCanceled)
	wantCode(t, s.Update(gone, func(store.Tx) error { return nil }), core.CodeCanceled)

	// A writer that waits for another one gives up with its context, and the other one goes on.
	entered, leave, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	b := newSandbox(alice)
	go func() {
		done <- s.Update(t.Context(), func(tx store.Tx) error {
			close(entered)
			<-leave
			return tx.PutSandbox(b)
		})
	}()
	<-entered
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	wantCode(t, s.UpdateRelaxed(short, func(store.Tx) error { return nil }), core.CodeTimeout)
	close(leave)
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	// Canceled on the way: nothing of it is kept.
	c := newSandbox(alice)
	midway, cancel := context.WithCancel(t.Context())
	err := s.Update(midway, func(tx store.Tx) error {
		if err := tx.PutSandbox(c); err != nil {
			return err
		}
		cancel()
		return nil
	})
	wantCode(t, err, core.CodeCanceled)
	_, err = s.sandbox(alice, string(c.ID))
	wantCode(t, err, core.CodeNotFound)
	if _, err := s.sandbox(alice, string(b.ID)); err != nil {
		t.Fatal(err)
	}
}
