package fault_test

import (
	"fmt"
	"testing"
	"time"

	"shoal/internal/failpoint"
	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// testRule breaks the server at the moment at which a rule is due: its action is carried out once, by this server or the next.
func testRule(t *testing.T, e env, point, action string) {
	for _, do := range []string{"stop", "delete"} {
		e.ruled(t, point, action, do)
	}
}

// testRules kills the server at each step of what a rule has it do.
func testRules(t *testing.T, e env) {
	for point, do := range map[string]string{
		failpoint.ControlStopRecorded: "stop", failpoint.ControlStopNodeDone: "stop", failpoint.ControlStopCommitted: "stop",
		failpoint.ControlDeleteRecorded: "delete",
	} {
		e.ruled(t, point, "kill", do)
	}
}

// ruled has a rule act on a sandbox while a failpoint is armed, and looks what came of it.
func (e env) ruled(t *testing.T, point, action, do string) {
	t.Helper()
	armed := action
	if action == "error" {
		armed = "1*error" // it is tried again a second later
	}
	e.arm(point, armed)
	age := int64(2)
	sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{
		Persistent: true, Rules: []shoal.LifecycleRule{{On: "age", AfterSeconds: age, Action: do}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if action == "error" {
		e.over(t, sb.ID, do)
	}
	e.settle(action)
	e.over(t, sb.ID, do)
	if do == "stop" {
		woken, err := e.Client.Sandboxes().Wake(ctx(t), sb.ID)
		if err != nil || woken.Rules[0].FiredAt.IsZero() || woken.State != shoal.StateRunning {
			t.Errorf("%s: woken it is %+v, %v", point, woken, err)
		}
		e.answers(t, woken)
		e.toldOnce(t, sb.ID, "sandbox.stopped", point)
		if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
			t.Error(err)
		}
	} else {
		e.toldOnce(t, sb.ID, "sandbox.deleted", point)
	}
	e.empty(t)
}

// over waits until a rule has acted.
func (e env) over(t *testing.T, id, do string) {
	t.Helper()
	harness.Eventually(t, 40*time.Second, "the rule has acted", func() error {
		got, err := e.Client.Sandboxes().Get(ctx(t), id)
		switch {
		case do == "delete" && shoal.ErrorCode(err) == shoal.CodeNotFound:
			return nil
		case err == nil && (do == "delete" || got.State != shoal.StateStopped || got.Operation != ""):
			return fmt.Errorf("it is %s with %q under way", got.State, got.Operation)
		}
		return err
	})
}

// toldOnce asserts that something happened to a sandbox exactly once, and by its rule or by the start that finished it.
func (e env) toldOnce(t *testing.T, id, what, point string) {
	t.Helper()
	events, err := e.Client.Events().List(ctx(t), shoal.EventsOptions{Sandbox: id, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, ev := range events.Events {
		if ev.Type == what {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%s: %s was told %d times", point, what, n)
	}
}
