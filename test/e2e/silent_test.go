package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shoal/internal/failpoint"
	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// testSilentSandbox: a sandbox whose init root has stopped shows what it costs, and fails a minute after the first call that it
// did not answer. Those that are merely busy, or stopped from outside for a while, and were called in vain too, go on. The time in
// which silence is measured passes five times as fast here.
func testSilentSandbox(t *testing.T, e env) {
	e.Stop()
	e.Restart(harness.Options{Failpoints: failpoint.NodeSilenceClock + "=faster:5"})
	t.Cleanup(func() {
		e.Stop()
		e.Restart(harness.Options{})
	})
	silent, busy, held := e.Sandbox(t, shoal.CreateSandboxRequest{}), e.Sandbox(t, shoal.CreateSandboxRequest{}), e.Sandbox(t, shoal.CreateSandboxRequest{})
	bomb, err := e.Client.Execs(busy.ID).Start(ctx(t), shoal.ExecRequest{
		Detach: true, Shell: "(while :; do :; done) & (while :; do :; done) & f() { while :; do f & done; }; f",
	})
	if err != nil {
		t.Fatal(err)
	}
	impatient := func(id, script string) {
		short, cancel := context.WithTimeout(ctx(t), time.Second)
		defer cancel()
		_, _ = e.Client.Execs(id).Run(short, shoal.ExecRequest{Shell: script})
	}
	impatient(silent.ID, "kill -STOP 1") // whether the answer comes before the agent stops is open
	impatient(silent.ID, "true")
	if m, err := e.Client.Sandboxes().Metrics(ctx(t), silent.ID); err != nil || m.MemoryBytes == 0 || m.MemoryLimitBytes == 0 || m.PSSBytes == nil {
		t.Errorf("metrics of the silent one: %+v, %v", m, err)
	}
	release := e.hold(t, held.ID)
	impatient(held.ID, "true")
	if m, err := e.Client.Sandboxes().Metrics(ctx(t), held.ID); err != nil || m.MemoryBytes == 0 || m.Processes != 0 {
		t.Errorf("metrics of the one whose kernel is silent: %+v, %v", m, err)
	}
	harness.Eventually(t, time.Minute, "the silent sandbox has failed", func() error {
		impatient(busy.ID, "sleep 100")
		got, err := e.Client.Sandboxes().Get(ctx(t), silent.ID)
		if err == nil && got.State != shoal.StateFailed {
			err = fmt.Errorf("it is %s", got.State)
		}
		return err
	})
	e.wantFailed(t, silent.ID, "stopped answering")
	if err := e.Client.Execs(busy.ID).Cancel(ctx(t), bomb.ID); err != nil {
		t.Errorf("cancel in the busy one: %v", err)
	}
	if got := e.Out(t, busy.ID, "echo alive"); got != "alive\n" {
		t.Errorf("the busy one says %q", got)
	}
	release()
	if got := e.Out(t, held.ID, "echo alive"); got != "alive\n" {
		t.Errorf("the one that was held says %q", got)
	}
}

// hold stops every process of a sandbox on the host, until release is called or the test ends.
func (e env) hold(t *testing.T, id string) (release func()) {
	t.Helper()
	var pids []int
	for _, p := range harness.Processes(e.Dir) {
		if strings.Contains(p.Command, id) {
			pids = append(pids, p.PID)
		}
	}
	if len(pids) == 0 {
		t.Fatal("it has no process")
	}
	signal := func(s syscall.Signal) {
		for _, pid := range pids {
			_ = syscall.Kill(pid, s) // one that is gone needs none
		}
	}
	release = sync.OnceFunc(func() { signal(syscall.SIGCONT) })
	t.Cleanup(release)
	signal(syscall.SIGSTOP)
	return release
}
