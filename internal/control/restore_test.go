package control_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

func (n *node) Restore(ctx context.Context, spec core.NodeSpec) error {
	n.mu.Lock()
	on, mid := n.onRestore, n.midRestore
	_, promised := n.reserved[spec.Sandbox]
	n.mu.Unlock()
	if !promised {
		return core.Errorf(core.CodeInternal, "no reservation")
	}
	if on != nil {
		if err := on(ctx, spec); err != nil {
			return err
		}
	}
	n.mu.Lock()
	n.end(spec.Sandbox)
	n.restored[spec.Sandbox] = spec.Source
	n.mu.Unlock()
	if mid != nil {
		if err := mid(ctx, spec); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return core.Wrap(core.CodeCanceled, ctx.Err(), "canceled")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running[spec.Sandbox], n.reserved[spec.Sandbox] = spec, spec.Resources
	n.guests[spec.Sandbox] = newGuest()
	return nil
}

// setRestore scripts Restore.
func (n *node) setRestore(on, mid func(ctx context.Context, spec core.NodeSpec) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.onRestore, n.midRestore = on, mid
}

// endSilently ends a machine with nobody there to see it.
func (n *node) endSilently(id core.SandboxID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.end(id)
}

// filesOf is what a sandbox's files were last restored to.
func (n *node) filesOf(id core.SandboxID) core.TreeSource {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.restored[id]
}

func (w *world) restore(sb core.Sandbox, spec control.RestoreSpec) (control.Restored, error) {
	w.clock.advance(time.Millisecond)
	return w.svc.RestoreSandbox(context.Background(), alice, string(sb.ID), spec)
}

func TestRestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{Name: "box", Env: map[string]string{"a": "b"}, TTL: time.Hour})
	e, _, err := w.svc.Exec(t.Context(), alice, "box", core.ExecSpec{Shell: "x", Detach: true})
	if err != nil {
		t.Fatal(err)
	}
	first := w.save(sb, core.CheckpointSpec{Comment: "first"})
	second := w.save(sb, core.CheckpointSpec{Comment: "second"})
	res, err := w.restore(sb, control.RestoreSpec{Checkpoint: first.ID})
	if err != nil {
		t.Fatal(err)
	}
	got := res.Sandbox
	if got.ID != sb.ID || got.State != core.StateRunning || got.Operation != core.OpNone || got.OperationArg != "" || got.Incarnation != 2 ||
		got.Head != first.ID || !got.ExpiresAt.Equal(sb.ExpiresAt) || got.Name != "box" {
		t.Errorf("restored it is %+v", got)
	}
	if from := w.node.filesOf(sb.ID); from != (core.TreeSource{Checkpoint: first.ID}) {
		t.Errorf("its files are those of %+v", from)
	}
	if spec := w.node.running[sb.ID]; spec.Incarnation != 2 || spec.Hostname != "box" || spec.Env["a"] != "b" || spec.Config.User != "root" {
		t.Errorf("the node was told %+v", spec)
	}
	saved, err := w.svc.GetCheckpoint(t.Context(), alice, res.Saved)
	if err != nil || saved.Cause != core.CauseRestore || saved.Parent != second.ID {
		t.Errorf("what was replaced is saved as %+v, %v", saved, err)
	}
	w.endedInStore(sb, e.ID, core.OutcomeLost)
	if next := w.save(sb, core.CheckpointSpec{}); next.Parent != first.ID {
		t.Errorf("the next checkpoint's parent is %s, want %s", next.Parent, first.ID)
	}
	// Back again, to what was replaced, and then to how it was made, keeping nothing.
	if res, err = w.restore(sb, control.RestoreSpec{Checkpoint: res.Saved}); err != nil || res.Sandbox.Head != saved.ID || res.Sandbox.Incarnation != 3 {
		t.Errorf("%+v, %v", res, err)
	}
	res, err = w.svc.ResetSandbox(t.Context(), alice, "box", control.RestoreSpec{Discard: true})
	if err != nil || res.Saved != "" || res.Sandbox.Head != "" || w.node.filesOf(sb.ID) != (core.TreeSource{Template: sb.Template}) {
		t.Errorf("reset: %+v of %+v, %v", res, w.node.filesOf(sb.ID), err)
	}
	// What was made from a checkpoint is reset to that, and may go back to it by its name.
	child := w.create(core.SandboxSpec{From: first.ID})
	for range 2 {
		if res, err = w.svc.ResetSandbox(t.Context(), alice, string(child.ID), control.RestoreSpec{}); err != nil {
			t.Fatal(err)
		}
		if w.node.filesOf(child.ID) != (core.TreeSource{Checkpoint: first.ID}) || res.Sandbox.Head != first.ID {
			t.Errorf("its files are those of %+v, and it is %+v", w.node.filesOf(child.ID), res.Sandbox)
		}
	}
	if _, err = w.restore(child, control.RestoreSpec{Checkpoint: first.ID}); err != nil {
		t.Error(err)
	}
	if err := w.svc.DeleteCheckpoint(t.Context(), alice, first.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.svc.ResetSandbox(t.Context(), alice, string(child.ID), control.RestoreSpec{})
	wantCode(t, err, core.CodeConflict)
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(child.ID)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child is gone", func() bool { return w.node.count() == 1 })
	if got := w.life(sb.ID); got != "creating, running"+strings.Repeat(", restoring, restored", 3) {
		t.Errorf("events: %s", got)
	}
	if w.node.count() != 1 || w.node.reservations() != 1 {
		t.Errorf("%d run, %d are promised", w.node.count(), w.node.reservations())
	}
}

func TestRestoreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb, other := w.create(core.SandboxSpec{Name: "a"}), w.create(core.SandboxSpec{Name: "b"})
	mine, theirs := w.save(sb, core.CheckpointSpec{}), w.save(other, core.CheckpointSpec{})
	refused := func(want core.Code, field string, spec control.RestoreSpec) {
		t.Helper()
		_, err := w.restore(sb, spec)
		if e := wantCode(t, err, want); e.Field != field {
			t.Errorf("it blames %q: %v", e.Field, err)
		}
	}
	refused(core.CodeInvalid, "checkpoint_id", control.RestoreSpec{})
	refused(core.CodeNotFound, "checkpoint_id", control.RestoreSpec{Checkpoint: "nothing"})
	refused(core.CodeInvalid, "checkpoint_id", control.RestoreSpec{Checkpoint: theirs.ID})
	_, err := w.svc.RestoreSandbox(t.Context(), bob, string(sb.ID), control.RestoreSpec{Checkpoint: mine.ID})
	wantCode(t, err, core.CodeNotFound)
	_, err = w.svc.RestoreSandbox(t.Context(), w.open(sb), string(sb.ID), control.RestoreSpec{Checkpoint: mine.ID})
	wantCode(t, err, core.CodeDenied)
	// What can't be saved is not replaced.
	w.node.setCheckpoint(func(context.Context, core.CheckpointID, core.SandboxID) error {
		return core.Errorf(core.CodeExhausted, "the disk is full")
	}, nil)
	refused(core.CodeExhausted, "", control.RestoreSpec{Checkpoint: mine.ID})
	w.wantState(sb.ID, core.StateRunning)
	if got := w.lookUp(sb.ID); got.Incarnation != 1 || w.node.filesOf(sb.ID) != (core.TreeSource{}) {
		t.Errorf("it is %+v", got)
	}
	w.wantSettled(2)
}

