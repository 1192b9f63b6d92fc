package e2e_test

import (
	"context"
	"fmt"
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
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	for range 3 {
		if got := e.Out(t, sb.ID, allSignals); got != "sent\n" {
			t.Errorf("output %q", got)
		}
	}
	if got := e.Out(t, sb.ID, "echo alive"); got != "alive\n" {
		t.Errorf("output %q", got)
	}
}

// testStoppedAgent: root inside can silence its own sandbox. It can be deleted all the same, at once.
func testStoppedAgent(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
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
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	bound := 0
	if _, err := fmt.Sscan(e.Out(t, sb.ID, "cat /sys/fs/cgroup/shoal/pids.max"), &bound); err != nil || bound < 64 {
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
	if got := e.Out(t, sb.ID, "echo alive"); got != "alive\n" {
		t.Errorf("output %q", got)
	}
}

// testMemoryHog has a process ask for far more memory than there is, as fast as it can: it is killed and says why, and what
// runs beside it goes on.
func testMemoryHog(t *testing.T, e env) {
	memory := int64(512 << 20)
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{MemoryBytes: &memory})
	beside, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Cmd: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, program := range map[string]string{
		"at once":       "x = b'x' * (4 << 30)",
		"bit by bit":    "x = []\nwhile True: x.append(bytearray(b'x') * (8 << 20))",
		"in its memory": "import mmap\nx = mmap.mmap(-1, 4 << 30)\nfor i in range(0, 4 << 30, 4096): x[i] = 1",
	} {
		res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Cmd: []string{"python3", "-c", program}})
		if err != nil || res.Outcome != shoal.OutcomeSignaled || res.Signal != "SIGKILL" || !res.OutOfMemory || res.ExitCode != nil {
			t.Fatalf("%s: %v, %s", name, err, harness.Describe(res))
		}
		if got := e.Out(t, sb.ID, "echo alive"); got != "alive\n" {
			t.Errorf("%s: beside the dead process: %q", name, got)
		}
	}
	// Files in memory may take half of it, as on any machine.
	if got := e.Out(t, sb.ID, "dd if=/dev/zero of=/dev/shm/x bs=1M 2>&1 | tail -n1 | cut -d' ' -f1; rm /dev/shm/x"); got != "268435456\n" {
		t.Errorf("/dev/shm takes %q bytes", got)
	}
	if got, err := e.Client.Execs(sb.ID).Get(ctx(t), beside.ID); err != nil || !got.Running || got.OutOfMemory {
		t.Errorf("what ran beside: %+v, %v", got, err)
	}
}

// testMemoryHogInShell has somebody at a terminal start a job that takes all memory: the job is killed, the shell goes on, as on
// any machine.
func testMemoryHogInShell(t *testing.T, e env) {
	memory := int64(256 << 20)
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{MemoryBytes: &memory})
	execs := e.Client.Execs(sb.ID)
	x, err := execs.Start(ctx(t), shoal.ExecRequest{Cmd: []string{"sh", "-i"}, Tty: true, StdinOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	script := "python3 -c 'x = b\"x\" * (4 << 30)'\necho sur''vived\nexit 7\n"
	if err := execs.WriteStdin(ctx(t), x.ID, []byte(script), false); err != nil {
		t.Fatal(err)
	}
	stream, err := execs.Attach(ctx(t), x.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	said, _, _, end := collect(t, stream)
	if !strings.Contains(string(said), "survived") || end.Exec.ExitCode == nil || *end.Exec.ExitCode != 7 || !end.Exec.OutOfMemory {
		t.Errorf("the shell said %q and ended as %+v", said, end.Exec)
	}
}

// testManyThreads has a program with hundreds of threads, as runtimes of languages have them, in little memory: threads are not
// processes, and it is left alone.
func testManyThreads(t *testing.T, e env) {
	memory := int64(512 << 20)
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{MemoryBytes: &memory})
	res := e.sh(t, sb, `python3 -c '
import threading, time
x = b"x" * (200 << 20)
for i in range(320): threading.Thread(target=time.sleep, args=(2,)).start()
print(threading.active_count())'`)
	if res.Outcome != shoal.OutcomeExited || *res.ExitCode != 0 || *res.Stdout != "321\n" {
		t.Errorf("%s, %q, %q", harness.Describe(res), *res.Stdout, *res.Stderr)
	}
}

// testMemoryHogUnguarded stops the guest agent first, which root inside can do: then the host's own limit holds, and the
// sandbox ends whole and says why.
func testMemoryHogUnguarded(t *testing.T, e env) {
	memory := int64(256 << 20)
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{MemoryBytes: &memory})
	res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{
		Cmd: []string{"python3", "-c", "import os, signal\nos.kill(1, signal.SIGSTOP)\nx = b'x' * (4 << 30)"}, User: "root",
	})
	if err != nil || res.Outcome != shoal.OutcomeLost || res.ExitCode != nil {
		t.Errorf("%v, %s", err, harness.Describe(res))
	}
	e.wantFailed(t, sb.ID, "ran out of memory")
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
