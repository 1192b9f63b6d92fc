package control_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

func keyed(key string) *core.Once { return &core.Once{Key: key, Digest: "d"} }

// restart ends the server in good order, with the sandboxes running, and starts another.
func (w *world) restart() {
	w.t.Helper()
	if err := w.svc.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.start()
}

func TestOnceCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	first := w.create(core.SandboxSpec{Name: "a", Once: keyed("k")})
	for range 2 {
		again := core.SandboxSpec{Name: "a", Once: keyed("k")}
		got := w.create(again)
		if diff := cmp.Diff(first, got); diff != "" || !again.Once.Repeated {
			t.Fatalf("the repeat got another answer (repeated %v):\n%s", again.Once.Repeated, diff)
		}
		w.restart()
	}
	if n := w.node.count(); n != 1 {
		t.Fatalf("%d sandboxes run", n)
	}
	// The same key is another one of another tenant, and of another call.
	bob := alice
	bob.Tenant = "bob"
	if _, err := w.svc.CreateSandbox(t.Context(), bob, core.SandboxSpec{Once: keyed("k")}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.svc.Exec(t.Context(), alice, "a", core.ExecSpec{Shell: "x", Detach: true, Once: keyed("k")}); err != nil {
		t.Fatal(err)
	}
	// Something else with the key is refused.
	_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{Name: "b", Once: &core.Once{Key: "k", Digest: "other"}})
	if e := wantCode(t, err, core.CodeConflict); e.Field != "Idempotency-Key" {
		t.Errorf("it blames %q", e.Field)
	}
	// The answer outlives the sandbox, and is gone after a day.
	if err := w.svc.DeleteSandbox(t.Context(), alice, "a"); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(23 * time.Hour)
	if got := w.create(core.SandboxSpec{Name: "a", Once: keyed("k")}); got.ID != first.ID {
		t.Fatal("another was made within a day")
	}
	w.clock.advance(2 * time.Hour)
	w.ready()
	if got := w.create(core.SandboxSpec{Name: "a", Once: keyed("k")}); got.ID == first.ID {
		t.Fatal("the key is remembered for longer than a day")
	}
}

// TestOnceCreateFails: a call that failed left nothing, and so its key is free.
func TestOnceCreateFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	fail := true
	w.node.onCreate = func(context.Context, core.NodeSpec) error {
		if fail {
			return core.Errorf(core.CodeInternal, "it broke")
		}
		return nil
	}
	_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{Once: keyed("k")})
	wantCode(t, err, core.CodeInternal)
	w.node.max = 0
	_, err = w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{Once: keyed("k")})
	wantCode(t, err, core.CodeExhausted)
	w.node.max, fail = 10, false
	spec := core.SandboxSpec{Once: keyed("k")}
	if sb := w.create(spec); sb.State != core.StateRunning || spec.Once.Repeated {
		t.Fatalf("it is %s, repeated %v", sb.State, spec.Once.Repeated)
	}
}

// TestOnceCreateTogether: of many at once with one key, one creates and the others wait for it; if it fails another one creates.
func TestOnceCreateTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	begun, goOn := make(chan struct{}, 100), make(chan struct{})
	var mu sync.Mutex
	fails := 3
	w.node.onCreate = func(context.Context, core.NodeSpec) error {
		begun <- struct{}{}
		<-goOn
		mu.Lock()
		defer mu.Unlock()
		if fails--; fails >= 0 {
			return core.Errorf(core.CodeInternal, "it broke")
		}
		return nil
	}
	const n = 20
	ids := make(chan core.SandboxID, n)
	for range n {
		go func() {
			sb, err := w.svc.CreateSandbox(context.Background(), alice, core.SandboxSpec{Once: keyed("k")})
			if err != nil {
				sb.ID = ""
			}
			ids <- sb.ID
		}()
	}
	<-begun
	if len(begun) != 0 {
		t.Fatal("two are created at once")
	}
	// One who doesn't want to wait for it may go.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.svc.CreateSandbox(ctx, alice, core.SandboxSpec{Once: keyed("k")})
	wantCode(t, err, core.CodeCanceled)
	close(goOn)
	seen := map[core.SandboxID]int{}
	for range n {
		seen[<-ids]++
	}
	if seen[""] != 3 || len(seen) != 2 || w.node.count() != 1 {
		t.Fatalf("got %v, and %d run", seen, w.node.count())
	}
}

