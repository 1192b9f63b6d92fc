package control_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// stop stops a sandbox at once.
func (w *world) stop(sb core.Sandbox) core.Sandbox {
	w.t.Helper()
	got, err := w.svc.StopSandbox(w.t.Context(), alice, string(sb.ID), 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func (w *world) wake(sb core.Sandbox) core.Sandbox {
	w.t.Helper()
	got, err := w.svc.WakeSandbox(w.t.Context(), alice, string(sb.ID))
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// lookUp returns a sandbox's record.
func (w *world) lookUp(id core.SandboxID) (sb core.Sandbox) {
	w.t.Helper()
	err := w.store.View(context.Background(), func(r store.Reader) (err error) {
		sb, err = r.SandboxByID(id)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return sb
}

// wantState asserts a sandbox's state, and that nothing is under way.
func (w *world) wantState(id core.SandboxID, want core.State) {
	w.t.Helper()
	if sb := w.lookUp(id); sb.State != want || sb.Operation != core.OpNone {
		w.t.Errorf("it is %s with %q under way, want %s", sb.State, sb.Operation, want)
	}
}

// life returns the events of the sandbox itself, without their common prefix, with their reasons.
func (w *world) life(id core.SandboxID) string {
	w.t.Helper()
	list, _, err := w.svc.Events(w.t.Context(), alice, string(id), 0, 1000, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		if e.Type.OfSandbox() {
			out = append(out, strings.TrimSuffix(strings.TrimPrefix(string(e.Type), "sandbox.")+": "+e.Data["reason"], ": "))
		}
	}
	return strings.Join(out, ", ")
}

// reservations counts what the node has promised.
func (n *node) reservations() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.reserved)
}

// asked is how often the node was told to stop and to wake.
func (n *node) asked() (stops, wakes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stops, n.wakes
}

func TestStopAndWake(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{Name: "box", Env: map[string]string{"a": "b"}})
	w.clock.advance(time.Minute)
	stopped := w.stop(sb)
	if stopped.State != core.StateStopped || stopped.Operation != core.OpNone || stopped.Incarnation != 1 || !stopped.StateSince.Equal(w.clock.Now()) {
		t.Errorf("stopped it is %+v", stopped)
	}
	if w.node.count() != 0 || w.node.reservations() != 0 {
		t.Error("something of it is left on the node")
	}
	for name, call := range map[string]func() error{
		"exec": func() error {
			_, _, err := w.svc.Exec(t.Context(), alice, "box", core.ExecSpec{Shell: "x"})
			return err
		},
		"files":   func() error { _, err := w.svc.Files(t.Context(), alice, "box"); return err },
		"metrics": func() error { _, err := w.svc.Metrics(t.Context(), alice, "box"); return err },
	} {
		if e := wantCode(t, call(), core.CodeConflict); !strings.Contains(e.Message, "stopped: wake it first") {
			t.Errorf("%s: it says %q", name, e.Message)
		}
	}
	r, err := w.svc.ReadFiles(t.Context(), alice, "box")
	if err != nil {
		t.Fatal(err)
	}
	if _, body, err := r.ReadFile(t.Context(), "/f", 0, -1); err != nil {
		t.Error(err)
	} else {
		_ = body.Close()
	}
	if again := w.stop(sb); again.State != core.StateStopped {
		t.Errorf("stopped again it is %s", again.State)
	}
	w.clock.advance(time.Minute)
	awake := w.wake(sb)
	if awake.State != core.StateRunning || awake.Incarnation != 2 || !awake.StateSince.Equal(w.clock.Now()) ||
		!awake.ExpiresAt.Equal(sb.ExpiresAt) || !awake.StartedAt.Equal(sb.StartedAt) {
		t.Errorf("awake it is %+v", awake)
	}
	if spec := w.node.running[sb.ID]; spec.Incarnation != 2 || spec.Hostname != "box" || spec.Env["a"] != "b" || spec.Config.User != "root" {
		t.Errorf("the node was told %+v", spec)
	}
	if again := w.wake(sb); again.Incarnation != 2 {
		t.Errorf("woken again it is at incarnation %d", again.Incarnation)
	}
	if stops, wakes := w.node.asked(); stops != 1 || wakes != 1 {
		t.Errorf("the node was told to stop %d and to wake %d times", stops, wakes)
	}
	if _, _, err := w.svc.Exec(t.Context(), alice, "box", core.ExecSpec{Shell: "x", Detach: true}); err != nil {
		t.Error(err)
	}
	if got := w.life(sb.ID); got != "creating, running, stopping, stopped, waking, running" {
		t.Errorf("events: %s", got)
	}
}

func TestStopCounts(t *testing.T) {
	inTime(t, func(w *world) {
		sb := w.create(core.SandboxSpec{Persistent: true})
		w.pass(10 * time.Second)
		w.stop(sb)
		w.pass(20 * time.Second)
		w.wantUsed(sb, 10, 30)
		w.wake(sb)
		w.pass(5 * time.Second)
		w.wantUsed(sb, 15, 35)
	})
}

// TestStopEndsExecs: what ends in the grace has the outcome that it had, what was killed for good is lost if nobody learned more.
func TestStopEndsExecs(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	e, stream, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "x", TTY: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	g := w.node.guest(sb.ID)
	if _, err := w.svc.StopSandbox(t.Context(), alice, string(sb.ID), time.Minute); err != nil {
		t.Fatal(err)
	}
	got, err := w.svc.GetExec(t.Context(), alice, string(sb.ID), e.ID)
	if err != nil || got.Outcome != core.OutcomeSignaled || got.Signal != "SIGTERM" {
		t.Errorf("the exec is %+v, %v", got, err)
	}
	if len(g.signals) == 0 || g.signals[0] != "SIGTERM" || len(g.signals) > 1 && g.signals[1] != "SIGHUP" {
		t.Errorf("signals %v", g.signals)
	}

	w.wake(sb)
	g = w.node.guest(sb.ID)
	g.deaf = true
	e, _, err = w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "x", Detach: true})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := w.svc.StopSandbox(context.Background(), alice, string(sb.ID), time.Minute)
		done <- err
	}()
	eventually(t, "it is asked to end", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return len(g.signals) > 0 })
	if now := w.lookUp(sb.ID); now.State != core.StateRunning || now.Operation != core.OpStop {
		t.Errorf("in its grace it is %s with %q under way", now.State, now.Operation)
	}
	select {
	case err := <-done:
		t.Fatalf("it was not given its grace: %v", err)
	default:
	}
	eventually(t, "the grace is over", func() bool {
		w.clock.advance(10 * time.Second)
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return true
		default:
			return false
		}
	})
	if last := g.signals[len(g.signals)-1]; last != "SIGKILL" {
		t.Errorf("signals %v", g.signals)
	}
	if got, err := w.svc.GetExec(t.Context(), alice, string(sb.ID), e.ID); err != nil || got.Outcome == core.OutcomeRunning {
		t.Errorf("the exec is %+v, %v", got, err)
	}
	for _, bad := range []time.Duration{-1, control.MaxGrace + 1} {
		_, err := w.svc.StopSandbox(t.Context(), alice, string(sb.ID), bad)
		wantCode(t, err, core.CodeInvalid)
	}
}

