package gvisor_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/runtime/gvisor"
	"shoal/internal/runtime/runtimetest"
)

// pids are the processes that a record names.
type pids struct {
	Sentry struct {
		PID int `json:"pid"`
	} `json:"sentry"`
	Gofer struct {
		PID int `json:"pid"`
	} `json:"gofer"`
}

// processes reads a sandbox's record.
func (h *host) processes(tb testing.TB, id core.SandboxID) pids {
	tb.Helper()
	p, err := h.lookProcesses(id)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// lookProcesses is processes for a record that may not be there.
func (h *host) lookProcesses(id core.SandboxID) (p pids, err error) {
	text, err := os.ReadFile(filepath.Join(h.cfg.StateDir, string(id)+".json"))
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(text, &p)
}

// started makes a sandbox whose agent answers.
func (h *host) started(tb testing.TB, d *gvisor.Driver) (core.SandboxID, *runtimetest.Session) {
	tb.Helper()
	id := core.SandboxID(core.NewID())
	if err := d.Create(tb.Context(), h.spec(id)); err != nil {
		tb.Fatalf("Create: %v", err)
	}
	if err := d.Start(tb.Context(), id); err != nil {
		tb.Fatalf("Start: %v", err)
	}
	return id, runtimetest.Dial(tb, d, id)
}

// statusFields returns /proc/PID/status by key.
func statusFields(tb testing.TB, pid int) map[string]string {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		tb.Fatal(err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(text)) {
		k, v, _ := strings.Cut(line, ":")
		fields[k] = strings.TrimSpace(v)
	}
	return fields
}

// The capabilities that sentry and gofer may have, in their own user namespace: file ownership and permissions over the mapped
// range, chroot, and tracing, by which the sentry runs its guest.
const allowedCaps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER |
	1<<unix.CAP_FSETID | 1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_SYS_PTRACE

// TestProcessesAreNobody shows that what runs for a sandbox is no user of the host, has few capabilities in a user namespace
// of its own, is under a filter, and has inherited nothing of the server's.
func TestProcessesAreNobody(t *testing.T) {
	t.Setenv("SHOAL_TEST_SECRET", "must not be inherited")
	h := newHost(t)
	secrets := openSecrets(t, h.dir)
	d := h.open()
	t.Cleanup(h.sweep)
	t.Cleanup(func() { d.Close() })
	id, agent := h.started(t, d)

	p := h.processes(t, id)
	for name, pid := range map[string]int{"sentry": p.Sentry.PID, "gofer": p.Gofer.PID} {
		t.Run(name, func(t *testing.T) {
			checkIdentity(t, pid)
			checkInheritance(t, pid, secrets)
		})
	}
	t.Run("whole group", func(t *testing.T) {
		for _, pid := range h.groupPIDs(t, id) {
			for _, uid := range strings.Fields(statusFields(t, pid)["Uid"]) {
				if n, err := strconv.Atoi(uid); err != nil || n < gvisor.DefaultOwnerUID {
					t.Errorf("process %d runs as uid %s", pid, uid)
				}
			}
		}
	})
	t.Run("guest", func(t *testing.T) {
		if got := agent.Must(t, "stat /etc/secret"); got != "0 0 100600" {
			t.Errorf("a file of the mapped root looks like %q inside", got)
		}
		if got := agent.Must(t, "write /tmp/here durable"); got != "ok" {
			t.Errorf("write: %q", got)
		}
		text, err := os.ReadFile(filepath.Join(h.root, "tmp/here"))
		if err != nil || string(text) != "durable" {
			t.Errorf("/tmp is not on the tree: %q, %v", text, err)
		}
		if got := agent.Must(t, "write /run/shoal/agent x"); !strings.HasPrefix(got, "error") {
			t.Errorf("the run directory can be written: %q", got)
		}
		if got := agent.Must(t, "read /proc/meminfo"); !strings.Contains(got, "MemTotal:         262144 kB") {
			t.Errorf("memory inside is not the limit: %.60s", got)
		}
		if got, want := agent.Must(t, "cpus"), strconv.Itoa(min(2, goruntime.NumCPU())); got != want {
			t.Errorf("processors inside: %s, want %s", got, want)
		}
	})
}

// checkIdentity checks who a process is on the host.
func checkIdentity(t *testing.T, pid int) {
	t.Helper()
	status := statusFields(t, pid)
	for _, key := range []string{"Uid", "Gid"} {
		for _, id := range strings.Fields(status[key]) {
			n, err := strconv.Atoi(id)
			if err != nil || n < gvisor.DefaultOwnerUID || n >= gvisor.DefaultOwnerUID+gvisor.DefaultOwnerCount {
				t.Errorf("%s: %s is not in the mapped range", key, status[key])
			}
		}
	}
	for _, key := range []string{"CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb"} {
		set, err := strconv.ParseUint(status[key], 16, 64)
		if err != nil || set&^uint64(allowedCaps) != 0 {
			t.Errorf("%s: %s has more than %x", key, status[key], allowedCaps)
		}
	}
	if status["Seccomp"] != "2" {
		t.Errorf("Seccomp: %s, want a filter", status["Seccomp"])
	}
	for _, ns := range []string{"user", "mnt", "pid", "ipc", "uts", "net"} {
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns))
		if err != nil {
			t.Fatal(err)
		}
		if ours, err := os.Readlink("/proc/self/ns/" + ns); err != nil || ours == theirs {
			t.Errorf("namespace %s is the host's: %s, %v", ns, theirs, err)
		}
	}
}

