package control_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// run starts an exec that goes on, as process pid.
func (w *world) run(sb core.Sandbox, pid int, tag string) core.Exec {
	w.t.Helper()
	w.clock.advance(time.Millisecond) // two that start in one moment are in no order
	w.node.guest(sb.ID).startAs(pid)
	e, _, err := w.svc.Exec(w.t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "serve", Detach: true, Tag: tag})
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func (w *world) found(sb core.Sandbox, by control.ExecSelector, want core.Exec) {
	w.t.Helper()
	got, err := w.svc.FindExec(w.t.Context(), alice, string(sb.ID), by)
	if err != nil || got.ID != want.ID || got.PID != want.PID {
		w.t.Fatalf("%v finds %s with pid %d, %v; want %s with pid %d", by, got.ID, got.PID, err, want.ID, want.PID)
	}
}

func TestFindExec(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb, other := w.create(core.SandboxSpec{}), w.create(core.SandboxSpec{})
	w.run(other, 12, "db")
	first := w.run(sb, 10, "web")
	w.found(sb, control.ExecSelector{PID: 10}, first) // at once, recorded or not
	second := w.run(sb, 11, "web")
	w.found(sb, control.ExecSelector{Tag: "web"}, second)
	w.found(sb, control.ExecSelector{Tag: "web", PID: 10}, first)

	// A running one wins, and one that has ended is still found.
	w.end(sb, second)
	w.found(sb, control.ExecSelector{PID: 11}, second)
	w.found(sb, control.ExecSelector{Tag: "web"}, first)
	w.end(sb, first)
	w.found(sb, control.ExecSelector{PID: 10}, first)
	w.found(sb, control.ExecSelector{Tag: "web"}, second)
	// The system gives a process id to another process.
	w.found(sb, control.ExecSelector{PID: 10}, first)
	third := w.run(sb, 10, "")
	w.found(sb, control.ExecSelector{PID: 10}, third)

	for by, words := range map[control.ExecSelector]string{
		{PID: 12}:            "process id 12",
		{Tag: "db"}:          `tag "db"`,
		{PID: 10, Tag: "db"}: `process id 10 and tag "db"`,
	} {
		_, err := w.svc.FindExec(t.Context(), alice, string(sb.ID), by)
		if e := wantCode(t, err, core.CodeNotFound); !strings.Contains(e.Message, words) {
			t.Errorf("%q does not name what was looked for: %s", e.Message, words)
		}
	}
	for _, by := range []control.ExecSelector{{}, {PID: -1}, {Tag: "a\x00"}, {Tag: "\xff"}, {Tag: strings.Repeat("x", 257)}} {
		_, err := w.svc.FindExec(t.Context(), alice, string(sb.ID), by)
		wantCode(t, err, core.CodeInvalid)
	}
}

// end ends an exec, and waits until that is on record.
func (w *world) end(sb core.Sandbox, e core.Exec) {
	w.t.Helper()
	if err := w.node.guest(sb.ID).finish(e.ID, core.Exec{Outcome: core.OutcomeExited, ExitCode: new(int)}); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "its end is recorded", func() bool {
		got, err := w.svc.GetExec(w.t.Context(), alice, string(sb.ID), e.ID)
		return err == nil && got.Outcome == core.OutcomeExited
	})
}

// TestFindExecOfAServerThatWasKilled starts with records as such a server leaves them: the process runs, and its id is only
// known to the guest agent.
func TestFindExecOfAServerThatWasKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	e := w.run(sb, 10, "web")
	w.end(sb, w.run(sb, 10, "web"))
	err := w.store.Update(t.Context(), func(tx store.Tx) error {
		rec, err := tx.Exec(sb.ID, e.ID)
		if err != nil {
			return err
		}
		rec.PID = 0
		return tx.PutExec(rec)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.svc.Close(); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.found(sb, control.ExecSelector{PID: 10}, e)
	_, err = w.svc.FindExec(t.Context(), alice, string(sb.ID), control.ExecSelector{PID: 10, Tag: "db"})
	wantCode(t, err, core.CodeNotFound)
}

func TestExecTag(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	web := w.run(sb, 10, "web")
	w.run(sb, 11, "")
	list, _, err := w.svc.ListExecs(t.Context(), alice, string(sb.ID), store.ExecFilter{Tag: "web"}, store.Page{Limit: 10})
	if err != nil || len(list) != 1 || list[0].ID != web.ID || list[0].Spec.Tag != "web" {
		t.Fatalf("listed %+v, %v", list, err)
	}
	for _, tag := range []string{"a\x00b", "\xff", strings.Repeat("x", 257)} {
		_, _, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "serve", Tag: tag})
		if e := wantCode(t, err, core.CodeInvalid); e.Field != "tag" {
			t.Errorf("it blames %q", e.Field)
		}
		_, _, err = w.svc.ListExecs(t.Context(), alice, string(sb.ID), store.ExecFilter{Tag: tag}, store.Page{Limit: 10})
		wantCode(t, err, core.CodeInvalid)
	}
}

// TestManyExecsAtOnce starts many execs of one sandbox together; each is found by its pid at once and followed to its end.
func TestManyExecsAtOnce(t *testing.T) {
	t.Parallel()
	const n = 200
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for range n {
		wg.Go(func() {
			errs <- func() error {
				e, stream, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "serve", Tag: "all"})
				if err != nil {
					return err
				}
				got, err := w.svc.FindExec(t.Context(), alice, string(sb.ID), control.ExecSelector{PID: e.PID})
				if err != nil || got.ID != e.ID {
					return core.Errorf(core.CodeInternal, "pid %d finds %s, %v, want %s", e.PID, got.ID, err, e.ID)
				}
				if err := w.node.guest(sb.ID).finish(e.ID, core.Exec{Outcome: core.OutcomeExited, ExitCode: new(int)}); err != nil {
					return err
				}
				for {
					m, err := stream.Recv()
					if err != nil || m.Kind == core.ExecEnded {
						return err
					}
				}
			}()
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	list, _, err := w.svc.ListExecs(t.Context(), alice, string(sb.ID), store.ExecFilter{Tag: "all"}, store.Page{Limit: 1000})
	running := slices.ContainsFunc(list, func(e core.Exec) bool { return e.Outcome != core.OutcomeExited || e.PID == 0 })
	if err != nil || len(list) != n || running {
		t.Fatalf("%d records, %v, one without an end: %v", len(list), err, running)
	}
}
