package control_test

import (
	"context"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// What the guest agent refuses to start has never been: no record, no event, no outcome.
func TestExecThatCannotStart(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	for shell, code := range map[string]core.Code{"refuse": core.CodeInvalid, "deny": core.CodeDenied} {
		_, _, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: shell})
		if e := wantCode(t, err, code); e.Field != "cmd" {
			t.Errorf("%s blames %q", shell, e.Field)
		}
	}
	list, _, err := w.svc.ListExecs(t.Context(), alice, string(sb.ID), store.ExecFilter{}, store.Page{Limit: 10})
	if err != nil || len(list) != 0 {
		t.Errorf("records %+v %v", list, err)
	}
	if got := w.execEvents(sb); got != "" {
		t.Errorf("events %s", got)
	}
}

func TestExecOfACallerWhoIsGone(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := w.svc.Exec(ctx, alice, string(sb.ID), core.ExecSpec{Shell: "x"})
	wantCode(t, err, core.CodeCanceled)
	list, _, err := w.svc.ListExecs(t.Context(), alice, string(sb.ID), store.ExecFilter{}, store.Page{Limit: 10})
	if err != nil || len(list) != 0 || w.execEvents(sb) != "" {
		t.Errorf("records %+v %v, events %s", list, err, w.execEvents(sb))
	}
}

// Where the start is in doubt, what may run is killed, and the record says what is known and no more.
func TestExecWhoseStartIsInDoubt(t *testing.T) {
	for shell, want := range map[string]struct {
		outcome core.Outcome
		events  string
	}{
		"doubt":  {core.OutcomeCanceled, "exec.started, exec.ended canceled"},
		"vanish": {core.OutcomeLost, "exec.ended lost"},
	} {
		t.Run(shell, func(t *testing.T) {
			w := newWorld(t).start().ready()
			sb := w.create(core.SandboxSpec{})
			_, _, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: shell})
			wantCode(t, err, core.CodeUnavailable)
			list, _, err := w.svc.ListExecs(t.Context(), alice, string(sb.ID), store.ExecFilter{}, store.Page{Limit: 10})
			if err != nil || len(list) != 1 {
				t.Fatalf("records %+v %v", list, err)
			}
			w.endedInStore(sb, list[0].ID, want.outcome)
			if got := w.execEvents(sb); got != want.events {
				t.Errorf("events %s, want %s", got, want.events)
			}
		})
	}
}

// The server is killed when the process has been started and the record does not say so yet.
func TestExecStartIsLearnedAfterAKill(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	_ = w.svc.Close()
	e := core.Exec{ID: core.ExecID(core.NewID()), Sandbox: sb.ID, Spec: core.ExecSpec{Shell: "x"}, StartedAt: w.clock.Now()}
	if err := w.store.Update(t.Context(), func(tx store.Tx) error { return tx.PutExec(e) }); err != nil {
		t.Fatal(err)
	}
	g := w.node.guest(sb.ID)
	if _, err := g.Exec(t.Context(), e.ID, e.Spec); err != nil {
		t.Fatal(err)
	}
	w.start()
	eventually(t, "the start is learned", func() bool {
		w.clock.advance(time.Second)
		return w.execEvents(sb) == "exec.started"
	})
	if err := g.finish(e.ID, core.Exec{Outcome: core.OutcomeExited, ExitCode: code(0)}); err != nil {
		t.Fatal(err)
	}
	w.endedInStore(sb, e.ID, core.OutcomeExited)
	if got, want := w.execEvents(sb), "exec.started, exec.ended exited"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
}
