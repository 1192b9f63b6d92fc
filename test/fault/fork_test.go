package fault_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// testFork breaks a fork of three. Afterwards all of them are there and run, or none; no checkpoint is there without them, and the source goes
// on.
func testFork(t *testing.T, e env, point, action string) {
	stepsBack(t, action)
	sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Name: "victim"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Shell: "printf sentinel >/root/f"}); err != nil {
		t.Fatal(err)
	}
	e.arm(point, action)
	count := 3
	req := shoal.ForkSandboxRequest{Count: &count, NamePrefix: "fork-"}
	key := fmt.Sprintf("%s-%d", action, time.Now().UnixNano())
	made, failed := e.Client.Sandboxes().WithKey(key).Fork(ctx(t), sb.ID, req)
	if failed == nil && action == "error" && !strings.HasSuffix(point, ".committed") {
		t.Error("the fork succeeded in spite of the fault")
	}
	e.settle(action)
	harness.Eventually(t, 30*time.Second, "all forks or none are there", func() error {
		forks := 0
		for _, got := range e.Sandboxes(t) {
			if got.Operation != "" {
				return fmt.Errorf("a %s of %s is under way", got.Operation, got.Name)
			}
			if got.Parent != "" {
				forks++
			}
		}
		list, trees := e.checkpoints(t), e.checkpointTrees(t)
		whole := forks == count && len(list) == 1 && len(trees) == 1
		if none := forks == 0 && len(list) == 0 && len(trees) == 0; !whole && !none || failed == nil && !whole {
			return fmt.Errorf("%d forks, %d checkpoints, the trees %v", forks, len(list), trees)
		}
		return nil
	})
	e.answers(t, sb)
	again, err := e.Client.Sandboxes().WithKey(key).Fork(ctx(t), sb.ID, req)
	if err != nil || len(again) != count || len(made) == count && again[0].ID != made[0].ID {
		t.Fatalf("the repeat: %+v, %v", again, err)
	}
	for _, fork := range again {
		res, err := e.Client.Execs(fork.ID).Run(ctx(t), shoal.ExecRequest{Shell: "cat /root/f"})
		if err != nil || res.Stdout == nil || *res.Stdout != "sentinel" {
			t.Errorf("a fork has %+v, %v", res, err)
		}
	}
	for _, gone := range append(again, sb) {
		if err := e.Client.Sandboxes().Delete(ctx(t), gone.ID); err != nil {
			t.Error(err)
		}
	}
	e.empty(t)
}
