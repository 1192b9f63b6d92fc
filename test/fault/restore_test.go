package fault_test

import (
	"testing"

	"shoal/internal/failpoint"
	shoal "shoal/sdk/go"
)

// testRestore breaks a restore that is on record. A restart does it again. After an error the sandbox goes on as it was, or has failed and can
// be restored again. What it had is in a checkpoint in any case.
func testRestore(t *testing.T, e env, point, action string) {
	stepsBack(t, action)
	begun := point != failpoint.ControlCheckpointNodeDone // or it is cut off while what is there is saved
	before := e.keeper(t)
	first, err := e.Client.Checkpoints().Create(ctx(t), before.ID, shoal.CreateCheckpointRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := e.Client.Execs(before.ID).Run(ctx(t), shoal.ExecRequest{Shell: "echo later >/root/later"}); err != nil || *res.ExitCode != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	e.arm(point, action)
	restore := shoal.RestoreSandboxRequest{CheckpointID: first.ID}
	_, failed := e.Client.Sandboxes().Restore(ctx(t), before.ID, restore)
	e.settle(action)
	sb := e.settled(t, before)
	_, err = e.Client.Files(sb.ID).Stat(ctx(t), "/root/later")
	restored := shoal.ErrorCode(err) == shoal.CodeNotFound
	switch {
	case err != nil && !restored:
		t.Fatal(err)
	case !begun && (sb.State != shoal.StateRunning || restored || sb.Incarnation != before.Incarnation):
		t.Errorf("what could not be saved is replaced: %+v, restored %v", sb, restored)
	case begun && action == "kill" && (sb.State != shoal.StateRunning || !restored):
		t.Errorf("the next server has not done it: %+v, restored %v", sb, restored)
	case action == "error" && failed == nil && point != failpoint.ControlRestoreCommitted:
		t.Error("it broke, and said nothing")
	case sb.State == shoal.StateRunning && !restored && sb.Incarnation != before.Incarnation:
		t.Errorf("it goes on as incarnation %d of %d", sb.Incarnation, before.Incarnation)
	}
	saved := 0
	for _, c := range e.checkpoints(t) {
		if c.Cause == "restore" && c.Parent == first.ID {
			saved++
		}
	}
	if begun && saved != 1 || !begun && saved != 0 {
		t.Errorf("what was replaced is saved %d times", saved)
	}
	if sb.State != shoal.StateRunning || !restored {
		res, err := e.Client.Sandboxes().Restore(ctx(t), sb.ID, restore)
		if err != nil || res.Sandbox.State != shoal.StateRunning {
			t.Fatalf("it can't be restored again: %+v, %v", res, err)
		}
		sb = res.Sandbox
	}
	if err := e.Client.Checkpoints().Delete(ctx(t), first.ID); err != nil {
		t.Error(err)
	}
	e.end(t, sb)
	if trees := e.checkpointTrees(t); len(trees) > 0 {
		t.Errorf("left of checkpoints is %v", trees)
	}
}