// TestStopLosesExecs: an exec that the guest agent says nothing of ends as lost, with the event.
func TestStopLosesExecs(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	e, _, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "x", Detach: true})
	if err != nil {
		t.Fatal(err)
	}
	g := w.node.guest(sb.ID)
	eventually(t, "it is on record that it runs", func() bool { return strings.Contains(w.execEvents(sb), "exec.started") })
	g.mu.Lock()
	g.silent = true
	g.mu.Unlock()
	w.stop(sb)
	got, err := w.svc.GetExec(t.Context(), alice, string(sb.ID), e.ID)
	if err != nil || got.Outcome != core.OutcomeLost {
		t.Errorf("the exec is %+v, %v", got, err)
	}
	if got := w.execEvents(sb); got != "exec.started, exec.ended lost" {
		t.Errorf("events: %s", got)
	}
}

// TestWakeWaitsForStop: a wake during a stop waits for it and then wakes; so does whatever needs processes.
func TestWakeWaitsForStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	begun, goOn := make(chan struct{}), make(chan struct{})
	w.node.onStop = func(context.Context) error { close(begun); <-goOn; return nil }
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = w.svc.StopSandbox(context.Background(), alice, string(sb.ID), 0) })
	<-begun
	w.node.onStop = nil
	var awake core.Sandbox
	var err, execErr error
	wg.Go(func() { awake, err = w.svc.WakeSandbox(context.Background(), alice, string(sb.ID)) })
	eventually(t, "it waits", func() bool { return control.CommandsWaiting(w.svc, sb.ID) == 2 })
	wg.Go(func() {
		_, _, execErr = w.svc.Exec(context.Background(), alice, string(sb.ID), core.ExecSpec{Shell: "x", Detach: true})
	})
	close(goOn)
	wg.Wait()
	if err != nil || awake.State != core.StateRunning || awake.Incarnation != 2 {
		t.Errorf("awake it is %+v, %v", awake, err)
	}
	if execErr != nil && core.CodeOf(execErr) != core.CodeConflict { // it may have looked between the two
		t.Errorf("an exec: %v", execErr)
	}
	w.wantState(sb.ID, core.StateRunning)
}

