package control_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// inTime runs a test whose time is its own: it passes when everything waits for it to.
func inTime(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.time = core.SystemClock{}
		w.store = &watchedStore{Store: w.store}
		test(w.start().ready())
	})
}

// pass lets time pass, and what it causes happen.
func (w *world) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *world) lives(sb core.Sandbox) bool {
	w.t.Helper()
	_, err := w.svc.GetSandbox(w.t.Context(), alice, string(sb.ID))
	if err != nil && !core.IsCode(err, core.CodeNotFound) {
		w.t.Fatal(err)
	}
	return err == nil
}

// ended returns who deleted a sandbox, which is gone.
func (w *world) ended(sb core.Sandbox) core.Actor {
	w.t.Helper()
	synctest.Wait()
	if w.lives(sb) {
		w.t.Fatal("the sandbox lives")
	}
	list, _, err := w.svc.Events(w.t.Context(), alice, string(sb.ID), 0, 1000, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(e core.Event) bool { return e.Type == core.EventSandboxDeleted })
	if i < 0 {
		w.t.Fatal("no event tells that it was deleted")
	}
	if list[i].Data["reason"] != list[i].Actor.ID {
		w.t.Fatalf("the reason is %q, the actor %v", list[i].Data["reason"], list[i].Actor)
	}
	return list[i].Actor
}

// stays fails the test if a sandbox doesn't live for so long, to the second.
func (w *world) stays(sb core.Sandbox, d time.Duration) {
	w.t.Helper()
	w.pass(d)
	if !w.lives(sb) {
		w.t.Fatalf("the sandbox is gone within %v", d)
	}
}

var (
	byIdle = core.Actor{Kind: "system", ID: "idle"}
	byTTL  = core.Actor{Kind: "system", ID: "ttl"}
)

func TestIdleDeletes(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		sb := w.create(core.SandboxSpec{Idle: time.Minute, TTL: time.Hour})
		if sb.OnIdle != core.ActionDelete || !sb.ActiveAt.Equal(time.Now()) {
			t.Fatalf("created with %q at %v", sb.OnIdle, sb.ActiveAt)
		}
		w.stays(sb, 59*time.Second)
		w.pass(time.Second)
		if by := w.ended(sb); by != byIdle {
			t.Fatalf("it was ended by %v", by)
		}
	})
}

func TestTTLHoldsBesideIdle(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		sb := w.create(core.SandboxSpec{Idle: time.Minute, TTL: 90 * time.Second})
		w.stays(sb, 50*time.Second)
		if err := w.svc.Touch(t.Context(), alice, string(sb.ID)); err != nil {
			t.Fatal(err)
		}
		w.stays(sb, 39*time.Second)
		w.pass(time.Second)
		if by := w.ended(sb); by != byTTL {
			t.Fatalf("it was ended by %v", by)
		}
	})
}

