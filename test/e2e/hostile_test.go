package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// allSignals sends init every signal that can be caught.
const allSignals = `for n in $(seq 31); do case $n in 9|19) ;; *) kill -$n 1 || exit 1 ;; esac; done; echo sent`

// testSignalsToInit: no signal that can be caught ends or stops the guest agent.
func testSignalsToInit(t *testing.T, e env) {
	sb := e.sandbox(t, shoal.CreateSandboxRequest{})
	for range 3 {
		if got := e.out(t, sb, allSignals); got != "sent\n" {
			t.Errorf("output %q", got)
		}
	}
	if got := e.out(t, sb, "echo alive"); got != "alive\n" {
		t.Errorf("output %q", got)
	}
}

// testStoppedAgent: root inside can silence its own sandbox. It can be deleted all the same, at once.
func testStoppedAgent(t *testing.T, e env) {
	sb := e.sandbox(t, shoal.CreateSandboxRequest{})
	short, cancel := context.WithTimeout(ctx(t), 3*time.Second)
	defer cancel()
	// Whether the answer comes before the agent stops is open.
	_, _ = e.Client.Execs(sb.ID).Run(short, shoal.ExecRequest{Shell: "kill -STOP 1"})
	start := time.Now()
	if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 20*time.Second, "no process is left", func() error {
		for _, p := range harness.Processes(e.Dir) {
			if strings.Contains(p.Command, sb.ID) {
				return fmt.Errorf("process %d", p.PID)
			}
		}
		return nil
	})
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("took %s", took)
	}
}

// testForkBomb: root's fork bomb meets the bound of processes; the sandbox answers beside it and outlives it.
func testForkBomb(t *testing.T, e env) {
	sb := e.sandbox(t, shoal.CreateSandboxRequest{})
	bound := 0
	if _, err := fmt.Sscan(e.out(t, sb, "cat /sys/fs/cgroup/shoal/pids.max"), &bound); err != nil || bound < 64 {
		t.Fatalf("bound %d, %v", bound, err)
	}
	x, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Shell: "f() { while :; do f & done; }; f", Detach: true})
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, time.Minute, "the bomb has met its bound", func() error {
		got, err := e.Client.Execs(sb.ID).Get(ctx(t), x.ID)
		if err != nil {
			return err
		}
		if got.Processes > bound {
			t.Fatalf("%d processes of at most %d", got.Processes, bound)
		}
		if got.Processes < bound*3/4 {
			return fmt.Errorf("%d processes", got.Processes)
		}
		return nil
	})
	if _, err := e.Client.Sandboxes().Metrics(ctx(t), sb.ID); err != nil {
		t.Errorf("metrics beside the bomb: %v", err)
	}
	if err := e.Client.Execs(sb.ID).Cancel(ctx(t), x.ID); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	if got := e.out(t, sb, "echo alive"); got != "alive\n" {
		t.Errorf("output %q", got)
	}
}

// testMemoryHog: at the limit the host's kernel picks a victim. Either it is the process that took the memory, which then says
// so while the sandbox goes on, or it is the whole sandbox, which then says why. There is no third way.
func testMemoryHog(t *testing.T, e env) {
	if os.Getenv("SHOAL_TEST_FULL") == "" {
		t.Skip("without a memory guard inside, the kernel may take minutes to choose: set SHOAL_TEST_FULL=1")
	}
	memory := int64(256 << 20)
	sb := e.sandbox(t, shoal.CreateSandboxRequest{MemoryBytes: &memory})
	res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Cmd: []string{"python3", "-c", "x = []\nwhile True: x.append(bytearray(b'x') * (8 << 20))"}})
	if err != nil || res.ExitCode != nil {
		t.Fatalf("%v, %s", err, describe(res))
	}
	switch res.Outcome {
	case shoal.OutcomeSignaled:
		if res.Signal != "SIGKILL" {
			t.Errorf("ended as %s", describe(res))
		}
		if got := e.out(t, sb, "echo alive"); got != "alive\n" {
			t.Errorf("beside the dead process: %q", got)
		}
	case shoal.OutcomeLost:
		e.wantFailed(t, sb.ID, "ran out of memory")
	default:
		t.Errorf("ended as %s", describe(res))
	}
}

// wantFailed waits until a sandbox has failed for a reason that has the text.
func (e env) wantFailed(t *testing.T, id, reason string) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, "the sandbox has failed", func() error {
		got, err := e.Client.Sandboxes().Get(ctx(t), id)
		if err != nil {
			return err
		}
		if got.State != shoal.StateFailed {
			return fmt.Errorf("it is %s", got.State)
		}
		if !strings.Contains(got.Failure, reason) {
			t.Errorf("it failed because %q, want %q", got.Failure, reason)
		}
		return nil
	})
}
