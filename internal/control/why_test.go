package control_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
)

// TestWhy asks of a sandbox in use, asleep and failed. What it runs isn't in the answer's texts that are shown; asking is no use.
func TestWhy(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		sb := w.create(core.SandboxSpec{
			Persistent: true, Idle: 10 * time.Minute, OnIdle: core.ActionStop,
			Rules: []core.LifecycleRule{{On: core.TriggerTimeInState, After: time.Hour, State: core.StateStopped, Action: core.ActionDelete}},
		})
		ref := string(sb.ID)
		born := time.Now()
		ask := func() (text string) {
			t.Helper()
			why, err := w.svc.Why(t.Context(), alice, ref)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range why.Uses {
				text += fmt.Sprintf("%d %s for %v, ", u.Count, u.Kind, why.At.Sub(u.Since))
			}
			text += fmt.Sprintf("%d execs", len(why.Execs))
			for _, r := range why.Rules {
				due := "never"
				if !r.DueAt.IsZero() {
					due = r.DueAt.Sub(born).String()
				}
				text += fmt.Sprintf(", %s %s", r.Action, due)
			}
			if (why.Metrics != nil) != (why.Sandbox.State == core.StateRunning) {
				t.Errorf("%s: its metrics are %v", why.Sandbox.State, why.Metrics)
			}
			return text
		}
		want := func(text string) {
			t.Helper()
			if got := ask(); got != text {
				t.Errorf("after %v it says\n%s, want\n%s", time.Since(born), got, text)
			}
		}
		want("0 execs, stop 10m0s, delete never")
		_, one, err := w.svc.Exec(t.Context(), alice, ref, core.ExecSpec{Shell: "serve"})
		if err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		_, two, err := w.svc.Exec(t.Context(), alice, ref, core.ExecSpec{Shell: "serve"})
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
		w.pass(time.Minute)
		want("2 exec_stream for 2m0s, 1 file_read for 1m0s, 2 execs, stop 12m0s, delete never")
		for _, c := range []interface{ Close() error }{one, two, body} {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(9 * time.Minute)
		want("2 execs, stop 12m0s, delete never") // and that was no use
		w.pass(time.Minute + control.DefaultGrace)
		w.wantState(sb.ID, core.StateStopped)
		stopped := w.lookUp(sb.ID).StateSince.Sub(born)
		want(fmt.Sprintf("0 execs, delete %v, stop never", stopped+time.Hour))
		_, err = w.svc.Why(t.Context(), bob, ref)
		wantCode(t, err, core.CodeNotFound)
	})
}

// TestWhyOfACheckpoint: what a delete leaves is told.
func TestWhyOfACheckpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	if why, err := w.svc.Why(t.Context(), alice, string(sb.ID)); err != nil || why.Kept != nil {
		t.Fatalf("%+v, %v", why.Kept, err)
	}
	c, err := w.svc.CreateCheckpoint(t.Context(), alice, string(sb.ID), core.CheckpointSpec{})
	if err != nil {
		t.Fatal(err)
	}
	why, err := w.svc.Why(t.Context(), alice, string(sb.ID))
	if err != nil || why.Kept == nil || why.Kept.ID != c.ID {
		t.Fatalf("%+v, %v", why.Kept, err)
	}
}

// TestLongWorkIsUse: a sandbox isn't taken for idle while a checkpoint of it is made, it is forked or restored, however long that takes.
func TestLongWorkIsUse(t *testing.T) {
	inTime(t, func(w *world) {
		t := w.t
		sb := w.create(core.SandboxSpec{Idle: 20 * time.Second})
		ref := string(sb.ID)
		long := func() {
			w.pass(time.Minute)
			why, err := w.svc.Why(t.Context(), alice, ref)
			if err != nil || len(why.Uses) != 1 || why.Uses[0].Kind != core.UseOperation {
				t.Errorf("meanwhile: %+v, %v", why.Uses, err)
			}
		}
		w.node.onCheckpoint = func(context.Context, core.CheckpointID, core.SandboxID) error { long(); return nil }
		c, err := w.svc.CreateCheckpoint(t.Context(), alice, ref, core.CheckpointSpec{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.svc.ForkSandbox(t.Context(), alice, ref, core.ForkSpec{Count: 1}); err != nil {
			t.Fatal(err)
		}
		w.node.onCheckpoint = nil
		w.node.onRestore = func(context.Context, core.NodeSpec) error { long(); return nil }
		w.stays(sb, 19*time.Second)
		if _, err := w.svc.RestoreSandbox(t.Context(), alice, ref, control.RestoreSpec{Checkpoint: c.ID}); err != nil {
			t.Fatal(err)
		}
		w.stays(sb, 19*time.Second)
		w.pass(time.Second)
		w.ended(sb)
	})
}