// openSecrets opens what a server has open, inheritable as if by mistake, and returns what the descriptors lead to.
func openSecrets(t *testing.T, dir string) []string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	listener, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	files := []*os.File{listener}
	for _, name := range []string{"admin.key", "shoal.db"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	for _, f := range files {
		t.Cleanup(func() { f.Close() })
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
			t.Fatal(err)
		}
		target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	return targets
}

// checkInheritance checks a process's descriptors and environment.
func checkInheritance(t *testing.T, pid int, secrets []string) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // Closed meanwhile.
		}
		for _, s := range secrets {
			if target == s {
				t.Errorf("descriptor %s is the server's %s", e.Name(), s)
			}
		}
		// Only what is special to a process, the null device, and its own tree may be open.
		if strings.HasPrefix(target, "/") && !allowedFile(target) {
			t.Errorf("descriptor %s is %s", e.Name(), target)
		}
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(env), "SHOAL_TEST_SECRET") {
		t.Error("the server's environment was inherited")
	}
}

// allowedFile reports whether a sandbox's process may have a path open. Paths are shown as they are in its own root or
// filesystem; the group's files are how Go's own runtime follows its processor limit.
func allowedFile(target string) bool {
	for _, prefix := range []string{"/dev/null", "/null", "/memfd:", "/bundle-", "/shoal-test/", "/proc", "/root", "/tmp", "/run/shoal", "/tree", "/run"} {
		if target == "/" || strings.HasPrefix(target, prefix) {
			return true
		}
	}
	return false
}

// groupPIDs are all processes in a sandbox's control group.
func (h *host) groupPIDs(tb testing.TB, id core.SandboxID) []int {
	tb.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/memory/shoal-test/*/%s/cgroup.procs", "/sys/fs/cgroup/shoal-test/*/%s/cgroup.procs"} {
		paths, err := filepath.Glob(fmt.Sprintf(pattern, id))
		if err != nil || len(paths) != 1 {
			continue
		}
		text, err := os.ReadFile(paths[0])
		if err != nil {
			tb.Fatal(err)
		}
		var list []int
		for _, f := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(f)
			if err != nil {
				tb.Fatal(err)
			}
			list = append(list, n)
		}
		return list
	}
	tb.Fatal("no control group found")
	return nil
}

// TestFilterIsFoundAhead shows that a real sentry uses the table, not only that the table is right.
func TestFilterIsFoundAhead(t *testing.T) {
	h := newHost(t)
	logs := filepath.Join(h.dir, "logs")
	if err := os.Mkdir(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	h.cfg.DebugLogDir = logs
	d := h.open()
	t.Cleanup(h.sweep)
	t.Cleanup(func() { d.Close() })
	h.started(t, d)
	paths, err := filepath.Glob(filepath.Join(logs, "*boot*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no log of the sentry: %v, %v", paths, err)
	}
	text, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "Loaded precompiled seccomp instructions") {
		t.Error("the sentry compiled its filter itself: its key is not in the table")
	}
}
