package e2e_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// hold is a program that holds so many MiB, says so, and waits.
func hold(mib int) shoal.ExecRequest {
	return shoal.ExecRequest{Cmd: []string{"python3", "-c", fmt.Sprintf(`import sys
held = []
for _ in range(%d): held.append(bytearray(b"x" * (1 << 20)))
print("held", flush=True)
sys.stdin.read()`, mib)}}
}

// set changes limits.
func (e env) set(t *testing.T, sb shoal.Sandbox, req shoal.UpdateSandboxRequest) shoal.Sandbox {
	t.Helper()
	got, err := e.Client.Sandboxes().Update(ctx(t), sb.ID, req)
	if err != nil {
		t.Fatal(err)
	}
	if got.Operation != "" {
		t.Errorf("a %s is under way", got.Operation)
	}
	return got
}

// testResizeMemory has more memory given to a sandbox, and taken away, while its processes go on.
func testResizeMemory(t *testing.T, e env) {
	small, large, medium := int64(128<<20), int64(768<<20), int64(256<<20)
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{MemoryBytes: &small})
	if res := e.Run(t, sb.ID, hold(300)); !res.OutOfMemory || res.Outcome != shoal.OutcomeSignaled {
		t.Errorf("300 of 128 MiB: %s, out of memory %v", res.Outcome, res.OutOfMemory)
	}
	e.set(t, sb, shoal.UpdateSandboxRequest{MemoryBytes: &large})
	// The limit is far beyond what the sandbox was started with and its kernel tells of.
	execs, req := e.Client.Execs(sb.ID), hold(500)
	req.StdinOpen = true
	holder, err := execs.Start(ctx(t), req)
	if err != nil {
		t.Fatal(err)
	}
	await := func(what string, ok func(x shoal.Exec) bool) {
		t.Helper()
		harness.Eventually(t, 30*time.Second, what, func() error {
			x, err := execs.Get(ctx(t), holder.ID)
			if err == nil && !ok(x) {
				err = fmt.Errorf("it is %+v", x)
			}
			return err
		})
	}
	await("500 of 768 MiB are held", func(x shoal.Exec) bool { return x.OutputBytes > 0 })
	_, err = e.Client.Sandboxes().Update(ctx(t), sb.ID, shoal.UpdateSandboxRequest{MemoryBytes: &medium})
	if problem := wantCode(t, err, "conflict"); problem != nil && !strings.Contains(problem.Message, "MiB") {
		t.Errorf("it has no figures: %s", problem.Message)
	}
	if got, err := e.Client.Sandboxes().Get(ctx(t), sb.ID); err != nil || got.MemoryBytes != large || got.Operation != "" {
		t.Errorf("after it the record has %d, %q: %v", got.MemoryBytes, got.Operation, err)
	}
	if err := execs.WriteStdin(ctx(t), holder.ID, nil, true); err != nil {
		t.Error(err)
	}
	await("the process ends by itself", func(x shoal.Exec) bool { return x.Outcome == shoal.OutcomeExited })
	e.set(t, sb, shoal.UpdateSandboxRequest{MemoryBytes: &medium})
	e.Stop()
	e.Restart(harness.Options{})
	if m, err := e.Client.Sandboxes().Metrics(ctx(t), sb.ID); err != nil || m.MemoryLimitBytes != medium {
		t.Errorf("after a restart the limit is %d: %v", m.MemoryLimitBytes, err)
	}
	if res := e.Run(t, sb.ID, hold(400)); !res.OutOfMemory || res.Outcome != shoal.OutcomeSignaled {
		t.Errorf("400 of 256 MiB: %s, out of memory %v", res.Outcome, res.OutOfMemory)
	}
	if got := e.Out(t, sb.ID, "echo alive"); got != "alive\n" {
		t.Errorf("beside it: %q", got)
	}
}

