package control_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"shoal/internal/core"
	"shoal/internal/store"
)

func code(n int) *int { return &n }

// execAt waits for the sandbox's n-th exec and returns its record.
func (w *world) execAt(sb core.Sandbox, n int) core.Exec {
	w.t.Helper()
	var found core.Exec
	eventually(w.t, "the exec is on record", func() bool {
		list, _, err := w.svc.ListExecs(w.t.Context(), alice, string(sb.ID), store.ExecFilter{}, store.Page{Limit: 100})
		if err != nil || len(list) < n || list[len(list)-n].PID == 0 {
			return false
		}
		found = list[len(list)-n]
		return true
	})
	return found
}

func TestRunExecReturnsWhatTheProcessReturned(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	type reply struct {
		res core.ExecResult
		err error
	}
	done := make(chan reply, 1)
	go func() {
		res, err := w.svc.RunExec(context.Background(), alice, string(sb.ID), core.ExecSpec{Shell: "x", Env: map[string]string{"TOKEN": "secret"}}, []byte("in"), 4)
		done <- reply{res, err}
	}()
	e := w.execAt(sb, 1)
	if e.Spec.Env["TOKEN"] != "" {
		t.Errorf("the record keeps the value of a variable: %v", e.Spec.Env)
	}
	g := w.node.guest(sb.ID)
	g.print(e.ID, "hello")
	if err := g.finish(e.ID, core.Exec{Outcome: core.OutcomeExited, ExitCode: code(3)}); err != nil {
		t.Fatal(err)
	}
	r := <-done
	if r.err != nil || r.res.Outcome != core.OutcomeExited || *r.res.ExitCode != 3 || string(r.res.Stdout) != "hell" || !r.res.Truncated {
		t.Fatalf("%+v %v", r.res, r.err)
	}
	eventually(t, "the agent may forget it", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return g.acked[e.ID] })
}

func TestExecIsLostWithItsSandbox(t *testing.T) {
	for _, how := range []string{"crash", "delete"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t).start().ready()
			sb := w.create(core.SandboxSpec{})
			e, stream, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "x"})
			if err != nil {
				t.Fatal(err)
			}
			if how == "crash" {
				w.node.crash(sb.ID)
			} else if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
				t.Fatal(err)
			}
			for {
				m, err := stream.Recv()
				if err != nil {
					t.Fatalf("stream ended without an end: %v", err)
				}
				if m.Kind == core.ExecEnded {
					if m.Exec.Outcome != core.OutcomeLost || m.Exec.ExitCode != nil {
						t.Errorf("ended as %+v", m.Exec)
					}
					break
				}
			}
			_ = stream.Close()
			if how == "crash" {
				// At once: who is told of the loss does not find the sandbox running.
				if got, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID)); err != nil || got.State != core.StateFailed {
					t.Errorf("the sandbox is %s, %v", got.State, err)
				}
				if got, err := w.svc.GetExec(t.Context(), alice, string(sb.ID), e.ID); err != nil || got.Outcome != core.OutcomeLost || got.ExitCode != nil {
					t.Errorf("the record says %+v, %v", got, err)
				}
			}
		})
	}
}

func TestDetachedExecIsLearned(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	e, stream, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "x", Detach: true})
	if err != nil || stream != nil {
		t.Fatal(err, stream)
	}
	if err := w.node.guest(sb.ID).finish(e.ID, core.Exec{Outcome: core.OutcomeSignaled, Signal: "SIGKILL"}); err != nil {
		t.Fatal(err)
	}
	w.endedInStore(sb, e.ID, core.OutcomeSignaled)
}

// endedInStore waits for the watcher to record an end, without asking the service, which would record it itself.
func (w *world) endedInStore(sb core.Sandbox, id core.ExecID, want core.Outcome) {
	w.t.Helper()
	eventually(w.t, "the watcher records the end", func() bool {
		w.clock.advance(2e9)
		var e core.Exec
		err := w.store.View(context.Background(), func(r store.Reader) (err error) { e, err = r.Exec(sb.ID, id); return err })
		return err == nil && e.Outcome == want
	})
}