// TestWhatCountsAsUse uses a sandbox after 40 of 60 seconds in each way, and looks whether it lives at 70.
func TestWhatCountsAsUse(t *testing.T) {
	t.Parallel()
	type call func(ctx context.Context, w *world, ref string, e core.ExecID) error
	tests := map[string]struct {
		counts bool
		call   call
	}{
		"touch": {true, func(ctx context.Context, w *world, ref string, _ core.ExecID) error {
			return w.svc.Touch(ctx, alice, ref)
		}},
		"exec": {true, func(ctx context.Context, w *world, ref string, _ core.ExecID) error {
			_, _, err := w.svc.Exec(ctx, alice, ref, core.ExecSpec{Shell: "serve", Detach: true})
			return err
		}},
		"get exec": {true, func(ctx context.Context, w *world, ref string, e core.ExecID) error {
			_, err := w.svc.GetExec(ctx, alice, ref, e)
			return err
		}},
		"find exec": {true, func(ctx context.Context, w *world, ref string, _ core.ExecID) error {
			_, err := w.svc.FindExec(ctx, alice, ref, control.ExecSelector{PID: 99})
			return err
		}},
		"list execs": {true, func(ctx context.Context, w *world, ref string, _ core.ExecID) error {
			_, _, err := w.svc.ListExecs(ctx, alice, ref, store.ExecFilter{}, store.Page{Limit: 1})
			return err
		}},
		"files": {true, func(ctx context.Context, w *world, ref string, _ core.ExecID) error {
			_, err := w.svc.Files(ctx, alice, ref)
			return err
		}},
		"change": {true, func(ctx context.Context, w *world, ref string, _ core.ExecID) error {
			_, err := w.svc.UpdateSandbox(ctx, alice, ref, control.SandboxPatch{Labels: &map[string]string{"a": "b"}})
			return err
		}},
		"get": {false, func(ctx context.Context, w *world, ref string, _ core.ExecID) error {
			_, err := w.svc.GetSandbox(ctx, alice, ref)
			return err
		}},
		"list": {false, func(ctx context.Context, w *world, _ string, _ core.ExecID) error {
			_, _, err := w.svc.ListSandboxes(ctx, alice, store.SandboxFilter{}, store.Page{Limit: 1})
			return err
		}},
		"metrics": {false, func(ctx context.Context, w *world, ref string, _ core.ExecID) error {
			_, err := w.svc.Metrics(ctx, alice, ref)
			return err
		}},
		"events": {false, func(ctx context.Context, w *world, ref string, _ core.ExecID) error {
			_, _, err := w.svc.Events(ctx, alice, ref, 0, 10, 0)
			return err
		}},
		"another's call": {false, func(ctx context.Context, w *world, ref string, _ core.ExecID) error {
			if err := w.svc.Touch(ctx, bob, ref); !core.IsCode(err, core.CodeNotFound) {
				return core.Errorf(core.CodeInternal, "bob touched it: %v", err)
			}
			return nil
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(w *world) {
				t := w.t
				sb := w.create(core.SandboxSpec{Idle: time.Minute})
				e := w.run(sb, 99, "")
				w.end(sb, e)
				w.pass(40 * time.Second)
				before := time.Now()
				if err := tc.call(t.Context(), w, string(sb.ID), e.ID); err != nil {
					t.Fatal(err)
				}
				got, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID))
				if err != nil || got.ActiveAt.Equal(before) != tc.counts {
					t.Fatalf("it was last used at %v, and now it is %v: %v", got.ActiveAt, before, err)
				}
				w.pass(30 * time.Second)
				if tc.counts {
					w.stays(sb, 29*time.Second)
					w.pass(time.Second)
				}
				w.ended(sb)
			})
		})
	}
}

// TestOpenStreamKeepsAwake leaves streams, transfers and connections open for ten times the rule; the count begins when the
// last one is closed.
func TestOpenStreamKeepsAwake(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		sb := w.create(core.SandboxSpec{Idle: 20 * time.Second})
		ref := string(sb.ID)
		e, run, err := w.svc.Exec(t.Context(), alice, ref, core.ExecSpec{Shell: "serve"})
		if err != nil {
			t.Fatal(err)
		}
		follower, err := w.svc.AttachExec(t.Context(), alice, ref, e.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		files, err := w.svc.Files(t.Context(), alice, ref)
		if err != nil {
			t.Fatal(err)
		}
		_, body, err := files.ReadFile(t.Context(), "/x", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := files.DialPort(t.Context(), 80)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []io.Closer{run, follower, body, conn} {
			w.stays(sb, 200*time.Second)
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			_ = c.Close() // a second time takes nothing away from the others
		}
		part, content := io.Pipe()
		wrote := make(chan error, 1)
		go func() {
			_, err := files.WritePart(t.Context(), "/x", core.PartOptions{}, part)
			wrote <- err
		}()
		w.stays(sb, 200*time.Second)
		if err := errors.Join(content.Close(), <-wrote); err != nil {
			t.Fatal(err)
		}
		w.stays(sb, 19*time.Second)
		w.pass(time.Second)
		w.ended(sb)
	})
}

