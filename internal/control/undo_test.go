package control_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// brokenStore is a store whose next durable writes fail.
type brokenStore struct {
	store.Store
	fail atomic.Int32
}

func (b *brokenStore) Update(ctx context.Context, fn func(store.Tx) error) error {
	if b.fail.Load() > 0 {
		b.fail.Add(-1)
		return errors.New("no space left on device")
	}
	return b.Store.Update(ctx, fn)
}

// The store refuses to write that a create has failed: that is made good as soon as it can be, without a restart.
func TestFailedCreateIsUndoneWhenTheStoreIsBack(t *testing.T) {
	w := newWorld(t)
	broken := &brokenStore{Store: w.store}
	w.store = broken
	w.start().ready()
	w.node.onCreate = func(context.Context, core.NodeSpec) error {
		broken.fail.Store(3)
		return core.Errorf(core.CodeUnavailable, "no luck")
	}
	_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{Name: "x"})
	wantCode(t, err, core.CodeUnavailable)
	eventually(t, "nothing is left", func() bool {
		w.clock.advance(time.Minute)
		_, err := w.svc.GetSandbox(t.Context(), alice, "x")
		w.node.mu.Lock()
		defer w.node.mu.Unlock()
		return core.IsCode(err, core.CodeNotFound) && len(w.node.reserved) == 0
	})
}

// Whenever the caller of a create goes away, nothing is left.
func TestCallerOfACreateGoesAway(t *testing.T) {
	for name, leave := range map[string]func(w *world, cancel context.CancelFunc){
		"before": func(_ *world, cancel context.CancelFunc) { cancel() },
		"during": func(w *world, cancel context.CancelFunc) {
			w.node.onCreate = func(ctx context.Context, _ core.NodeSpec) error {
				cancel()
				<-ctx.Done()
				return core.Wrap(core.CodeCanceled, ctx.Err(), "canceled")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).start().ready()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			leave(w, cancel)
			_, err := w.svc.CreateSandbox(ctx, alice, core.SandboxSpec{Name: "x"})
			wantCode(t, err, core.CodeCanceled)
			_, err = w.svc.GetSandbox(t.Context(), alice, "x")
			wantCode(t, err, core.CodeNotFound)
			eventually(t, "nothing is left", func() bool {
				w.node.mu.Lock()
				defer w.node.mu.Unlock()
				return len(w.node.reserved) == 0 && len(w.node.running) == 0
			})
		})
	}
}

// What is tried until it succeeds ends when there is nothing on record any more that it is about.
func TestNothingIsTriedForEverAboutTheForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is forgotten", func() bool {
		n := 0
		w.change(func(tx store.Tx) (err error) {
			n, err = tx.ForgetSandboxes(w.clock.Now().Add(time.Hour))
			return err
		})
		return n == 1
	})
	for what, err := range control.TryForgotten(t.Context(), w.svc, alice, sb.ID) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