// TestOnceCreateWithoutItsAnswer: what a killed server, or one that has kept too much, no longer has is made from the record.
func TestOnceCreateWithoutItsAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	big := core.SandboxSpec{Name: "big", Env: map[string]string{"A": strings.Repeat("x", 20_000)}, Once: keyed("k")}
	first := w.create(big)
	if got := w.create(big); got.ID != first.ID || got.Env["A"] == "" || !big.Once.Repeated {
		t.Fatalf("got %s, repeated %v", got.ID, big.Once.Repeated)
	}
	if err := w.svc.DeleteSandbox(t.Context(), alice, "big"); err != nil {
		t.Fatal(err)
	}
	if got := w.create(big); got.ID != first.ID || got.State != core.StateDeleted {
		t.Fatalf("got %s, %s", got.ID, got.State)
	}
}

// runKeyed runs a command to its end beside the test.
func (w *world) runKeyed(ref string, spec core.ExecSpec, stdin []byte) <-chan core.ExecResult {
	done := make(chan core.ExecResult, 1)
	go func() {
		res, err := w.svc.RunExec(context.Background(), alice, ref, spec, stdin, 1<<20)
		if err != nil {
			res.Signal = err.Error()
		}
		done <- res
	}()
	return done
}

func TestOnceExec(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{Name: "a"})
	g := w.node.guest(sb.ID)
	spec := func() core.ExecSpec { return core.ExecSpec{Shell: "work", Once: keyed("k")} }
	first := w.runKeyed("a", spec(), nil)
	id := g.only(t)
	second := w.runKeyed("a", spec(), nil) // waits for the first
	if err := g.finish(id, core.Exec{Outcome: core.OutcomeExited, ExitCode: new(3)}); err != nil {
		t.Fatal(err)
	}
	want := <-first
	if want.Outcome != core.OutcomeExited || *want.ExitCode != 3 || want.ID != id {
		t.Fatalf("the first got %+v", want)
	}
	if diff := cmp.Diff(want, <-second); diff != "" {
		t.Errorf("the second got another answer:\n%s", diff)
	}
	w.restart()
	third := spec()
	res, err := w.svc.RunExec(t.Context(), alice, "a", third, nil, 1<<20)
	if diff := cmp.Diff(want, res); err != nil || diff != "" || !third.Once.Repeated {
		t.Errorf("after a restart: %v, repeated %v\n%s", err, third.Once.Repeated, diff)
	}
	if err := w.svc.DeleteSandbox(t.Context(), alice, "a"); err != nil {
		t.Fatal(err)
	}
	if res, err = w.svc.RunExec(t.Context(), alice, "a", spec(), nil, 1<<20); err != nil || *res.ExitCode != 3 {
		t.Errorf("after the delete: %v %+v", err, res)
	}
	if len(g.execs) != 1 {
		t.Errorf("%d were started", len(g.execs))
	}
	other := spec()
	other.Once.Digest = "other"
	_, err = w.svc.RunExec(t.Context(), alice, "a", other, nil, 1<<20)
	wantCode(t, err, core.CodeConflict)
}

// TestOnceExecRefused: what was not started leaves the key free.
func TestOnceExecRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	for range 2 {
		_, _, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "refuse", Once: keyed("k")})
		wantCode(t, err, core.CodeInvalid)
	}
	other := &core.Once{Key: "k", Digest: "other"}
	if _, _, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "ok", Detach: true, Once: other}); err != nil {
		t.Fatal(err)
	}
}

// TestOnceExecFollowed: a repeat joins the process that goes on after its caller went away.
func TestOnceExecFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	g := w.node.guest(sb.ID)
	for i, detach := range []bool{false, true} {
		spec := core.ExecSpec{Shell: "work", Detach: detach, Once: keyed(string(rune('a' + i)))}
		e, stream, err := w.svc.Exec(t.Context(), alice, string(sb.ID), spec)
		if err != nil {
			t.Fatal(err)
		}
		if stream != nil {
			_ = stream.Close()
		}
		w.restart()
		again, stream, err := w.svc.Exec(t.Context(), alice, string(sb.ID), spec)
		if err != nil || again.ID != e.ID || again.PID != e.PID || !spec.Once.Repeated || (stream == nil) != detach {
			t.Fatalf("detach %v: %+v, %v", detach, again, err)
		}
		if err := g.finish(e.ID, core.Exec{Outcome: core.OutcomeSignaled, Signal: "SIGKILL"}); err != nil {
			t.Fatal(err)
		}
		if stream != nil {
			for m := (core.ExecMessage{}); m.Kind != core.ExecEnded; {
				if m, err = stream.Recv(); err != nil {
					t.Fatal(err)
				}
			}
			_ = stream.Close()
		}
	}
	if len(g.execs) != 2 {
		t.Errorf("%d were started", len(g.execs))
	}
}