// TestRestoreOfStopped: it is woken by it, if there is room.
func TestRestoreOfStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	c := w.save(sb, core.CheckpointSpec{})
	w.stop(sb)
	w.node.max = 0
	_, err := w.restore(sb, control.RestoreSpec{Checkpoint: c.ID})
	wantCode(t, err, core.CodeExhausted)
	w.wantState(sb.ID, core.StateStopped)
	w.wantSettled(1)
	w.node.max = 1
	w.node.setCheckpoint(func(context.Context, core.CheckpointID, core.SandboxID) error {
		return core.Errorf(core.CodeInternal, "no")
	}, nil)
	_, err = w.restore(sb, control.RestoreSpec{Checkpoint: c.ID})
	wantCode(t, err, core.CodeInternal)
	if w.node.reservations() != 0 {
		t.Error("what was promised for it is not given back")
	}
	res, err := w.restore(sb, control.RestoreSpec{Checkpoint: c.ID, Discard: true})
	if err != nil || res.Sandbox.State != core.StateRunning || res.Sandbox.Incarnation != 2 || res.Saved != "" {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestRestoreThatFails: the sandbox goes on if nothing was done, and has failed if something was; then it can be restored again.
func TestRestoreThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	c := w.save(sb, core.CheckpointSpec{})
	broken := func(context.Context, core.NodeSpec) error { return core.Errorf(core.CodeExhausted, "no room") }
	w.node.setRestore(broken, nil)
	_, err := w.restore(sb, control.RestoreSpec{Checkpoint: c.ID, Discard: true})
	wantCode(t, err, core.CodeExhausted)
	w.wantState(sb.ID, core.StateRunning)
	if got := w.lookUp(sb.ID); got.Incarnation != 1 || got.Head != c.ID {
		t.Errorf("it is %+v", got)
	}
	if _, _, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "x", Detach: true}); err != nil {
		t.Errorf("it goes on: %v", err)
	}
	w.node.setRestore(nil, broken)
	_, err = w.restore(sb, control.RestoreSpec{Checkpoint: c.ID})
	wantCode(t, err, core.CodeExhausted)
	w.wantState(sb.ID, core.StateFailed)
	got := w.lookUp(sb.ID)
	if got.Failure != "its restore failed: no room" || w.node.count() != 0 || w.node.reservations() != 0 {
		t.Errorf("it is %+v, and on the node there are %d, %d", got, w.node.count(), w.node.reservations())
	}
	w.wantSettled(2) // what was replaced is kept
	w.node.setRestore(nil, nil)
	if res, err := w.restore(sb, control.RestoreSpec{Checkpoint: c.ID}); err != nil || res.Sandbox.State != core.StateRunning || res.Sandbox.Failure != "" {
		t.Errorf("%+v, %v", res, err)
	}
	if got := w.life(sb.ID); got != "creating, running, restoring, running: its restore failed: no room, restoring, failed: its restore failed: no room, restoring, restored" {
		t.Errorf("events: %s", got)
	}
}

// TestTwoRestoresAtOnce: one wins, and the other is told so.
func TestTwoRestoresAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	list := []core.Checkpoint{w.save(sb, core.CheckpointSpec{}), w.save(sb, core.CheckpointSpec{})}
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	w.node.setCheckpoint(func(context.Context, core.CheckpointID, core.SandboxID) error {
		begun <- struct{}{}
		<-goOn
		return nil
	}, nil)
	errs := make(chan error, 2)
	restore := func(c core.Checkpoint) {
		_, err := w.svc.RestoreSandbox(context.Background(), alice, string(sb.ID), control.RestoreSpec{Checkpoint: c.ID})
		errs <- err
	}
	go restore(list[0])
	<-begun
	go restore(list[1])
	eventually(t, "the second waits", func() bool { return control.CommandsWaiting(w.svc, sb.ID) == 2 })
	close(goOn)
	won, lost := <-errs, <-errs
	if won != nil {
		won, lost = lost, won
	}
	if won != nil || !core.IsCode(lost, core.CodeConflict) {
		t.Errorf("they end with %v and %v", won, lost)
	}
	if from := w.node.filesOf(sb.ID); from.Checkpoint != list[0].ID || w.lookUp(sb.ID).Incarnation != 2 {
		t.Errorf("its files are those of %+v", from)
	}
}