func TestFailedCallsHoldNothing(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		sb := w.create(core.SandboxSpec{Idle: 20 * time.Second})
		ref := string(sb.ID)
		_, _, err := w.svc.Exec(t.Context(), alice, ref, core.ExecSpec{Shell: "refuse"})
		wantCode(t, err, core.CodeInvalid)
		_, _, err = w.svc.Exec(t.Context(), alice, ref, core.ExecSpec{Shell: "vanish"})
		wantCode(t, err, core.CodeUnavailable)
		_, err = w.svc.AttachExec(t.Context(), alice, ref, "nope", 0)
		wantCode(t, err, core.CodeNotFound)
		files, err := w.svc.Files(t.Context(), alice, ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := files.ReadFile(t.Context(), "/missing", 0, -1); err == nil {
			t.Fatal("the fake has a file that is missing")
		}
		if _, err := files.WriteFile(t.Context(), "/missing", core.WriteOptions{}, strings.NewReader("x")); err == nil {
			t.Fatal("the fake has a directory that is missing")
		}
		if _, err := files.WritePart(t.Context(), "/missing", core.PartOptions{}, strings.NewReader("x")); err == nil {
			t.Fatal("the fake has a directory that is missing")
		}
		if _, err := files.DialPort(t.Context(), 1); err == nil {
			t.Fatal("the fake has a port that is closed")
		}
		w.stays(sb, 19*time.Second)
		w.pass(time.Second)
		w.ended(sb)
	})
}

func TestOutputKeepsAwake(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		sb := w.create(core.SandboxSpec{Idle: time.Minute})
		e := w.run(sb, 10, "")
		for range 5 {
			w.stays(sb, 50*time.Second)
			w.node.guest(sb.ID).wrote(e.ID, 1)
		}
		// What is silent is idle, though it runs.
		w.stays(sb, 59*time.Second)
		w.pass(9 * time.Second) // the longest pause of the watcher
		if by := w.ended(sb); by != byIdle {
			t.Fatalf("it was ended by %v", by)
		}
	})
}

func TestIdleAfterRestart(t *testing.T) {
	t.Parallel()
	restart := func(tb testing.TB, w *world, kill bool) {
		tb.Helper()
		st := w.store.(*watchedStore)
		if kill { // nothing goes on, and what was not written is lost
			st.fail(errors.New("killed"))
		} else if err := w.svc.Close(); err != nil {
			tb.Fatal(err)
		}
		w.store = &watchedStore{Store: st.Store}
		w.start()
	}
	for name, kill := range map[string]bool{"closed": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(w *world) {
				t := w.t
				sb := w.create(core.SandboxSpec{Idle: time.Minute})
				for range 4 { // used often enough for most of it to be in memory only
					w.pass(4 * time.Second)
					if err := w.svc.Touch(t.Context(), alice, string(sb.ID)); err != nil {
						t.Fatal(err)
					}
				}
				restart(t, w, kill)
				got, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID))
				if err != nil || got.ActiveAt.After(time.Now()) {
					t.Fatalf("last used at %v, %v", got.ActiveAt, err)
				}
				w.stays(sb, 59*time.Second)
				if !kill {
					w.pass(time.Second)
				} else {
					w.pass(7 * time.Second) // a grain, which is 6 s, later at most
				}
				w.ended(sb)
			})
		})
	}
	t.Run("killed with a stream open", func(t *testing.T) {
		inTime(t, func(w *world) {
			t := w.t
			sb := w.create(core.SandboxSpec{Idle: time.Minute})
			_, stream, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "serve"})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = stream.Close() }()
			w.pass(10 * time.Minute)
			restart(t, w, true)
			w.stays(sb, 59*time.Second)
			w.pass(7 * time.Second)
			w.ended(sb)
		})
	})
	t.Run("missed while down", func(t *testing.T) {
		inTime(t, func(w *world) {
			t := w.t
			sb := w.create(core.SandboxSpec{Idle: time.Minute})
			_ = w.svc.Close()
			<-time.After(time.Hour - time.Second)
			w.start()
			if by := w.ended(sb); by != byIdle {
				t.Fatalf("it was ended by %v", by)
			}
		})
	})
}