// TestManyStopsAndWakes: whatever comes at once, one at a time is done, and record and node agree in the end.
func TestManyStopsAndWakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{Persistent: true})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			var err error
			switch i % 3 {
			case 0:
				_, err = w.svc.StopSandbox(context.Background(), alice, string(sb.ID), 0)
			case 1:
				_, err = w.svc.WakeSandbox(context.Background(), alice, string(sb.ID))
			default:
				_, _, err = w.svc.Exec(context.Background(), alice, string(sb.ID), core.ExecSpec{Shell: "x", Detach: true})
				if c := core.CodeOf(err); c == core.CodeConflict || c == core.CodeUnavailable {
					err = nil
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.stop(sb)
	if w.node.count() != 0 || w.node.reservations() != 0 {
		t.Error("something of it is left on the node")
	}
	err := w.store.View(t.Context(), func(r store.Reader) error {
		open, err := r.OpenExecs(sb.ID)
		if len(open) != 0 {
			t.Errorf("%d execs have no end", len(open))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestDeleteWinsOverStopAndWake: a delete ends both, whoever asked for them learns of it, and nothing is left.
func TestDeleteWinsOverStopAndWake(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(w *world, sb core.Sandbox, begun chan struct{}) (call func() error){
		"grace": func(w *world, sb core.Sandbox, begun chan struct{}) func() error {
			g := w.node.guest(sb.ID)
			g.deaf = true
			if _, _, err := w.svc.Exec(context.Background(), alice, string(sb.ID), core.ExecSpec{Shell: "x", Detach: true}); err != nil {
				w.t.Fatal(err)
			}
			return func() error {
				go func() {
					eventually(w.t, "it is asked to end", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return len(g.signals) > 0 })
					close(begun)
				}()
				_, err := w.svc.StopSandbox(context.Background(), alice, string(sb.ID), time.Minute)
				return err
			}
		},
		"stop": func(w *world, sb core.Sandbox, begun chan struct{}) func() error {
			w.node.onStop = func(ctx context.Context) error { close(begun); <-ctx.Done(); return nil }
			return func() error { _, err := w.svc.StopSandbox(context.Background(), alice, string(sb.ID), 0); return err }
		},
		"wake": func(w *world, sb core.Sandbox, begun chan struct{}) func() error {
			w.stop(sb)
			w.node.onWake = func(ctx context.Context, _ core.NodeSpec) error { close(begun); <-ctx.Done(); return nil }
			return func() error { _, err := w.svc.WakeSandbox(context.Background(), alice, string(sb.ID)); return err }
		},
		"woken": func(w *world, sb core.Sandbox, begun chan struct{}) func() error {
			w.stop(sb)
			deleted := make(chan struct{})
			w.node.afterWake = func(core.SandboxID) {
				close(begun)
				eventually(w.t, "it is deleted", func() bool { return w.lookUp(sb.ID).State == core.StateDeleted })
				close(deleted)
			}
			return func() error { _, err := w.svc.WakeSandbox(context.Background(), alice, string(sb.ID)); return err }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).start().ready()
			sb := w.create(core.SandboxSpec{Persistent: true})
			begun := make(chan struct{})
			call := script(w, sb, begun)
			done := make(chan error, 1)
			go func() { done <- call() }()
			<-begun
			if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !core.IsCode(err, core.CodeCanceled) && !core.IsCode(err, core.CodeNotFound) {
				t.Errorf("whoever asked is told %v", err)
			}
			eventually(t, "nothing is left", func() bool {
				return w.node.count() == 0 && w.node.reservations() == 0 && w.lookUp(sb.ID).Operation == core.OpNone
			})
			if got := w.lookUp(sb.ID); got.State != core.StateDeleted {
				t.Errorf("it is %s", got.State)
			}
		})
	}
}

// TestDeleteOfStoppedStartsNothing holds the named promise.
func TestDeleteOfStoppedStartsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	w.stop(sb)
	w.node.onWake = func(context.Context, core.NodeSpec) error { t.Error("it was woken"); return nil }
	w.node.onCreate = func(context.Context, core.NodeSpec) error { t.Error("something was created"); return nil }
	if err := w.svc.DeleteSandbox(t.Context(), alice, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is removed", func() bool { return w.lookUp(sb.ID).Operation == core.OpNone })
	if w.node.deleted[sb.ID] != 1 || w.node.reservations() != 0 {
		t.Error("the node did not remove it")
	}
}

// TestWakeKeepsDeadline: a wake never shortens a deadline, and a failed one never loses it.
func TestWakeKeepsDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{TTL: time.Hour})
	w.stop(sb)
	w.clock.advance(20 * time.Minute)
	w.node.onWake = func(context.Context, core.NodeSpec) error { return core.Errorf(core.CodeUnavailable, "no luck") }
	_, err := w.svc.WakeSandbox(t.Context(), alice, string(sb.ID))
	wantCode(t, err, core.CodeUnavailable)
	w.wantState(sb.ID, core.StateStopped)
	if got := w.lookUp(sb.ID); !got.ExpiresAt.Equal(sb.ExpiresAt) {
		t.Errorf("after a failed wake it ends at %s, want %s", got.ExpiresAt, sb.ExpiresAt)
	}
	if got := w.life(sb.ID); !strings.HasSuffix(got, "waking, stopped: it could not be woken") {
		t.Errorf("events: %s", got)
	}
	if w.node.reservations() != 0 {
		t.Error("its reservation is left")
	}
	w.node.onWake = nil
	if awake := w.wake(sb); !awake.ExpiresAt.Equal(sb.ExpiresAt) {
		t.Errorf("after a wake it ends at %s, want %s", awake.ExpiresAt, sb.ExpiresAt)
	}
	w.stop(sb)
	w.clock.advance(40*time.Minute + time.Second)
	eventually(t, "its ttl ends it while it is stopped", func() bool { return w.lookUp(sb.ID).State == core.StateDeleted })
	if _, wakes := w.node.asked(); wakes != 2 {
		t.Errorf("it was woken %d times", wakes)
	}
}

