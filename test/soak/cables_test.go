package soak_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// TestCables damages what a server relies on, one thing after the other.
func TestCables(t *testing.T) {
	needFull(t)
	e := env{harness.Start(t, harness.Options{})}
	for _, tc := range []struct {
		name string
		run  func(*testing.T, env)
	}{
		{"damaged journal", testDamagedJournal},
		{"journal that can't be written", testJournalUnwritable},
		{"deleted run directories", testRunDirsGone},
		{"damaged database", testDamagedDatabase},
		{"reboot", testReboot},
		{"two servers side by side", testTwoServers},
		{"many inherited descriptors", testInheritedDescriptors},
		{"uninstall with sandboxes running", testUninstall},
	} {
		if !t.Run(tc.name, func(t *testing.T) { tc.run(t, e) }) {
			t.Fatal("the state of the server is in doubt: the rest is not run")
		}
	}
}

func (e env) journal(id string) string { return filepath.Join(e.Dir, "node/journal", id+".json") }

// testDamagedJournal: what can't be understood fails, runs on nowhere, and keeps its files.
func testDamagedJournal(t *testing.T, e env) {
	damage := map[string]string{"garbage": "\x00\xff{", "empty": "", "other version": `{"version":99}`, "another's": `{"version":1,"sandbox":"x"}`, "deep": strings.Repeat("[", 100000)}
	ids := map[string]string{}
	for name := range damage {
		sb := e.Create(t, shoal.CreateSandboxRequest{Persistent: true})
		e.Out(t, sb.ID, "echo precious > /root/work; sync")
		ids[name] = sb.ID
	}
	sound := e.Create(t, shoal.CreateSandboxRequest{})
	e.Kill()
	for name, text := range damage {
		if err := os.WriteFile(e.journal(ids[name]), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e.Restart(harness.Options{})
	for name, id := range ids {
		e.wantState(t, id, shoal.StateFailed)
		if pids := e.processesOf(id); len(pids) > 0 {
			t.Errorf("%s: processes %v of a failed sandbox go on", name, pids)
		}
		if data, err := os.ReadFile(e.inTree(t, id, "root/work")); err != nil || string(data) != "precious\n" {
			t.Errorf("%s: its file: %q %v", name, data, err)
		}
	}
	e.Out(t, sound.ID, "true")
	e.deleteAll(t)
}

// inTree returns the host path of a file in a sandbox's tree.
func (e env) inTree(t *testing.T, id, path string) string {
	t.Helper()
	trees, err := filepath.Glob(filepath.Join(e.Dir, "pool/mnt/sandbox/*", id))
	if err != nil || len(trees) != 1 {
		t.Fatalf("trees of %s: %v %v", id, trees, err)
	}
	return filepath.Join(trees[0], path)
}

func testJournalUnwritable(t *testing.T, e env) {
	before := e.Create(t, shoal.CreateSandboxRequest{})
	dir := filepath.Join(e.Dir, "node/journal")
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(dir, 0) }()
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Name: "no"}); err == nil {
		t.Error("a create without a journal succeeded")
	}
	e.Out(t, before.ID, "true")
	if err := e.Client.Sandboxes().Delete(ctx(t), before.ID); err != nil {
		t.Error(err)
	}
	// The server may be looking into it at this moment.
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	e.deleteAll(t)
}

func testRunDirsGone(t *testing.T, e env) {
	sb := e.Create(t, shoal.CreateSandboxRequest{})
	e.Kill()
	if err := os.RemoveAll(filepath.Join(e.Dir, "node/run", sb.ID)); err != nil {
		t.Fatal(err)
	}
	e.Restart(harness.Options{})
	if got, err := e.Client.Sandboxes().Get(ctx(t), sb.ID); err != nil || (got.State == shoal.StateRunning && e.Out(t, sb.ID, "echo here") != "here\n") {
		t.Errorf("%+v %v", got, err)
	}
	e.deleteAll(t)
}