// TestOnceExecNeverStarted begins with what a server leaves that was killed between the record and the start.
func TestOnceExecNeverStarted(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"soon": false, "after it was given up": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).start().ready()
			sb := w.create(core.SandboxSpec{})
			g := w.node.guest(sb.ID)
			id := core.ExecID(core.NewID())
			if err := w.svc.Close(); err != nil {
				t.Fatal(err)
			}
			err := w.store.Update(t.Context(), func(tx store.Tx) error {
				now := w.clock.Now()
				if err := tx.PutExec(core.Exec{ID: id, Sandbox: sb.ID, Spec: core.ExecSpec{Shell: "work", Detach: true}, StartedAt: now}); err != nil {
					return err
				}
				return tx.PutKeyedCall(core.KeyedCall{
					Tenant: sb.Tenant, Route: "exec in " + string(sb.ID), Key: "k", Digest: "d", Sandbox: sb.ID, Exec: id, At: now,
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			w.start()
			spec := core.ExecSpec{Shell: "work", Detach: true, Once: keyed("k")}
			if late {
				w.clock.advance(time.Minute)
				eventually(t, "it is given up", func() bool {
					w.clock.advance(time.Second)
					e, err := w.svc.GetExec(t.Context(), alice, string(sb.ID), id)
					return err == nil && e.Outcome == core.OutcomeLost
				})
			}
			e, _, err := w.svc.Exec(t.Context(), alice, string(sb.ID), spec)
			if err != nil || e.ID != id {
				t.Fatalf("%+v, %v", e, err)
			}
			if late {
				if e.Outcome != core.OutcomeLost || len(g.execs) != 0 {
					t.Fatalf("outcome %q, %d started", e.Outcome, len(g.execs))
				}
				return
			}
			if e.PID == 0 || len(g.execs) != 1 || spec.Once.Repeated {
				t.Fatalf("%+v, %d started", e, len(g.execs))
			}
			w.clock.advance(time.Minute)
			if _, _, err := w.svc.Exec(t.Context(), alice, string(sb.ID), spec); err != nil || len(g.execs) != 1 {
				t.Fatalf("%v, %d started", err, len(g.execs))
			}
		})
	}
}

// TestOnceExecInput: whoever can't be sure that the process got its input is told so, and doesn't wait for ever.
func TestOnceExecInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	g := w.node.guest(sb.ID)
	spec := core.ExecSpec{Shell: "work", Stdin: true, Once: &core.Once{Key: "k", Digest: "d", Input: true}}
	e, stream, err := w.svc.Exec(t.Context(), alice, string(sb.ID), spec)
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Close() // the caller goes away in the middle of its input
	_, err = w.svc.RunExec(t.Context(), alice, string(sb.ID), spec, []byte("in"), 1<<20)
	if c := wantCode(t, err, core.CodeConflict); !strings.Contains(c.Message, string(e.ID)) {
		t.Errorf("it says %q", c.Message)
	}
	if err := g.finish(e.ID, core.Exec{Outcome: core.OutcomeExited, ExitCode: new(0)}); err != nil {
		t.Fatal(err)
	}
	if res, err := w.svc.RunExec(t.Context(), alice, string(sb.ID), spec, []byte("in"), 1<<20); err != nil || res.ID != e.ID {
		t.Errorf("after its end: %+v, %v", res, err)
	}
	// One that has got all of it is waited for.
	spec.Once = &core.Once{Key: "k2", Digest: "d", Input: true}
	if e, stream, err = w.svc.Exec(t.Context(), alice, string(sb.ID), spec); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseStdin(); err != nil {
		t.Fatal(err)
	}
	_ = stream.Close()
	done := w.runKeyed(string(sb.ID), spec, []byte("in"))
	if err := g.finish(e.ID, core.Exec{Outcome: core.OutcomeExited, ExitCode: new(0)}); err != nil {
		t.Fatal(err)
	}
	if res := <-done; res.ID != e.ID || res.Outcome != core.OutcomeExited {
		t.Errorf("got %+v", res)
	}
}