// TestStopThatCantBegin leaves the sandbox running, as when the disk is full.
func TestStopThatCantBegin(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	w.node.onStop = func(context.Context) error { return core.Errorf(core.CodeExhausted, "the server's disk is full") }
	_, err := w.svc.StopSandbox(t.Context(), alice, string(sb.ID), 0)
	wantCode(t, err, core.CodeExhausted)
	w.wantState(sb.ID, core.StateRunning)
	if got := w.life(sb.ID); !strings.HasSuffix(got, "stopping, running: it could not be stopped") {
		t.Errorf("events: %s", got)
	}
	w.node.onStop = nil
	w.stop(sb)
}

// TestStopThatIsCutOff goes on by itself.
func TestStopThatIsCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	tries := 0
	w.node.onStop = func(context.Context) error {
		if tries++; tries < 3 {
			w.node.mu.Lock()
			delete(w.node.guests, sb.ID)
			w.node.mu.Unlock()
			return core.Errorf(core.CodeUnavailable, "the kernel doesn't let go")
		}
		return nil
	}
	_, err := w.svc.StopSandbox(t.Context(), alice, string(sb.ID), 0)
	wantCode(t, err, core.CodeUnavailable)
	eventually(t, "it is stopped", func() bool {
		w.clock.advance(time.Minute)
		return w.lookUp(sb.ID).State == core.StateStopped
	})
	w.wantState(sb.ID, core.StateStopped)
}

// TestStoppedNeedsNoQuota: what is stopped counts to the number and the disk, not to vcpus and memory, and a wake asks again.
func TestStoppedNeedsNoQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	memory := int64(1024 * mib)
	w.quota = core.Quota{MemoryBytes: &memory}
	w.start().ready()
	first, second := w.create(core.SandboxSpec{}), w.create(core.SandboxSpec{})
	_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{})
	wantCode(t, err, core.CodeQuota)
	w.stop(first)
	third := w.create(core.SandboxSpec{})
	_, err = w.svc.WakeSandbox(t.Context(), alice, string(first.ID))
	wantCode(t, err, core.CodeQuota)
	w.wantState(first.ID, core.StateStopped)
	if got := w.node.reservations(); got != 2 {
		t.Errorf("%d reservations", got)
	}
	w.stop(second)
	// A wake under way counts as well.
	begun, goOn := make(chan struct{}), make(chan struct{})
	w.node.onWake = func(context.Context, core.NodeSpec) error { close(begun); <-goOn; return nil }
	done := make(chan error, 1)
	go func() { _, err := w.svc.WakeSandbox(context.Background(), alice, string(first.ID)); done <- err }()
	<-begun
	_, err = w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{})
	wantCode(t, err, core.CodeQuota)
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = third
}

