package fault_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shoal/internal/failpoint"
	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// checkpointTrees are the trees of checkpoints that are there, those that are set aside among them.
func (e env) checkpointTrees(t *testing.T) []string {
	t.Helper()
	trees, err := filepath.Glob(filepath.Join(e.Dir, "pool/mnt/checkpoint/*/*"))
	if err != nil {
		t.Fatal(err)
	}
	return trees
}

func (e env) checkpoints(t *testing.T) (list []shoal.Checkpoint) {
	t.Helper()
	for c, err := range e.Client.Checkpoints().List(ctx(t), shoal.CheckpointsOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

// testCheckpoint breaks the making of a checkpoint, and the deleting of one. Afterwards it is there whole or not at all, the sandbox is not
// held, its processes have never ended, and it can be saved again.
func testCheckpoint(t *testing.T, e env, point, action string) {
	stepsBack(t, action)
	deleting := point == failpoint.ControlCheckpointDeleted || point == failpoint.ControlCheckpointTreeGone
	sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Name: "victim"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Shell: "printf first >/root/f; sleep 1000 & echo $! >/root/pid"}); err != nil {
		t.Fatal(err)
	}
	first, err := e.Client.Checkpoints().Create(ctx(t), sb.ID, shoal.CreateCheckpointRequest{})
	if err != nil {
		t.Fatal(err)
	}
	e.arm(point, action)
	if _, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Shell: "printf second >/root/f"}); err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprintf("%s-%d", action, time.Now().UnixNano())
	want, made, failed := 2, shoal.Checkpoint{}, error(nil)
	if deleting {
		if failed = e.Client.Checkpoints().Delete(ctx(t), first.ID); failed != nil && action == "error" && point != failpoint.ControlCheckpointDeleted {
			t.Errorf("delete: %v", failed)
		}
		want = 0
	} else if made, failed = e.Client.Checkpoints().WithKey(key).Create(ctx(t), sb.ID, shoal.CreateCheckpointRequest{}); failed != nil {
		want = 1 // or it was made, and the answer was lost
	}
	e.settle(action)
	harness.Eventually(t, 30*time.Second, "records and trees are settled", func() error {
		list, trees := e.checkpoints(t), e.checkpointTrees(t)
		lost := !deleting && failed != nil && len(list) == 2
		if len(list) != len(trees) || len(list) != want && !lost {
			return fmt.Errorf("%d are listed, there are the trees %v, and %d are wanted", len(list), trees, want)
		}
		got, err := e.Client.Sandboxes().Get(ctx(t), sb.ID)
		if err == nil && got.Operation != "" {
			err = fmt.Errorf("a %s is under way", got.Operation)
		}
		return err
	})
	e.answers(t, sb)
	if res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Shell: "kill -0 $(cat /root/pid)"}); err != nil || *res.ExitCode != 0 {
		t.Errorf("a process of before has ended: %+v, %v", res, err)
	}
	// A repeat with the key makes it now, or says what was made.
	if !deleting {
		again, err := e.Client.Checkpoints().WithKey(key).Create(ctx(t), sb.ID, shoal.CreateCheckpointRequest{})
		if err != nil || made.ID != "" && again.ID != made.ID || again.Parent != first.ID {
			t.Errorf("the repeat: %+v, %v; the first was %q", again, err, made.ID)
		}
		if list := e.checkpoints(t); len(list) != 2 {
			t.Errorf("after the repeat there are %d", len(list))
		}
		for _, tree := range e.checkpointTrees(t) {
			word := map[bool]string{true: "first", false: "second"}[filepath.Base(tree) == first.ID]
			if got, err := os.ReadFile(filepath.Join(tree, "root/f")); err != nil || string(got) != word {
				t.Errorf("a checkpoint has %q, want %q: %v", got, word, err)
			}
		}
	}
	if err := e.Client.Sandboxes().DeleteWithCheckpoints(ctx(t), sb.ID); err != nil {
		t.Error(err)
	}
	e.empty(t)
}