// TestRestoreAndDelete: delete wins.
func TestRestoreAndDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	c := w.save(sb, core.CheckpointSpec{})
	begun := make(chan struct{})
	w.node.setRestore(nil, func(ctx context.Context, _ core.NodeSpec) error {
		close(begun)
		<-ctx.Done()
		return core.Wrap(core.CodeCanceled, ctx.Err(), "canceled")
	})
	done := make(chan error)
	go func() {
		_, err := w.svc.RestoreSandbox(context.Background(), alice, string(sb.ID), control.RestoreSpec{Checkpoint: c.ID})
		done <- err
	}()
	<-begun
	wantCode(t, w.svc.DeleteCheckpoint(t.Context(), alice, c.ID), core.CodeConflict)
	if err := w.svc.DeleteSandboxWithCheckpoints(t.Context(), alice, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, <-done, core.CodeCanceled)
	w.wantSettled(0)
	eventually(t, "nothing of it is left", func() bool { return w.node.count() == 0 && w.node.reservations() == 0 })
}

// TestRestoreCutOff: the next server does it again, or takes it for done, or says that it failed.
func TestRestoreCutOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// leave is what the crash leaves on the node.
		leave func(w *world, sb core.Sandbox)
		mid   func(context.Context, core.NodeSpec) error
		want  core.State
	}{
		"nothing done": {func(*world, core.Sandbox) {}, nil, core.StateRunning},
		"ended":        {func(w *world, sb core.Sandbox) { w.node.endSilently(sb.ID) }, nil, core.StateRunning},
		"done": {func(w *world, sb core.Sandbox) {
			w.node.mu.Lock()
			defer w.node.mu.Unlock()
			spec := w.node.running[sb.ID]
			spec.Incarnation = 2
			w.node.running[sb.ID] = spec
		}, func(context.Context, core.NodeSpec) error {
			return core.Errorf(core.CodeInternal, "it was done already")
		}, core.StateRunning},
		"can't be done": {func(w *world, sb core.Sandbox) { w.node.endSilently(sb.ID) }, func(context.Context, core.NodeSpec) error {
			return core.Errorf(core.CodeDataLoss, "lost")
		}, core.StateFailed},
		"no room": {func(w *world, sb core.Sandbox) {
			w.node.endSilently(sb.ID)
			w.node.max = 0
		}, nil, core.StateFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).start().ready()
			sb := w.create(core.SandboxSpec{})
			cp := w.save(sb, core.CheckpointSpec{})
			w.change(func(tx store.Tx) error {
				now, err := tx.SandboxByID(sb.ID)
				if err != nil {
					return err
				}
				now.Incarnation = 2
				now.Begin(core.OpRestore, w.clock.Now())
				now.OperationArg = string(cp.ID)
				return tx.PutSandbox(now)
			})
			c.leave(w, sb)
			w.node.setRestore(nil, c.mid)
			w.restart()
			eventually(t, fmt.Sprintf("it is %s", c.want), func() bool {
				now := w.lookUp(sb.ID)
				return now.State == c.want && now.Operation == core.OpNone
			})
			now := w.lookUp(sb.ID)
			if c.want == core.StateRunning && (now.Incarnation != 2 || now.Head != cp.ID || w.node.count() != 1) {
				t.Errorf("it is %+v, and %d run", now, w.node.count())
			}
			if c.want == core.StateFailed && (w.node.count() != 0 || w.node.reservations() != 0 || now.Failure == "") {
				t.Errorf("it is %+v, and on the node there are %d, %d", now, w.node.count(), w.node.reservations())
			}
			w.wantSettled(1)
		})
	}
}

func TestRestoreOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	c := w.save(sb, core.CheckpointSpec{})
	spec := control.RestoreSpec{Checkpoint: c.ID, Once: keyed("k")}
	first, err := w.restore(sb, spec)
	if err != nil || spec.Once.Repeated {
		t.Fatalf("%v, repeated %v", err, spec.Once.Repeated)
	}
	again, err := w.restore(sb, spec)
	if err != nil || !spec.Once.Repeated || again.Saved != first.Saved || again.Sandbox.Incarnation != 2 {
		t.Errorf("the repeat has %+v, %v", again, err)
	}
	w.wantSettled(2)
}