// TestFailedCanBeStopped: a stop keeps the files of one that failed, and a wake starts it anew.
func TestFailedCanBeStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	w.node.crash(sb.ID)
	eventually(t, "it has failed", func() bool { return w.lookUp(sb.ID).State == core.StateFailed })
	_, err := w.svc.WakeSandbox(t.Context(), alice, string(sb.ID))
	if e := wantCode(t, err, core.CodeConflict); !strings.Contains(e.Message, "stop it first") {
		t.Errorf("it says %q", e.Message)
	}
	if got := w.stop(sb); got.State != core.StateStopped || got.Failure != "" {
		t.Errorf("stopped it is %+v", got)
	}
	w.wake(sb)
	w.wantState(sb.ID, core.StateRunning)
}

// TestMachineEndsRightAfterWake: what ends before it is on record that it runs has failed.
func TestMachineEndsRightAfterWake(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	w.stop(sb)
	w.node.afterWake = w.node.crash
	_, err := w.svc.WakeSandbox(t.Context(), alice, string(sb.ID))
	wantCode(t, err, core.CodeUnavailable)
	eventually(t, "it has failed", func() bool { return w.lookUp(sb.ID).State == core.StateFailed })
}

// TestRestartFinishesStopAndUndoesWake: after a crash a sandbox is in one of the two states.
func TestRestartFinishesStopAndUndoesWake(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		state core.State
		op    core.OperationKind
		runs  bool
		want  core.State
	}{
		"stop, runs":  {core.StateRunning, core.OpStop, true, core.StateStopped},
		"stop, ended": {core.StateRunning, core.OpStop, false, core.StateStopped},
		"wake, runs":  {core.StateStopped, core.OpWake, true, core.StateRunning},
		"wake, not":   {core.StateStopped, core.OpWake, false, core.StateStopped},
		"stop failed": {core.StateFailed, core.OpStop, false, core.StateStopped},
		"stopped":     {core.StateStopped, core.OpNone, false, core.StateStopped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).start().ready()
			sb := w.create(core.SandboxSpec{Persistent: true})
			_ = w.svc.Close()
			w.change(func(tx store.Tx) error {
				got, err := tx.SandboxByID(sb.ID)
				if err != nil {
					return err
				}
				got.State, got.Operation, got.OperationSince = tc.state, tc.op, w.clock.Now()
				return tx.PutSandbox(got)
			})
			if !tc.runs {
				w.node.mu.Lock()
				w.node.end(sb.ID)
				w.node.mu.Unlock()
			}
			w.start()
			eventually(t, "it is settled", func() bool { return w.lookUp(sb.ID).Operation == core.OpNone })
			w.wantState(sb.ID, tc.want)
			if runs := w.node.count() == 1; runs != (tc.want == core.StateRunning) {
				t.Errorf("%d machines run", w.node.count())
			}
			if tc.want == core.StateStopped {
				w.wake(sb)
			}
		})
	}
}

// TestStartWithoutLuck: a sandbox that can't be reclaimed keeps nothing else from starting, and is tried again.
func TestStartWithoutLuck(t *testing.T) {
	t.Parallel()
	for op, state := range map[core.OperationKind]core.State{core.OpWake: core.StateStopped, core.OpStop: core.StateRunning} {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).start().ready()
			sb := w.create(core.SandboxSpec{Persistent: true})
			w.stop(sb)
			_ = w.svc.Close()
			w.change(func(tx store.Tx) error {
				got, err := tx.SandboxByID(sb.ID)
				if err != nil {
					return err
				}
				got.State = state
				got.Begin(op, w.clock.Now())
				return tx.PutSandbox(got)
			})
			w.node.stopBy(func(context.Context) error { return core.Errorf(core.CodeUnavailable, "the kernel doesn't let go") })
			w.start()
			other := w.create(core.SandboxSpec{})
			if now := w.lookUp(sb.ID); now.Operation != op {
				t.Errorf("it is %s with %q under way", now.State, now.Operation)
			}
			w.node.stopBy(nil)
			eventually(t, "it is settled", func() bool {
				w.clock.advance(time.Second)
				return w.lookUp(sb.ID).Operation == core.OpNone
			})
			w.wantState(sb.ID, core.StateStopped)
			w.wantState(other.ID, core.StateRunning)
		})
	}
}