func TestExecGoesOnWhenTheCallerLeaves(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := w.svc.RunExec(ctx, alice, string(sb.ID), core.ExecSpec{Shell: "x"}, nil, 100)
		done <- err
	}()
	e := w.execAt(sb, 1)
	cancel()
	wantCode(t, <-done, core.CodeCanceled)
	if err := w.node.guest(sb.ID).finish(e.ID, core.Exec{Outcome: core.OutcomeExited, ExitCode: code(0)}); err != nil {
		t.Fatal(err)
	}
	w.endedInStore(sb, e.ID, core.OutcomeExited)
}

func TestExecEndsAreLearnedAfterARestart(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	e, _, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "x", Detach: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = w.svc.Close()
	if err := w.node.guest(sb.ID).finish(e.ID, core.Exec{Outcome: core.OutcomeExited, ExitCode: code(5)}); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.endedInStore(sb, e.ID, core.OutcomeExited)
	list, _, err := w.svc.Events(t.Context(), alice, string(sb.ID), 0, 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends := 0
	for _, ev := range list {
		if ev.Type == core.EventExecEnded {
			ends++
			if ev.Data["exit_code"] != "5" {
				t.Errorf("event says %v", ev.Data)
			}
		}
	}
	if ends != 1 {
		t.Errorf("%d events say that it ended", ends)
	}
}

func TestExecRefuses(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	for name, tc := range map[string]struct {
		spec  core.ExecSpec
		field string
	}{
		"nothing":  {core.ExecSpec{}, "cmd"},
		"both":     {core.ExecSpec{Cmd: []string{"a"}, Shell: "b"}, "shell"},
		"empty":    {core.ExecSpec{Cmd: []string{""}}, "cmd"},
		"nul":      {core.ExecSpec{Cmd: []string{"a\x00b"}}, "cmd"},
		"negative": {core.ExecSpec{Shell: "a", Timeout: -1}, "timeout_seconds"},
		"cwd":      {core.ExecSpec{Shell: "a", Cwd: "\x00"}, "cwd"},
		"script":   {core.ExecSpec{Shell: strings.Repeat("a", 128<<10)}, "shell"},
		"argument": {core.ExecSpec{Cmd: []string{"a", strings.Repeat("a", 128<<10)}}, "cmd"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := w.svc.Exec(t.Context(), alice, string(sb.ID), tc.spec)
			if e := wantCode(t, err, core.CodeInvalid); e.Field != tc.field {
				t.Errorf("blames %q, want %q", e.Field, tc.field)
			}
		})
	}
	_, _, err := w.svc.Exec(t.Context(), bob, string(sb.ID), core.ExecSpec{Shell: "true"})
	wantCode(t, err, core.CodeNotFound)
}

func TestAttachAfterTheSandboxIsDead(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	e, _, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "x", Detach: true})
	if err != nil {
		t.Fatal(err)
	}
	w.node.crash(sb.ID)
	eventually(t, "attach says lost", func() bool {
		stream, err := w.svc.AttachExec(t.Context(), alice, string(sb.ID), e.ID, 0)
		if err != nil {
			return false
		}
		m, err := stream.Recv()
		if err != nil || m.Kind != core.ExecEnded || m.Exec.Outcome != core.OutcomeLost {
			t.Fatalf("%+v %v", m, err)
		}
		_, err = stream.Recv()
		return errors.Is(err, io.EOF)
	})
}

func TestAuthenticate(t *testing.T) {
	w := newWorld(t).start().ready()
	first, err := w.svc.NewAdminKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	secret := first.Reveal()
	p, err := w.svc.Authenticate(t.Context(), secret)
	if err != nil || p.Tenant != core.DefaultTenant || !p.Admin {
		t.Fatalf("%+v %v", p, err)
	}
	renewed, err := w.svc.NewAdminKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.svc.Authenticate(t.Context(), renewed.Reveal()); err != nil {
		t.Errorf("the new admin key: %v", err)
	}
	for _, bad := range []string{secret, "", "x", secret + "x", secret[:len(secret)-1]} {
		p, err := w.svc.Authenticate(t.Context(), bad)
		wantCode(t, err, core.CodeUnauthenticated)
		if p.Tenant != "" || p.Scopes != 0 || p.Actor.ID != "" {
			t.Errorf("%q is %+v", bad, p)
		}
	}
}