// TestUseIsWrittenSeldom counts what a busy sandbox costs the store.
func TestUseIsWrittenSeldom(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		st := w.store.(*watchedStore)
		sb := w.create(core.SandboxSpec{Idle: 10 * time.Minute})
		w.pass(time.Second)
		before := st.count()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if err := w.svc.Touch(t.Context(), alice, string(sb.ID)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := st.count() - before; n != 1 {
			t.Fatalf("100 uses at once were written %d times", n)
		}
		for range 60 {
			w.pass(time.Second)
			if err := w.svc.Touch(t.Context(), alice, string(sb.ID)); err != nil {
				t.Fatal(err)
			}
		}
		if n := st.count() - before; n < 5 || n > 7 {
			t.Fatalf("a minute of use was written %d times", n)
		}
	})
}

// TestUseMeetsExpiry uses a sandbox at the moment at which it becomes idle: either the use is served and the sandbox lives, or
// the caller learns that it is gone.
func TestUseMeetsExpiry(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		served := 0
		for range 60 {
			sb := w.create(core.SandboxSpec{Idle: time.Minute})
			<-time.After(time.Minute) // the idle loop wakes up in the same moment
			_, stream, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "serve"})
			switch {
			case err == nil:
				served++
				if !w.lives(sb) {
					t.Fatal("a sandbox was deleted under a call that was served")
				}
				_ = stream.Close()
				if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
					t.Fatal(err)
				}
			case core.IsCode(err, core.CodeNotFound):
				w.ended(sb)
			default:
				t.Fatalf("the call got %v", err)
			}
		}
		t.Logf("%d of 60 were served", served)
	})
}

func TestIdleRule(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		tests := map[string]struct {
			spec  core.SandboxSpec
			code  core.Code
			field string
			words string
		}{
			"too short":            {core.SandboxSpec{Idle: time.Millisecond}, core.CodeInvalid, "idle_seconds", "1 to"},
			"too long":             {core.SandboxSpec{Idle: 400 * 24 * time.Hour}, core.CodeInvalid, "idle_seconds", "1 to"},
			"negative":             {core.SandboxSpec{Idle: -time.Hour}, core.CodeInvalid, "idle_seconds", "1 to"},
			"freeze":               {core.SandboxSpec{Idle: time.Hour, OnIdle: core.ActionFreeze}, core.CodeUnsupported, "on_idle", "delete"},
			"hibernate":            {core.SandboxSpec{Idle: time.Hour, OnIdle: core.ActionHibernate}, core.CodeUnsupported, "on_idle", "stop"},
			"no such action":       {core.SandboxSpec{Idle: time.Hour, OnIdle: "explode"}, core.CodeInvalid, "on_idle", "delete"},
			"action alone":         {core.SandboxSpec{OnIdle: core.ActionDelete}, core.CodeInvalid, "on_idle", "idle_seconds"},
			"persistent, by sugar": {core.SandboxSpec{Idle: time.Hour, Persistent: true}, core.CodeInvalid, "on_idle", "persistent"},
		}
		for name, tc := range tests {
			_, err := w.svc.CreateSandbox(t.Context(), alice, tc.spec)
			if e := wantCode(t, err, tc.code); e.Field != tc.field || !strings.Contains(e.Message, tc.words) {
				t.Errorf("%s: it blames %q: %s", name, e.Field, e.Message)
			}
		}
		sb := w.create(core.SandboxSpec{Idle: 20 * time.Second, OnIdle: core.ActionDelete, Persistent: true})
		if !sb.ExpiresAt.IsZero() {
			t.Fatal("it has a ttl")
		}
		w.pass(20 * time.Second)
		w.ended(sb)
	})
}

