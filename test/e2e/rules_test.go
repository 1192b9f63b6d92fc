package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// state waits until a sandbox is in a state, with nothing under way.
func (e env) state(t *testing.T, id string, want shoal.SandboxState) (sb shoal.Sandbox) {
	t.Helper()
	harness.Eventually(t, 40*time.Second, "the sandbox is "+string(want), func() (err error) {
		if sb, err = e.Client.Sandboxes().Get(ctx(t), id); err == nil && (sb.State != want || sb.Operation != "") {
			err = fmt.Errorf("it is %s with %q under way", sb.State, sb.Operation)
		}
		return err
	})
	return sb
}

// ends returns the events that tell of a state which a rule has brought about.
func (e env) ends(t *testing.T, id string, what string) (list []shoal.Event) {
	t.Helper()
	events, err := e.Client.Events().List(ctx(t), shoal.EventsOptions{Sandbox: id, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events.Events {
		if ev.Type == what {
			list = append(list, ev)
		}
	}
	return list
}

// passes waits until a moment has passed.
func passes(t *testing.T, at time.Time) {
	t.Helper()
	harness.Eventually(t, time.Minute, "time passes", func() error {
		if left := time.Until(at); left > 0 {
			return fmt.Errorf("%s left", left)
		}
		return nil
	})
}

// testIdleStops has a sandbox stopped when it is idle, wakes it, keeps it in use for longer than its rule while the server is killed, and has
// it stopped again; then it is deleted for having been stopped.
func testIdleStops(t *testing.T, e env) {
	idle, seconds := int64(3), 3*time.Second
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Name: "sleeper", Persistent: true, IdleSeconds: &idle, OnIdle: "stop"})
	e.Out(t, sb.ID, "echo kept >/root/kept && sync")
	x, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Shell: "sleep 600", Tag: "silent"})
	if err != nil {
		t.Fatal(err)
	}
	used := time.Now()
	why, err := e.Client.Sandboxes().Why(ctx(t), sb.ID)
	if err != nil || len(why.Rules) != 1 || why.Rules[0].DueAt.IsZero() || why.LostByStop.Execs != 1 || why.Costs.MemoryBytes != sb.MemoryBytes {
		t.Errorf("while it runs: %+v, %v", why, err)
	}
	got := e.state(t, sb.ID, "stopped")
	if stops := e.ends(t, sb.ID, "sandbox.stopped"); len(stops) != 1 || stops[0].Actor.ID != "idle" || stops[0].At.Sub(used) < seconds-100*time.Millisecond {
		t.Errorf("it was last used at %v, and stopped by %+v", used, stops)
	}
	if end, err := e.Client.Execs(sb.ID).Get(ctx(t), x.ID); err != nil || end.Running {
		t.Errorf("its exec: %+v, %v", end, err)
	}
	for _, p := range harness.Processes(e.Dir) {
		if strings.Contains(p.Command, sb.ID) {
			t.Errorf("process %d is left: %s", p.PID, p.Command)
		}
	}
	why, err = e.Client.Sandboxes().Why(ctx(t), sb.ID)
	if err != nil || why.Costs.MemoryBytes != 0 || why.Costs.VCPUs != 0 || why.Rules[0].Waiting != "nothing_to_do" || !why.StateSince.Equal(got.StateSince) {
		t.Errorf("while it sleeps: %+v, %v", why, err)
	}

	if _, err := e.Client.Sandboxes().Wake(ctx(t), sb.ID); err != nil {
		t.Fatal(err)
	}
	if text := e.Out(t, sb.ID, "cat /root/kept"); text != "kept\n" {
		t.Errorf("its file says %q", text)
	}
	stream, err := e.Client.Execs(sb.ID).Stream(ctx(t), shoal.ExecRequest{Shell: "sleep 600"})
	if err != nil {
		t.Fatal(err)
	}
	passes(t, time.Now().Add(seconds+time.Second))
	e.state(t, sb.ID, "running")
	if why, err := e.Client.Sandboxes().Why(ctx(t), sb.ID); err != nil || len(why.Uses) == 0 || why.Uses[0].What != "exec_stream" || why.Rules[0].Waiting != "in_use" {
		t.Errorf("while it is used: %+v, %v", why, err)
	}
	e.Kill()
	used = time.Now()
	_ = stream.Close()
	e.Restart(harness.Options{})
	got = e.state(t, sb.ID, "stopped")
	if got.StateSince.Sub(used) < seconds {
		t.Errorf("it was used until %v, and is stopped since %v", used, got.StateSince)
	}
	short := []shoal.LifecycleRule{{On: "time_in_state", AfterSeconds: 2, State: "stopped", Action: "delete"}}
	if _, err := e.Client.Sandboxes().Update(ctx(t), sb.ID, shoal.UpdateSandboxRequest{Rules: &short}); err != nil {
		t.Fatal(err)
	}
	e.nothingLeft(t, sb.ID)
	if ends := e.ends(t, sb.ID, "sandbox.deleted"); len(ends) != 1 || ends[0].Actor.ID != "time_in_state" || ends[0].At.Sub(got.StateSince) < 2*time.Second {
		t.Errorf("it was stopped at %v, and deleted by %+v", got.StateSince, ends)
	}
}

// testRulesWhileDown has the moment of each kind of rule pass while no server is there.
func testRulesWhileDown(t *testing.T, e env) {
	at := time.Now().Add(4 * time.Second).Truncate(time.Second)
	stopped := e.Sandbox(t, shoal.CreateSandboxRequest{Persistent: true, Rules: []shoal.LifecycleRule{{On: "deadline", At: at, Action: "stop"}}})
	deleted := e.Sandbox(t, shoal.CreateSandboxRequest{Rules: []shoal.LifecycleRule{{On: "deadline", At: at, Action: "stop"}, {On: "deadline", At: at, Action: "delete"}}})
	early := e.Sandbox(t, shoal.CreateSandboxRequest{Persistent: true, Rules: []shoal.LifecycleRule{{On: "deadline", At: at, Action: "stop"}}})
	if _, err := e.Client.Sandboxes().Stop(ctx(t), early.ID, shoal.StopOptions{Grace: new(time.Duration(0))}); err != nil {
		t.Fatal(err)
	}
	e.Kill()
	passes(t, at)
	e.Restart(harness.Options{})
	got := e.state(t, stopped.ID, "stopped")
	if ends := e.ends(t, stopped.ID, "sandbox.stopped"); len(ends) != 1 || ends[0].Actor.ID != "deadline" || got.Rules[0].FiredAt.IsZero() {
		t.Errorf("it was stopped by %+v, its rule is %+v", ends, got.Rules)
	}
	e.nothingLeft(t, deleted.ID)
	if ends := e.ends(t, deleted.ID, "sandbox.stopped"); len(ends) != 0 {
		t.Errorf("it was stopped before it was deleted: %+v", ends)
	}
	// What was stopped before is not stopped again: its moment has passed.
	for _, id := range []string{stopped.ID, early.ID} {
		woken, err := e.Client.Sandboxes().Wake(ctx(t), id)
		if err != nil || woken.Rules[0].FiredAt.IsZero() {
			t.Fatalf("woken: %+v, %v", woken, err)
		}
		e.Out(t, id, "true")
		e.state(t, id, "running")
	}
}
