package fault_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"shoal/internal/failpoint"
	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// keeper creates a sandbox with a ttl and a file.
func (e env) keeper(t *testing.T) shoal.Sandbox {
	t.Helper()
	ttl := int64(3600)
	sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Persistent: true, TTLSeconds: &ttl})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Shell: "echo kept >/root/f"}); err != nil || *res.ExitCode != 0 {
		t.Fatalf("write a file: %v, %+v", err, res)
	}
	return sb
}

// settled waits until nothing is under way with a sandbox, which is as it was but for its state.
func (e env) settled(t *testing.T, before shoal.Sandbox) (sb shoal.Sandbox) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, "it is settled", func() (err error) {
		if sb, err = e.Client.Sandboxes().Get(ctx(t), before.ID); err == nil && sb.Operation != "" {
			err = fmt.Errorf("a %s is under way", sb.Operation)
		}
		return err
	})
	if !sb.ExpiresAt.Equal(before.ExpiresAt) {
		t.Errorf("it ends at %s, want %s", sb.ExpiresAt, before.ExpiresAt)
	}
	f, err := e.Client.Files(sb.ID).Read(ctx(t), "/root/f")
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil || string(data) != "kept\n" {
		t.Errorf("its file is %q, %v", data, err)
	}
	return sb
}

// end asserts that a sandbox, which is stopped or runs, is what it says, and can be woken, and deletes it.
func (e env) end(t *testing.T, sb shoal.Sandbox) {
	t.Helper()
	if sb.State == shoal.StateStopped {
		if p := harness.Processes(e.Dir); len(p) > 0 {
			t.Errorf("it is stopped, and these run: %v", p)
		}
		if err := errors.Join(e.noSlots(), e.noGroups()); err != nil {
			t.Errorf("it is stopped, and something of it is left: %v", err)
		}
		awake, err := e.Client.Sandboxes().Wake(ctx(t), sb.ID)
		if err != nil || awake.State != shoal.StateRunning || awake.Incarnation <= sb.Incarnation {
			t.Fatalf("awake it is %+v, %v", awake, err)
		}
		sb = awake
	}
	e.answers(t, sb)
	e.settled(t, sb)
	if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
		t.Error(err)
	}
	e.empty(t)
}

// stepsBack skips what goes back step by step in a server that lives, but in the full set.
func stepsBack(t *testing.T, action string) {
	t.Helper()
	if action == "error" && os.Getenv("SHOAL_TEST_FULL") == "" {
		t.Skip("the same steps back are unit tests: set SHOAL_TEST_FULL=1")
	}
}

// testStop breaks a stop: afterwards the sandbox is stopped, or, where nothing had been begun, it runs.
func testStop(t *testing.T, e env, point, action string) {
	stepsBack(t, action)
	e.arm(point, action)
	sb := e.keeper(t)
	_, err := e.Client.Sandboxes().Stop(ctx(t), sb.ID, shoal.StopOptions{Grace: new(time.Duration)})
	if action == "error" && err == nil && point != failpoint.ControlStopCommitted {
		t.Error("the stop succeeded in spite of the fault")
	}
	e.settle(action)
	want := shoal.StateStopped
	if action == "error" && point == failpoint.ControlStopRecorded {
		want = shoal.StateRunning // it was taken back before the caller was told
	}
	got := e.settled(t, sb)
	if got.State != want {
		t.Errorf("it is %s, want %s", got.State, want)
	}
	e.end(t, got)
}

// testWake breaks a wake: afterwards the sandbox is stopped as before, or runs if its guest agent had answered.
func testWake(t *testing.T, e env, point, action string) {
	stepsBack(t, action)
	e.arm(point, action)
	sb := e.keeper(t)
	stopped, err := e.Client.Sandboxes().Stop(ctx(t), sb.ID, shoal.StopOptions{Grace: new(time.Duration)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Client.Sandboxes().Wake(ctx(t), sb.ID)
	if action == "error" && err == nil && point != failpoint.ControlWakeCommitted {
		t.Error("the wake succeeded in spite of the fault")
	}
	e.settle(action)
	want := shoal.StateStopped
	switch point {
	case failpoint.ControlWakeCommitted:
		want = shoal.StateRunning
	case failpoint.NodeWakeReady, failpoint.ControlWakeNodeDone:
		if action == "kill" {
			want = shoal.StateRunning
		}
	}
	got := e.settled(t, stopped)
	if got.State != want {
		t.Errorf("it is %s, want %s", got.State, want)
	}
	e.end(t, got)
}
