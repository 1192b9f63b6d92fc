package control_test

import (
	"context"
	"testing"
	"time"

	"shoal/internal/core"
)

// creating starts a create that stays under way until the returned function is called, which returns how it ended.
func (w *world) creating(name string) (finish func() error) {
	w.t.Helper()
	inside, goOn := make(chan struct{}), make(chan struct{})
	w.node.onCreate = func(ctx context.Context, _ core.NodeSpec) error {
		close(inside)
		select {
		case <-goOn:
			return nil
		case <-ctx.Done():
			return core.Wrap(core.CodeCanceled, ctx.Err(), "canceled")
		}
	}
	result := make(chan error, 1)
	go func() {
		_, err := w.svc.CreateSandbox(context.Background(), alice, core.SandboxSpec{Name: name})
		result <- err
	}()
	<-inside
	return func() error { close(goOn); return <-result }
}

// filesOf asks for a sandbox that is being created, and returns how that ends; it has begun to wait when filesOf returns.
func (w *world) filesOf(ctx context.Context, name string) <-chan error {
	w.t.Helper()
	done := make(chan error, 1)
	timers := w.clock.count()
	go func() {
		_, err := w.svc.Files(ctx, alice, name)
		done <- err
	}()
	eventually(w.t, "the call waits", func() bool { return w.clock.count() > timers })
	return done
}

func TestCallWaitsForACreate(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(w *world, cancel context.CancelFunc, finish func() error)
		want      core.Code
	}{
		"created":  {func(w *world, _ context.CancelFunc, finish func() error) { _ = finish() }, ""},
		"too late": {func(*world, context.CancelFunc, func() error) {}, core.CodeConflict},
		"gone":     {func(_ *world, cancel context.CancelFunc, _ func() error) { cancel() }, core.CodeCanceled},
		"deleted": {func(w *world, _ context.CancelFunc, _ func() error) {
			if err := w.svc.DeleteSandbox(w.t.Context(), alice, "x"); err != nil {
				w.t.Fatal(err)
			}
		}, core.CodeNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).start().ready()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			finish := w.creating("x")
			done := w.filesOf(ctx, "x")
			tc.meanwhile(w, cancel, finish)
			var err error
			eventually(t, "the call ends", func() bool {
				select {
				case err = <-done:
					return true
				default:
				}
				if tc.want == core.CodeConflict {
					w.clock.advance(time.Second)
				}
				return false
			})
			e := wantCode(t, err, tc.want)
			if tc.want == core.CodeConflict {
				if want := "the sandbox is creating, with a create under way"; e.Message != want || e.RetryAfter == 0 {
					t.Errorf("says %q, retry after %v; want %q", e.Message, e.RetryAfter, want)
				}
			}
			if name != "created" {
				_ = finish()
			}
		})
	}
}

// A delete frees the name at once; who waits for the old sandbox must not get the new one.
func TestCallDoesNotGetTheNamesNextOwner(t *testing.T) {
	w := newWorld(t).start().ready()
	finish := w.creating("x")
	done := w.filesOf(t.Context(), "x")
	if err := w.svc.DeleteSandbox(t.Context(), alice, "x"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, finish(), core.CodeCanceled)
	w.node.onCreate = nil
	w.create(core.SandboxSpec{Name: "x"})
	wantCode(t, <-done, core.CodeNotFound)
}
