package fault_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// testDiff breaks a comparison: afterwards no clone is left, the sandbox answers, and the next comparison tells what is different.
func testDiff(t *testing.T, e env, point, action string) {
	e.arm(point, action)
	sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Shell: "echo x >/root/new"}); err != nil || *res.ExitCode != 0 {
		t.Fatal(err, res)
	}
	client := *e.Client
	client.MaxRetries = -1
	if _, err := client.Sandboxes().Diff(ctx(t), sb.ID, shoal.DiffOptions{}); err == nil {
		t.Error("it succeeded in spite of the fault")
	}
	e.settle(action)
	harness.Eventually(t, 30*time.Second, "no view is left", func() error {
		if left, _ := filepath.Glob(filepath.Join(e.Dir, "pool/mnt/view/*/*")); len(left) > 0 {
			return fmt.Errorf("views: %v", left)
		}
		return nil
	})
	e.answers(t, sb)
	d, err := e.Client.Sandboxes().Diff(ctx(t), sb.ID, shoal.DiffOptions{})
	if err != nil || len(d.Files) != 1 || d.Files[0].Path != "/root/new" {
		t.Errorf("afterwards: %+v, %v", d.Files, err)
	}
	if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
		t.Error(err)
	}
	e.empty(t)
}
