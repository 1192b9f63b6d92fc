package gvisor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/runtime/gvisor"
)

// TestKillInAnyCondition damages a running sandbox in every way that has been thought of, restarts the driver, and wants Kill
// to leave nothing.
func TestKillInAnyCondition(t *testing.T) {
	h := newHost(t)
	t.Cleanup(h.sweep)
	record := func(id core.SandboxID) string { return filepath.Join(h.cfg.StateDir, string(id)+".json") }
	for name, damage := range map[string]func(t *testing.T, id core.SandboxID, p pids){
		"healthy":        func(*testing.T, core.SandboxID, pids) {},
		"sentry dead":    func(t *testing.T, _ core.SandboxID, p pids) { t.Helper(); signal(t, p.Sentry.PID, unix.SIGKILL) },
		"gofer dead":     func(t *testing.T, _ core.SandboxID, p pids) { t.Helper(); signal(t, p.Gofer.PID, unix.SIGKILL) },
		"sentry stopped": func(t *testing.T, _ core.SandboxID, p pids) { t.Helper(); signal(t, p.Sentry.PID, unix.SIGSTOP) },
		"record corrupt": func(t *testing.T, id core.SandboxID, _ pids) { t.Helper(); overwrite(t, record(id), "{") },
		"record empty":   func(t *testing.T, id core.SandboxID, _ pids) { t.Helper(); overwrite(t, record(id), "") },
		"record gone":    func(t *testing.T, id core.SandboxID, _ pids) { t.Helper(); remove(t, record(id)) },
		"record of strangers": func(t *testing.T, id core.SandboxID, _ pids) {
			t.Helper()
			overwrite(t, record(id), `{"id":"`+string(id)+`","sentry":{"pid":1,"start":1},"gofer":{"pid":2,"start":2}}`)
		},
		"library state corrupt": func(t *testing.T, id core.SandboxID, _ pids) {
			t.Helper()
			paths, err := filepath.Glob(filepath.Join(h.cfg.StateDir, string(id)+"*.state"))
			if err != nil || len(paths) != 1 {
				t.Fatalf("state files: %v, %v", paths, err)
			}
			overwrite(t, paths[0], "{")
		},
		"all state gone": func(t *testing.T, id core.SandboxID, _ pids) {
			t.Helper()
			paths, err := filepath.Glob(filepath.Join(h.cfg.StateDir, "*"+string(id)+"*"))
			if err != nil || len(paths) == 0 {
				t.Fatalf("state files: %v, %v", paths, err)
			}
			for _, p := range paths {
				remove(t, p)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := h.openFor(t)
			id, _ := h.started(t, first)
			p := h.processes(t, id)
			damage(t, id, p)
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			d := h.openFor(t)
			t.Cleanup(func() { d.Close() })
			list, err := d.List(t.Context())
			if err != nil || len(list) != 1 || list[0].ID != id {
				t.Errorf("List: %+v, %v", list, err)
			}
			if err := d.Kill(t.Context(), id); err != nil {
				t.Fatalf("Kill: %v", err)
			}
			h.wantNothing(t, d, p)
		})
	}
}

// wantNothing checks that no process, file or group of any sandbox is left.
func (h *host) wantNothing(t *testing.T, d *gvisor.Driver, p pids) {
	t.Helper()
	for _, pid := range []int{p.Sentry.PID, p.Gofer.PID} {
		if pid == 0 {
			continue
		}
		if err := unix.Kill(pid, 0); err == nil {
			t.Errorf("process %d is still there, if only as a zombie", pid)
		}
	}
	entries, err := os.ReadDir(h.cfg.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "null-netns" {
			t.Errorf("left in the state directory: %s", e.Name())
		}
	}
	if list, err := d.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("List: %+v, %v", list, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), h.dir) {
		t.Error("a mount is left below the test's directory")
	}
}

// TestExitReasons wants an exit to say what ended the sandbox.
func TestExitReasons(t *testing.T) {
	h := newHost(t)
	t.Cleanup(h.sweep)
	d := h.open()
	t.Cleanup(func() { d.Close() })
	id, agent := h.started(t, d)
	if _, err := agent.Ask("exit 7"); err == nil {
		t.Error("an agent that ends answers")
	}
	if e := <-d.Exits(); e.ID != id || !strings.Contains(e.Reason, "status 7") {
		t.Errorf("Exit: %+v", e)
	}
	id, _ = h.started(t, d)
	signal(t, h.processes(t, id).Sentry.PID, unix.SIGKILL)
	if e := <-d.Exits(); e.ID != id || !strings.Contains(e.Reason, "signal 9") {
		t.Errorf("Exit: %+v", e)
	}
}