// TestOnceOfAToken: whoever holds the access token of a sandbox sees nothing of what keys did.
func TestOnceOfAToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	run := func(p control.Principal) core.Exec {
		t.Helper()
		e, _, err := w.svc.Exec(t.Context(), p, string(sb.ID), core.ExecSpec{Shell: "x", Detach: true, Once: keyed("k")})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	mine, theirs := run(alice), run(w.open(sb))
	if mine.ID == theirs.ID || run(alice).ID != mine.ID || run(w.open(sb)).ID != theirs.ID {
		t.Error("calls of keys and of tokens are mixed up")
	}
	// Nor does a key that is for some sandboxes only.
	some := alice
	some.Labels = map[string]string{"team": "a"}
	first := w.create(core.SandboxSpec{Once: keyed("c")})
	second, err := w.svc.CreateSandbox(t.Context(), some, core.SandboxSpec{Once: keyed("c")})
	if err != nil || second.ID == first.ID || second.Labels["team"] != "a" {
		t.Errorf("got %+v, %v", second, err)
	}
}

// only waits until the guest agent runs one exec, and returns its id.
func (g *guest) only(t *testing.T) (id core.ExecID) {
	t.Helper()
	eventually(t, "an exec was started", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		for id = range g.execs {
		}
		return len(g.execs) == 1
	})
	return id
}

// TestCreateTemplateOnce: a repeat gets the operation that the first call began, also when its upload is used up, after a restart and after
// it failed; another call with the key is a conflict, one that was refused leaves it free, and nothing is made twice.
func TestCreateTemplateOnce(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	up, err := g.svc.PutUpload(t.Context(), alice, strings.NewReader("app.tar"))
	if err != nil {
		t.Fatal(err)
	}
	call := func(p control.Principal, key, digest string, spec core.TemplateSpec) (core.Operation, bool, error) {
		spec.Once = &core.Once{Key: key, Digest: digest}
		op, err := g.svc.CreateTemplate(t.Context(), p, spec)
		return op, spec.Once.Repeated, err
	}
	sb := g.world.create(core.SandboxSpec{})
	specs := map[string]core.TemplateSpec{
		"upload": {Name: "uploaded", Upload: up.ID}, "image": {Name: "pulled", Image: image("app")},
		"wrong": {Name: "wrong", Image: image("nothing")}, "sandbox": {Name: "captured", Sandbox: string(sb.ID)},
	}
	began := map[string]core.OperationID{}
	for key, spec := range specs {
		op, repeated, err := call(alice, key, key, spec)
		if err != nil || repeated {
			t.Fatalf("%s: %v, %t", key, err, repeated)
		}
		began[key] = op.ID
		g.ended(op.ID)
	}
	same := func() {
		t.Helper()
		for key, spec := range specs {
			op, repeated, err := call(alice, key, key, spec)
			if err != nil || !repeated || op.ID != began[key] || !op.Ended() || (op.State == core.OperationSucceeded) == (key == "wrong") {
				t.Errorf("%s again: %+v, %t, %v", key, op, repeated, err)
			}
		}
	}
	same()
	_, _, err = call(alice, "image", "other", specs["image"])
	wantCode(t, err, core.CodeConflict)
	op, repeated, err := call(bob, "image", "image", specs["image"])
	if err != nil || repeated || op.ID == began["image"] {
		t.Errorf("another tenant's: %+v, %t, %v", op, repeated, err)
	}
	_, _, err = call(alice, "free", "a", core.TemplateSpec{Name: "x", Sandbox: "nobody"})
	wantCode(t, err, core.CodeNotFound)
	if _, repeated, err := call(alice, "free", "b", core.TemplateSpec{Name: "x", Image: image("app")}); err != nil || repeated {
		t.Errorf("a key that a refused call left: %t, %v", repeated, err)
	}
	if err := g.svc.Close(); err != nil {
		t.Fatal(err)
	}
	g.start()
	same()
	if got := g.template("pulled"); got.Version != 1 {
		t.Errorf("%+v", got)
	}
}