// testDamagedDatabase: the server refuses to start, says why, and touches nothing.
func testDamagedDatabase(t *testing.T, e env) {
	sb := e.Create(t, shoal.CreateSandboxRequest{Persistent: true})
	e.Out(t, sb.ID, "echo precious > /root/work; sync")
	e.Stop()
	path := filepath.Join(e.Dir, "shoal.db")
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, offset := range map[string]int{"first page": 0, "schema": 4096, "a later page": 3 * 4096} {
		damaged := bytes.Clone(sound)
		copy(damaged[offset:], bytes.Repeat([]byte("damage! "), 5*4096/8))
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		c, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(c, harness.Binary(t, false), "serve", "--data-dir", e.Dir, "--listen", "127.0.0.1:0")
		cmd.Env = append(harness.CleanEnvironment(), "SHOAL_TEMPLATES_BOOTSTRAP=minimal", "SHOAL_RUNTIME_CGROUP_PARENT="+e.Cgroup())
		out, err := cmd.CombinedOutput()
		cancel()
		if err == nil || !strings.Contains(string(out), "damaged") {
			t.Errorf("%s: %v %s", name, err, out)
		}
		if len(e.processesOf(sb.ID)) == 0 {
			t.Fatalf("%s: the sandbox was ended", name)
		}
	}
	for _, extra := range []string{"-wal", "-shm"} {
		_ = os.Remove(path + extra)
	}
	if err := os.WriteFile(path, sound, 0o600); err != nil {
		t.Fatal(err)
	}
	e.Restart(harness.Options{})
	if got := e.Out(t, sb.ID, "cat /root/work"); got != "precious\n" {
		t.Errorf("the file is %q", got)
	}
	e.deleteAll(t)
}