// TestStartDoesNotWait: a stop that takes long doesn't keep the server from serving.
func TestStartDoesNotWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{Persistent: true})
	_ = w.svc.Close()
	w.change(func(tx store.Tx) error {
		got, err := tx.SandboxByID(sb.ID)
		if err != nil {
			return err
		}
		got.Begin(core.OpStop, w.clock.Now())
		return tx.PutSandbox(got)
	})
	goOn := make(chan struct{})
	w.node.stopBy(func(context.Context) error { <-goOn; return nil })
	w.start()
	w.create(core.SandboxSpec{})
	close(goOn)
	eventually(t, "it is stopped", func() bool { return w.lookUp(sb.ID).Operation == core.OpNone })
	w.wantState(sb.ID, core.StateStopped)
}

// TestReboot: what a node's restart has ended is stopped if it is to be kept, and has failed otherwise.
func TestReboot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.boot = "one"
	w.start().ready()
	kept, brief := w.create(core.SandboxSpec{Persistent: true}), w.create(core.SandboxSpec{})
	e, _, err := w.svc.Exec(t.Context(), alice, string(kept.ID), core.ExecSpec{Shell: "x", Detach: true})
	if err != nil {
		t.Fatal(err)
	}
	endAll := func() {
		_ = w.svc.Close()
		for _, sb := range []core.Sandbox{kept, brief} {
			w.node.mu.Lock()
			w.node.end(sb.ID)
			w.node.mu.Unlock()
		}
	}
	endAll()
	w.clock.advance(10 * time.Minute)
	w.boot = "two"
	w.start()
	w.wantState(kept.ID, core.StateStopped)
	w.wantState(brief.ID, core.StateFailed)
	if got := w.lookUp(brief.ID).Failure; got != "the machine that it ran on was restarted" {
		t.Errorf("it failed since %s", got)
	}
	if got, err := w.svc.GetExec(t.Context(), alice, string(kept.ID), e.ID); err != nil || got.Outcome != core.OutcomeLost {
		t.Errorf("the exec is %+v, %v", got, err)
	}
	if u := w.used(kept); u.AwakeMillis > time.Minute.Milliseconds() {
		t.Errorf("the time in which the machine was down counts: %d ms", u.AwakeMillis)
	}
	w.wake(kept)
	// In the same boot, a machine that is gone has failed.
	endAll()
	w.start()
	w.wantState(kept.ID, core.StateFailed)
}

// TestResizeStopped: a change of limits of one that is stopped takes nothing on the node, and holds from its next start on.
func TestResizeStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	memory := int64(1024 * mib)
	w.quota = core.Quota{MemoryBytes: &memory}
	w.start().ready()
	sb := w.create(core.SandboxSpec{})
	w.stop(sb)
	other := w.create(core.SandboxSpec{})
	w.node.onResize = func(context.Context, core.Resources, bool) error {
		t.Error("the node was asked")
		return nil
	}
	got, err := w.resize(sb, core.Resources{MemoryBytes: 1024 * mib, VCPUs: 2})
	if err != nil || got.Resources.MemoryBytes != 1024*mib || got.Operation != core.OpNone || got.State != core.StateStopped {
		t.Fatalf("it is %+v, %v", got, err)
	}
	if n := w.node.reservations(); n != 1 {
		t.Errorf("%d reservations", n)
	}
	_, err = w.svc.WakeSandbox(t.Context(), alice, string(sb.ID))
	wantCode(t, err, core.CodeQuota)
	w.stop(other)
	w.wake(sb)
	want := got.Resources
	w.holds(sb, want)
}

// TestStopAgainSooner: who asks again with a shorter grace need not wait for the longer one.
func TestStopAgainSooner(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{})
	g := w.node.guest(sb.ID)
	g.deaf = true
	if _, _, err := w.svc.Exec(t.Context(), alice, string(sb.ID), core.ExecSpec{Shell: "x", Detach: true}); err != nil {
		t.Fatal(err)
	}
	first := make(chan error, 1)
	go func() {
		_, err := w.svc.StopSandbox(context.Background(), alice, string(sb.ID), time.Minute)
		first <- err
	}()
	eventually(t, "the grace has begun", func() bool { return control.GracesUnderWay(w.svc) == 1 })
	w.stop(sb)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if stops, _ := w.node.asked(); stops != 1 {
		t.Errorf("the node was told to stop it %d times", stops)
	}
}