// testResizeCounts changes how many processes and files there may be.
func testResizeCounts(t *testing.T, e env) {
	pids, files := int64(40), int64(2000)
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Pids: &pids, OpenFiles: &files})
	count := func() (processes, files int) {
		t.Helper()
		res := e.Run(t, sb.ID, shoal.ExecRequest{Cmd: []string{"python3", "-c", `import os, time
n = 0
try:
    while n < 200:
        if os.fork() == 0: time.sleep(60)
        n += 1
except OSError: pass
held = []
try:
    while len(held) < 5000: held.append(os.open("/etc/hostname", os.O_RDONLY))
except OSError: pass
print(n, len(held), flush=True)
os.killpg(0, 9)`}})
		if _, err := fmt.Sscan(string(res.StdoutBytes()), &processes, &files); err != nil {
			t.Fatalf("%q %q: %v", res.StdoutBytes(), res.StderrBytes(), err)
		}
		return processes, files
	}
	if p, f := count(); p > 40 || p < 20 || f > 2000 || f < 1900 {
		t.Errorf("%d processes of 40 and %d files of 2000", p, f)
	}
	pids, files = 120, 4000
	got := e.set(t, sb, shoal.UpdateSandboxRequest{Pids: &pids, OpenFiles: &files})
	if got.Pids != pids || got.OpenFiles != files {
		t.Errorf("the reply has %d pids and %d files", got.Pids, got.OpenFiles)
	}
	if p, f := count(); p > 120 || p < 100 || f > 4000 || f < 3900 {
		t.Errorf("%d processes of 120 and %d files of 4000", p, f)
	}
}

// testResizeCPU takes processor time away from a loop, and its event says so.
func testResizeCPU(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	share := func() float64 {
		t.Helper()
		before, err := e.Client.Sandboxes().Metrics(ctx(t), sb.ID)
		if err != nil {
			t.Fatal(err)
		}
		e.Out(t, sb.ID, `python3 -c '
import time
end = time.time() + 2
while time.time() < end: pass'`)
		after, err := e.Client.Sandboxes().Metrics(ctx(t), sb.ID)
		if err != nil {
			t.Fatal(err)
		}
		return (after.CPUSeconds - before.CPUSeconds) / after.At.Sub(before.At).Seconds()
	}
	quarter := 0.25
	e.set(t, sb, shoal.UpdateSandboxRequest{VCPUs: &quarter})
	if got := share(); got > 0.4 {
		t.Errorf("with a quarter of a processor it used %.2f", got)
	}
	list, err := e.Client.Events().List(ctx(t), shoal.EventsOptions{Sandbox: sb.ID, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range list.Events {
		if ev.Type == "sandbox.resized" {
			if ev.Data["vcpus"] != "0.25" || ev.Data["memory_bytes"] != strconv.FormatInt(sb.MemoryBytes, 10) {
				t.Errorf("the event has %v", ev.Data)
			}
			return
		}
	}
	t.Error("no event tells of it")
}

// testResizeDisk gives a sandbox more room on its disk, where the disk can limit it.
func testResizeDisk(t *testing.T, e env) {
	small, large := int64(32<<20), int64(128<<20)
	sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{DiskBytes: &small})
	if shoal.ErrorCode(err) == "unsupported" {
		other := e.Sandbox(t, shoal.CreateSandboxRequest{})
		_, err = e.Client.Sandboxes().Update(ctx(t), other.ID, shoal.UpdateSandboxRequest{DiskBytes: &large})
		wantCode(t, err, "unsupported")
		t.Skip("this kernel has no simple quotas: a limit is refused, also while it runs")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Client.Sandboxes().Delete(ctx(t), sb.ID) }()
	const write = "head -c 60000000 /dev/urandom > /root/x && sync"
	if res := e.sh(t, sb, write); res.ExitCode == nil || *res.ExitCode == 0 {
		t.Errorf("60 of 32 MiB were written: %s", harness.Describe(res))
	}
	e.Out(t, sb.ID, "rm /root/x; sync")
	e.set(t, sb, shoal.UpdateSandboxRequest{DiskBytes: &large})
	e.Out(t, sb.ID, write)
	_, err = e.Client.Sandboxes().Update(ctx(t), sb.ID, shoal.UpdateSandboxRequest{DiskBytes: &small})
	if problem := wantCode(t, err, "conflict"); problem != nil && !strings.Contains(problem.Message, "MiB") {
		t.Errorf("it has no figures: %s", problem.Message)
	}
}
