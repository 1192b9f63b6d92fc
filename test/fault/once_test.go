package fault_test

import (
	"strings"
	"testing"

	"shoal/internal/failpoint"
	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// testOnce kills the server at every point of a call with an Idempotency-Key, makes the call again, and asserts that it has taken
// effect once, and that the answer is true.
func testOnce(t *testing.T, e env) {
	for _, point := range []string{
		failpoint.ControlCreateRecorded, failpoint.NodeCreateStarted, failpoint.ControlCreateNodeDone, failpoint.ControlCreateCommitted,
		failpoint.ControlOnceNoted,
	} {
		t.Run("create "+point, func(t *testing.T) { testCreateOnce(t, e, point) })
	}
	// Creates have a key too, which the client makes: theirs is the first note.
	for point, hit := range map[string]string{
		failpoint.ControlExecRecorded: "", failpoint.ControlExecStarted: "", failpoint.ControlExecEnded: "", failpoint.ControlOnceNoted: "2*",
	} {
		t.Run("exec "+point, func(t *testing.T) { testExecOnce(t, e, point, hit+"kill") })
	}
}

// once makes a call until it has an answer, restarting the server when that was killed.
func (e env) once(t *testing.T, call func() error) {
	t.Helper()
	e.Client.MaxRetries = -1 // these would be repeats that the test doesn't see
	if err := call(); shoal.ErrorCode(err) != "unavailable" {
		t.Fatalf("the call that kills the server gave %v", err)
	}
	e.settle("kill")
	if err := call(); err != nil {
		t.Fatalf("the repeat: %v", err)
	}
}

func testCreateOnce(t *testing.T, e env, point string) {
	e.arm(point, "kill")
	var ids []string
	create := func() error {
		sb, err := e.Client.Sandboxes().WithKey("c-"+point).Create(ctx(t), shoal.CreateSandboxRequest{Labels: map[string]string{"a": "b"}})
		if err == nil {
			ids = append(ids, sb.ID)
		}
		return err
	}
	e.once(t, create)
	if err := create(); err != nil || len(ids) != 2 || ids[0] != ids[1] {
		t.Errorf("the answers are %v, %v", ids, err)
	}
	list := e.Sandboxes(t)
	if len(list) != 1 || list[0].ID != ids[0] {
		t.Errorf("there are %d sandboxes", len(list))
	}
	for _, sb := range list {
		e.answers(t, sb)
		if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
			t.Error(err)
		}
	}
	if err := create(); err == nil && ids[len(ids)-1] != ids[0] {
		t.Error("a repeat after the delete made another")
	}
	e.empty(t)
}

func testExecOnce(t *testing.T, e env, point, action string) {
	e.arm(point, action)
	sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var results []shoal.ExecResult
	run := func() error {
		res, err := e.Client.Execs(sb.ID).WithKey("k").Run(ctx(t), shoal.ExecRequest{Shell: "echo x >>/root/count; sleep 0.5; echo done; exit 3"})
		if err == nil {
			results = append(results, res)
		}
		return err
	}
	e.once(t, run)
	if err := run(); err != nil {
		t.Error(err)
	}
	for _, res := range results {
		if res.Outcome != shoal.OutcomeExited || *res.ExitCode != 3 || string(res.StdoutBytes()) != "done\n" || res.ID != results[0].ID {
			t.Errorf("the answer is %s, stdout %q, truncated %v", harness.Describe(res), res.StdoutBytes(), res.Truncated)
		}
	}
	if n := strings.Count(e.Out(t, sb.ID, "cat /root/count"), "x"); n != 1 {
		t.Errorf("the process ran %d times", n)
	}
	if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
		t.Error(err)
	}
	// Its answer outlives it.
	if err := run(); err != nil || results[len(results)-1].ID != results[0].ID || *results[len(results)-1].ExitCode != 3 {
		t.Errorf("after the delete: %v", err)
	}
	e.empty(t)
}