func TestPatchIdleRule(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		patch := func(sb core.Sandbox, p control.SandboxPatch) core.Sandbox {
			t.Helper()
			got, err := w.svc.UpdateSandbox(t.Context(), alice, string(sb.ID), p)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		// A rule is taken away and comes back, with a stream open all along.
		sb := w.create(core.SandboxSpec{Idle: time.Minute})
		_, stream, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "serve"})
		if err != nil {
			t.Fatal(err)
		}
		if got := patch(sb, control.SandboxPatch{Idle: new(time.Duration(0))}); got.Idle != 0 || got.OnIdle != "" || !got.ActiveAt.IsZero() {
			t.Fatalf("after the rule was taken away: %+v", got)
		}
		w.stays(sb, 2*time.Minute)
		patch(sb, control.SandboxPatch{Idle: new(10 * time.Second)})
		w.stays(sb, time.Minute)
		if err := stream.Close(); err != nil {
			t.Fatal(err)
		}
		w.stays(sb, 9*time.Second)
		patch(sb, control.SandboxPatch{Idle: new(30 * time.Second)}) // counts anew
		w.stays(sb, 29*time.Second)
		w.pass(time.Second)
		w.ended(sb)

		// What becomes persistent loses the rule, unless it is named again.
		sb = w.create(core.SandboxSpec{Idle: time.Minute})
		if got := patch(sb, control.SandboxPatch{Persistent: new(true)}); got.Idle != 0 {
			t.Fatalf("a persistent sandbox has the rule %v", got.Idle)
		}
		w.stays(sb, 2*time.Minute)
		_, err = w.svc.UpdateSandbox(t.Context(), alice, string(sb.ID), control.SandboxPatch{Idle: new(time.Minute)})
		wantCode(t, err, core.CodeInvalid)
		_, err = w.svc.UpdateSandbox(t.Context(), alice, string(sb.ID), control.SandboxPatch{OnIdle: core.ActionDelete})
		wantCode(t, err, core.CodeInvalid)
		patch(sb, control.SandboxPatch{Idle: new(time.Minute), OnIdle: core.ActionDelete})
		w.stays(sb, 59*time.Second)
		w.pass(time.Second)
		w.ended(sb)
	})
}

// TestIdleDeleteIsTriedAgain fails the delete of an idle sandbox once: meanwhile it can be used.
func TestIdleDeleteIsTriedAgain(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		st := w.store.(*watchedStore)
		sb := w.create(core.SandboxSpec{Idle: time.Minute})
		st.fail(errors.New("disk full"))
		w.pass(time.Minute)
		st.fail(nil)
		if st.failed() != 1 {
			t.Fatalf("%d writes failed", st.failed())
		}
		if err := w.svc.Touch(t.Context(), alice, string(sb.ID)); err != nil {
			t.Fatalf("it can't be used: %v", err)
		}
		w.stays(sb, 59*time.Second)
		w.pass(time.Second)
		w.ended(sb)
		// Without a use in between it goes as soon as it can.
		sb = w.create(core.SandboxSpec{Idle: time.Minute})
		st.fail(errors.New("disk full"))
		w.pass(time.Minute)
		st.fail(nil)
		w.pass(time.Second)
		w.ended(sb)
	})
}

// watchedStore counts writes, and can fail. Of those that failed it counts what was to be flushed.
type watchedStore struct {
	store.Store
	mu      sync.Mutex
	writes  int
	refused int
	err     error
	// spoil, unless it is nil, is asked at the end of each write to be flushed.
	spoil func(store.Tx) error
}

// refuse makes those writes fail for which spoil returns an error.
func (c *watchedStore) refuse(spoil func(store.Tx) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spoil = spoil
}

func (c *watchedStore) write(flushed bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	if c.err != nil && flushed {
		c.refused++
	}
	return c.err
}

func (c *watchedStore) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

func (c *watchedStore) failed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

func (c *watchedStore) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *watchedStore) View(ctx context.Context, fn func(store.Reader) error) error {
	c.mu.Lock()
	err := c.err
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.Store.View(ctx, fn)
}

func (c *watchedStore) Update(ctx context.Context, fn func(store.Tx) error) error {
	if err := c.write(true); err != nil {
		return err
	}
	c.mu.Lock()
	spoil := c.spoil
	c.mu.Unlock()
	if spoil == nil {
		return c.Store.Update(ctx, fn)
	}
	return c.Store.Update(ctx, func(tx store.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		err := spoil(tx)
		if err != nil {
			c.mu.Lock()
			c.refused++
			c.mu.Unlock()
		}
		return err
	})
}

func (c *watchedStore) UpdateRelaxed(ctx context.Context, fn func(store.Tx) error) error {
	if err := c.write(false); err != nil {
		return err
	}
	return c.Store.UpdateRelaxed(ctx, fn)
}
