package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// poolDevice returns the directory in sysfs of the loop device that a server's pool is on; empty if there is none.
func poolDevice(e env) string {
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(text), e.Dir+"/") {
			return filepath.Dir(filepath.Dir(f))
		}
	}
	return ""
}

// testIOWeight asks for shares of the disk: it is refused with what the host lacks, and works once the host has it, also for a
// sandbox that was there before.
func testIOWeight(t *testing.T, e env) {
	heavy, light := int64(1000), int64(10)
	old := e.Sandbox(t, shoal.CreateSandboxRequest{Labels: map[string]string{"io": "old"}})
	if old.IOWeight != 0 {
		t.Skip("the disk of this host shares itself out by weight already: what is refused elsewhere can't be seen")
	}
	_, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{IOWeight: &light})
	if problem := wantCode(t, err, "unsupported"); problem.Field != "io_weight" || len(problem.Message) < 40 {
		t.Errorf("field %q: %s", problem.Field, problem.Message)
	}
	_, err = e.Client.Sandboxes().Update(ctx(t), old.ID, shoal.UpdateSandboxRequest{IOWeight: &light})
	wantCode(t, err, "unsupported")
	device := poolDevice(e)
	file := filepath.Join(device, "queue/scheduler")
	if err := os.WriteFile(file, []byte("bfq"), 0); device == "" || err != nil {
		t.Skipf("no pool on a loop device with the scheduler BFQ here: %v", err)
	}
	defer func() {
		if err := os.WriteFile(file, []byte("none"), 0); err != nil {
			t.Error(err)
		}
		e.Stop()
		e.Restart(harness.Options{})
	}()
	e.Stop()
	e.Restart(harness.Options{Env: []string{"SHOAL_SANDBOX_IO_WEIGHT_MAX=10000"}})
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{IOWeight: &heavy})
	if sb.IOWeight != heavy {
		t.Errorf("the reply has the weight %d", sb.IOWeight)
	}
	tooMuch := int64(1001)
	_, err = e.Client.Sandboxes().Update(ctx(t), sb.ID, shoal.UpdateSandboxRequest{IOWeight: &tooMuch})
	if problem := wantCode(t, err, "invalid"); !strings.Contains(problem.Message, "1000") {
		t.Errorf("BFQ's greatest weight isn't told: %s", problem.Message)
	}
	for id, want := range map[string]int64{sb.ID: heavy, old.ID: light} {
		if _, err := e.Client.Sandboxes().Update(ctx(t), id, shoal.UpdateSandboxRequest{IOWeight: &want}); err != nil {
			t.Fatal(err)
		}
		weighed(t, e, id, want)
	}
	e.Kill()
	e.Restart(harness.Options{})
	for id, want := range map[string]int64{sb.ID: heavy, old.ID: light} {
		if got, err := e.Client.Sandboxes().Get(ctx(t), id); err != nil || got.IOWeight != want {
			t.Errorf("after a kill the weight is %d, want %d: %v", got.IOWeight, want, err)
		}
	}
}

// weighed checks that a sandbox has a weight in the kernel, and that what it writes counts there: the weight is where the traffic is.
func weighed(t *testing.T, e env, id string, want int64) {
	t.Helper()
	var group string
	for _, pattern := range []string{"/sys/fs/cgroup/blkio", "/sys/fs/cgroup"} {
		if found, _ := filepath.Glob(filepath.Join(pattern, e.Cgroup(), "*", id)); len(found) == 1 {
			group = found[0]
			break
		}
	}
	version1 := strings.HasPrefix(group, "/sys/fs/cgroup/blkio")
	file, counter := "io.bfq.weight", "io.stat"
	if version1 {
		file, counter = "blkio.bfq.weight", "blkio.bfq.io_service_bytes"
	}
	text, err := os.ReadFile(filepath.Join(group, file))
	if fields := strings.Fields(string(text)); err != nil || len(fields) == 0 || fields[len(fields)-1] != fmt.Sprint(want) {
		t.Fatalf("in the kernel the weight is %q, want %d: %v", text, want, err)
	}
	e.Out(t, id, "dd if=/dev/urandom of=/root/written bs=1M count=16 conv=fsync 2>/dev/null")
	harness.Eventually(t, 20*time.Second, "16 MiB are counted as the sandbox's", func() error {
		text, err := os.ReadFile(filepath.Join(group, counter))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			var device string
			var n int64
			if version1 {
				_, _ = fmt.Sscanf(line, "%s Write %d", &device, &n)
			} else if _, after, ok := strings.Cut(line, "wbytes="); ok {
				_, _ = fmt.Sscan(after, &n)
			}
			if n >= 16<<20 {
				return nil
			}
		}
		return fmt.Errorf("%s", text)
	})
}