// TestRestoreOnceThatFails: a repeat with the key of a restore that failed does it, and is never told that it was done.
func TestRestoreOnceThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	c := w.save(sb, core.CheckpointSpec{})
	broken := func(context.Context, core.NodeSpec) error { return core.Errorf(core.CodeUnavailable, "not now") }
	for _, where := range []string{"before", "after"} {
		spec := control.RestoreSpec{Checkpoint: c.ID, Discard: true, Once: keyed(where)}
		if where == "before" {
			w.node.setRestore(broken, nil)
		} else {
			w.node.setRestore(nil, broken)
		}
		for range 2 {
			_, err := w.restore(sb, spec)
			wantCode(t, err, core.CodeUnavailable)
		}
		w.node.setRestore(nil, nil)
		before := w.lookUp(sb.ID).Incarnation
		res, err := w.restore(sb, spec)
		if err != nil || spec.Once.Repeated || res.Sandbox.Incarnation <= before || res.Sandbox.State != core.StateRunning {
			t.Errorf("%s: %+v, %v", where, res, err)
		}
	}
}

// TestRestoreIsNotForTheDeleted: a restore that a restart does again, and again, ends when its sandbox is deleted.
func TestRestoreIsNotForTheDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	c := w.save(sb, core.CheckpointSpec{})
	w.change(func(tx store.Tx) error {
		now, err := tx.SandboxByID(sb.ID)
		if err != nil {
			return err
		}
		now.Incarnation = 2
		now.Begin(core.OpRestore, w.clock.Now())
		now.OperationArg = string(c.ID)
		return tx.PutSandbox(now)
	})
	w.node.endSilently(sb.ID)
	tried := make(chan struct{}, 8)
	w.node.setRestore(func(context.Context, core.NodeSpec) error {
		tried <- struct{}{}
		return core.Errorf(core.CodeUnavailable, "not now")
	}, nil)
	w.node.onStop = func(context.Context) error { return core.Errorf(core.CodeUnavailable, "it can't be ended") }
	w.restart()
	<-tried
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing of it is left", func() bool {
		w.clock.advance(time.Second)
		return w.node.count() == 0 && w.node.reservations() == 0 && w.lookUp(sb.ID).Operation == core.OpNone
	})
	w.node.setRestore(nil, nil)
	for range 20 { // the next tries, each of which would succeed
		w.clock.advance(time.Minute)
	}
	if w.node.count() != 0 || w.node.filesOf(sb.ID) != (core.TreeSource{}) {
		t.Error("it was brought back")
	}
}

// TestRestoredCheckpointStays: neither its own sandbox's delete nor a call takes away what another sandbox is being restored to.
func TestRestoredCheckpointStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	c := w.save(sb, core.CheckpointSpec{Comment: "kept"})
	child := w.create(core.SandboxSpec{From: c.ID})
	begun, goOn := make(chan struct{}), make(chan struct{})
	w.node.setRestore(nil, func(context.Context, core.NodeSpec) error {
		close(begun)
		<-goOn
		return nil
	})
	done := make(chan error)
	go func() {
		_, err := w.svc.ResetSandbox(context.Background(), alice, string(child.ID), control.RestoreSpec{Discard: true})
		done <- err
	}()
	<-begun
	wantCode(t, w.svc.DeleteCheckpoint(t.Context(), alice, c.ID), core.CodeConflict)
	if err := w.svc.DeleteSandboxWithCheckpoints(t.Context(), alice, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := w.savedOf(""); got != "kept" {
		t.Errorf("listed are %q", got)
	}
}

// TestReplacedAreFew: of what restores replace the newest are kept, and never is the one deleted that is being restored.
func TestReplacedAreFew(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	c := w.save(sb, core.CheckpointSpec{})
	first, err := w.restore(sb, control.RestoreSpec{Checkpoint: c.ID})
	if err != nil {
		t.Fatal(err)
	}
	for range 9 {
		if _, err := w.restore(sb, control.RestoreSpec{Checkpoint: c.ID}); err != nil {
			t.Fatal(err)
		}
	}
	w.wantSettled(11)
	if _, err := w.restore(sb, control.RestoreSpec{Checkpoint: first.Saved}); err != nil {
		t.Errorf("the oldest can't be restored: %v", err)
	}
	w.wantSettled(11)
	if _, err := w.svc.GetCheckpoint(t.Context(), alice, c.ID); err != nil {
		t.Errorf("one that a call made went: %v", err)
	}
}