// TestPrograms shows that a sandbox goes on when the server is another binary, that its digest is told, and that its program is
// kept as long as it runs.
func TestPrograms(t *testing.T) {
	h := newHost(t)
	t.Cleanup(h.sweep)
	old := h.open()
	id, agent := h.started(t, old)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	// The same program with one byte more is another binary.
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	h.cfg.Executable = filepath.Join(h.dir, "upgraded")
	if err := os.WriteFile(h.cfg.Executable, append(self, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	d := h.open()
	t.Cleanup(func() { d.Close() })
	if err := d.Adopt(t.Context(), id, 1); err != nil {
		t.Fatalf("Adopt: %v", err)
	}
	if got := agent.Must(t, "echo on"); got != "on" {
		t.Errorf("echo: %q", got)
	}
	st, err := d.Status(t.Context(), id)
	if err != nil || st.Digest != old.Digest() || st.Digest == d.Digest() {
		t.Errorf("Status: %+v, %v; the digests are %s and %s", st, err, old.Digest(), d.Digest())
	}
	exe, err := os.Readlink(filepath.Join("/proc", itoa(st.PID), "exe"))
	if want := filepath.Join(h.cfg.BinDir, old.Digest(), "shoal"); err != nil || exe != want {
		t.Errorf("the sentry runs %q, %v, want %q", exe, err, want)
	}
	if removed, err := d.CollectPrograms(t.Context()); err != nil || len(removed) != 0 {
		t.Errorf("CollectPrograms while the old one is in use: %v, %v", removed, err)
	}
	if err := d.Kill(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if removed, err := d.CollectPrograms(t.Context(), old.Digest()); err != nil || len(removed) != 0 {
		t.Errorf("CollectPrograms with the old one named: %v, %v", removed, err)
	}
	if removed, err := d.CollectPrograms(t.Context()); err != nil || len(removed) != 1 || removed[0] != old.Digest() {
		t.Errorf("CollectPrograms: %v, %v", removed, err)
	}
	next, _ := h.started(t, d)
	if st, err := d.Status(t.Context(), next); err != nil || st.Digest != d.Digest() {
		t.Errorf("Status of a new sandbox: %+v, %v", st, err)
	}
}

// TestHostileTmp plants what a guest may have made of its /tmp before the next start.
func TestHostileTmp(t *testing.T) {
	h := newHost(t)
	t.Cleanup(h.sweep)
	d := h.open()
	t.Cleanup(func() { d.Close() })
	tmp := filepath.Join(h.root, "tmp")
	for name, plant := range map[string]func() error{
		"missing":                 func() error { return nil },
		"link to the host":        func() error { return os.Symlink("/etc", tmp) },
		"link upwards":            func() error { return os.Symlink("../../../../../../etc", tmp) },
		"link that leads nowhere": func() error { return os.Symlink("/nowhere", tmp) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.RemoveAll(tmp); err != nil {
				t.Fatal(err)
			}
			if err := plant(); err != nil {
				t.Fatal(err)
			}
			id, agent := h.started(t, d)
			if got := agent.Must(t, "read /tmp/passwd"); !strings.HasPrefix(got, "error") {
				t.Errorf("the host's file is seen inside: %.80s", got)
			}
			if got := agent.Must(t, "write /tmp/mine x"); got != "ok" {
				t.Errorf("write to /tmp: %s", got)
			}
			if _, err := os.Lstat("/etc/mine"); err == nil {
				t.Error("the guest wrote to the host's /etc")
			}
			if err := d.Kill(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestRestrictedMounts starts a sandbox whose tree is on a mount like the pool's: nosuid, nodev, below a closed folder.
func TestRestrictedMounts(t *testing.T) {
	h := newHost(t)
	t.Cleanup(h.sweep)
	pool := filepath.Join(h.dir, "closed", "pool")
	if err := os.MkdirAll(pool, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("test-pool", pool, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(pool, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	h.root = filepath.Join(pool, "tree")
	h.makeTree(h.root)
	d := h.open()
	t.Cleanup(func() { d.Close() })
	id, agent := h.started(t, d)
	if got := agent.Must(t, "write /tmp/x y"); got != "ok" {
		t.Errorf("write: %s", got)
	}
	if got := agent.Must(t, "stat /tmp"); got != "0 0 41777" {
		t.Errorf("/tmp: %s", got)
	}
	if err := d.Kill(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}