// testReboot does to a server what a reboot does: no process, mount, namespace or cgroup is left.
func testReboot(t *testing.T, e env) {
	kept := e.Create(t, shoal.CreateSandboxRequest{Persistent: true})
	passing := e.Create(t, shoal.CreateSandboxRequest{})
	e.Out(t, kept.ID, "echo precious > /root/work; sync")
	x, err := e.Client.Execs(kept.ID).Start(ctx(t), shoal.ExecRequest{Cmd: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	e.Kill()
	e.pullEverything(t)
	e.Restart(harness.Options{})
	for _, id := range []string{kept.ID, passing.ID} {
		e.wantState(t, id, shoal.StateFailed)
	}
	if got, err := e.Client.Execs(kept.ID).Get(ctx(t), x.ID); err != nil || got.Outcome != shoal.OutcomeLost {
		t.Errorf("the exec is %s, %v", got.Outcome, err)
	}
	if data, err := os.ReadFile(e.inTree(t, kept.ID, "root/work")); err != nil || string(data) != "precious\n" {
		t.Errorf("the file is %q, %v", data, err)
	}
	again := e.Create(t, shoal.CreateSandboxRequest{})
	e.Out(t, again.ID, "true")
	e.deleteAll(t)
}

// pullEverything ends every process of a killed server and unmounts all that it had.
func (e env) pullEverything(t *testing.T) {
	t.Helper()
	for _, p := range harness.Processes(e.Dir) {
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
	harness.Eventually(t, 30*time.Second, "every mount is gone", func() error {
		data, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return err
		}
		var left []string
		for line := range strings.Lines(string(data)) {
			if point := strings.Fields(line)[4]; strings.HasPrefix(point, e.Dir+"/") && unix.Unmount(point, 0) != nil {
				left = append(left, point)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("mounts %v", left)
		}
		return nil
	})
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + e.Cgroup())
	for _, g := range append(groups, filepath.Join("/sys/fs/cgroup", e.Cgroup())) {
		removeGroups(g)
	}
	if err := os.RemoveAll(filepath.Join(e.Dir, "node/run")); err != nil {
		t.Error(err)
	}
}

// removeGroups removes a cgroup with those below.
func removeGroups(dir string) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, d := range names {
		if d.IsDir() {
			removeGroups(filepath.Join(dir, d.Name()))
		}
	}
	_ = os.Remove(dir)
}

// testTwoServers: one server's life is nothing to the other.
func testTwoServers(t *testing.T, e env) {
	sb := e.Create(t, shoal.CreateSandboxRequest{})
	other := harness.Start(t, harness.Options{NoTemplates: true})
	if err := other.Client.Health(ctx(t)); err != nil {
		t.Error(err)
	}
	_, err := (&shoal.Client{BaseURL: other.URL, APIKey: e.Key}).Version(ctx(t))
	if _, err2 := (&shoal.Client{BaseURL: other.URL, APIKey: e.Key}).Sandboxes().Get(ctx(t), sb.ID); shoal.ErrorCode(err2) != "unauthenticated" {
		t.Errorf("one server's key at the other: %v, %v", err, err2)
	}
	other.Kill()
	other.Restart(harness.Options{NoTemplates: true})
	e.Out(t, sb.ID, "true")
	e.deleteAll(t)
}

// testInheritedDescriptors starts the server from a shell that has files open.
func testInheritedDescriptors(t *testing.T, e env) {
	e.Stop()
	path := filepath.Join(e.Dir, "held")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	script := `i=10; while [ $i -lt 60 ]; do eval "exec $i<'` + path + `'"; i=$((i+1)); done; exec "$0" "$@"`
	cmd := exec.Command("bash", "-c", script, harness.Binary(t, false), "serve", "--data-dir", e.Dir, "--listen", "127.0.0.1:0")
	cmd.Env = append(harness.CleanEnvironment(), "SHOAL_TEMPLATES_BOOTSTRAP=minimal", "SHOAL_RUNTIME_CGROUP_PARENT="+e.Cgroup())
	_ = os.Remove(filepath.Join(e.Dir, "url"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client := &shoal.Client{APIKey: e.Key}
	harness.Eventually(t, time.Minute, "the server answers", func() error {
		url, err := os.ReadFile(filepath.Join(e.Dir, "url"))
		if err != nil {
			return err
		}
		client.BaseURL = strings.TrimSpace(string(url))
		return client.Ready(ctx(t))
	})
	sb, err := client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{})
	if err != nil {
		t.Error(err)
	}
	for _, pid := range e.processesOf(sb.ID) {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, fd := range fds {
			if target, _ := os.Readlink(fd); target == path {
				t.Errorf("process %d of the sandbox has inherited %s", pid, fd)
			}
		}
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server ended: %v", err)
	}
	e.Restart(harness.Options{})
	e.deleteAll(t)
}

// testUninstall is the last: the server's own Uninstall then finds nothing to do and must not mind.
func testUninstall(t *testing.T, e env) {
	for range 3 {
		e.Create(t, shoal.CreateSandboxRequest{Persistent: true})
	}
	e.Stop()
	cmd := exec.Command(harness.Binary(t, false), "uninstall", "--data-dir", e.Dir, "--yes")
	cmd.Env = append(harness.CleanEnvironment(), "SHOAL_RUNTIME_CGROUP_PARENT="+e.Cgroup())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("uninstall: %v\n%s", err, out)
	}
	for _, l := range harness.Leaks(e.Dir, e.Cgroup()) {
		t.Errorf("left on the machine: %s", l)
	}
	e.Restart(harness.Options{})
	for _, sb := range e.Sandboxes(t) {
		if sb.State != shoal.StateFailed {
			t.Errorf("a sandbox is %s after the uninstall", sb.State)
		}
	}
	e.deleteAll(t)
}

// TestStopDuringBuild stops the server in the middle of a template's build, by hand and by force.
func TestStopDuringBuild(t *testing.T) {
	needFull(t)
	e := env{harness.Start(t, harness.Options{NoTemplates: true})}
	for _, stop := range []func(){e.Stop, e.Kill} {
		e.Stop()
		e.Restart(harness.Options{})
		harness.Eventually(t, 2*time.Minute, "the build is under way", func() error {
			tmpl, err := e.Client.Templates().Get(ctx(t), "minimal")
			if err == nil && (tmpl.Percent < 10 || tmpl.State != "building") {
				err = fmt.Errorf("%s %d %%", tmpl.State, tmpl.Percent)
			}
			return err
		})
		begun := time.Now()
		stop()
		if took := time.Since(begun); took > 15*time.Second {
			t.Errorf("the server took %s to end", took)
		}
		harness.Eventually(t, 20*time.Second, "the build has ended with the server", func() error {
			return buildLeft(e.Dir)
		})
		e.Restart(harness.Options{NoTemplates: true})
	}
	e.Stop()
	e.Restart(harness.Options{})
	e.WaitTemplate("minimal")
	if trees, _ := filepath.Glob(filepath.Join(e.Dir, "pool/mnt/template/*/*")); len(trees) != 1 {
		t.Errorf("trees of templates: %v", trees)
	}
}

// buildLeft looks for processes that work below a data directory.
func buildLeft(dir string) error {
	roots, _ := filepath.Glob("/proc/[0-9]*/root")
	for _, r := range roots {
		for _, link := range []string{r, filepath.Join(filepath.Dir(r), "cwd")} {
			if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dir+"/pool/") {
				return fmt.Errorf("process %s works in %s", filepath.Base(filepath.Dir(r)), target)
			}
		}
	}
	return nil
}
