package gvisor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
)

// fakeFS is a directory with control files, since a real hierarchy of each version is not at hand everywhere. The kernel's
// part, the files in a new group, is played by populate.
type fakeFS struct {
	t    *testing.T
	root string
}

// write makes a file with its folders.
func (f fakeFS) write(path, text string) {
	f.t.Helper()
	full := filepath.Join(f.root, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f fakeFS) read(path string) string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.root, path))
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

const unifiedControllers = "cpuset cpu io memory pids"

// unified returns a v2 tree in which the groups named have the kernel's files.
func unified(t *testing.T, groups ...string) fakeFS {
	t.Helper()
	f := fakeFS{t, t.TempDir()}
	for _, g := range append([]string{""}, groups...) {
		f.write(filepath.Join(g, "cgroup.controllers"), unifiedControllers)
		f.write(filepath.Join(g, "cgroup.subtree_control"), "")
		f.write(filepath.Join(g, "cgroup.procs"), "")
		for _, name := range []string{"memory.max", "memory.swap.max", "memory.oom.group", "cpu.max", "cpu.max.burst", "cgroup.kill"} {
			f.write(filepath.Join(g, name), "")
		}
	}
	return f
}

func TestCgroups2EnablesControllersDownToTheParent(t *testing.T) {
	f := unified(t, "shoal", "shoal/tree")
	c, err := openCgroups(f.root, "shoal", "tree")
	if err != nil {
		t.Fatal(err)
	}
	if !c.limitsCPU() || !c.limitsMemory() {
		t.Error("limits are there but not advertised")
	}
	for _, g := range []string{"", "shoal", "shoal/tree"} {
		// A plain file keeps the last of the writes, with the rest of a longer one before it.
		if got := f.read(filepath.Join(g, "cgroup.subtree_control")); !strings.HasPrefix(got, "+cpu") {
			t.Errorf("%q: subtree_control was set to %q", g, got)
		}
	}
}

func TestCgroups2WithoutAController(t *testing.T) {
	f := unified(t, "shoal", "shoal/tree")
	f.write("shoal/cgroup.controllers", "cpu pids")
	c, err := openCgroups(f.root, "shoal", "tree")
	if err != nil {
		t.Fatal(err)
	}
	if c.limitsMemory() || !c.limitsCPU() {
		t.Errorf("memory %v, cpu %v", c.limitsMemory(), c.limitsCPU())
	}
}

func TestCgroups2Limits(t *testing.T) {
	id := core.NewID()
	group := "shoal/tree/" + id
	f := unified(t, "shoal", "shoal/tree", group)
	c, err := openCgroups(f.root, "shoal", "tree")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.create(id, hardMemory(1<<30)), c.limitCPU(id, 1.5)); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"memory.max": "1207959552", "memory.swap.max": "0", "memory.oom.group": "1", "cpu.max": "150000 100000", "cpu.max.burst": "150000",
	} {
		if got := f.read(filepath.Join(group, file)); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	if diff := cmp.Diff([]string{filepath.Join(f.root, group, "cgroup.procs")}, c.entries(id)); diff != "" {
		t.Error(diff)
	}
	names, err := c.names()
	if diff := cmp.Diff([]string{id}, names); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if _, err := c.killAll(id); err != nil {
		t.Errorf("killAll: %v", err)
	}
	if got := f.read(filepath.Join(group, "cgroup.kill")); got != "1" {
		t.Errorf("cgroup.kill is %q", got)
	}
}

func TestCgroups2Usage(t *testing.T) {
	id := core.NewID()
	group := "shoal/tree/" + id
	f := unified(t, "shoal", "shoal/tree", group)
	c, err := openCgroups(f.root, "shoal", "tree")
	if err != nil {
		t.Fatal(err)
	}
	f.write(group+"/memory.current", "3000\n")
	f.write(group+"/memory.stat", "anon 1000\ninactive_file 500\n")
	f.write(group+"/memory.max", "max\n")
	f.write(group+"/cpu.stat", "usage_usec 1500000\nuser_usec 1\n")
	f.write(group+"/memory.events", "low 0\noom 1\noom_kill 2\n")
	got, err := c.usage(id)
	want := cgroupUsage{cpuSeconds: 1.5, memoryBytes: 2500}
	if err != nil || got != want {
		t.Errorf("usage %+v, %v, want %+v", got, err, want)
	}
	for events, want := range map[string]shortage{
		"low 0\noom 1\noom_kill 2\n": ownShortage,
		"low 0\noom 0\noom_kill 1\n": hostShortage,
		"low 0\noom 1\noom_kill 0\n": noShortage,
	} {
		f.write(group+"/memory.events", events)
		if got := c.outOfMemory(id); got != want {
			t.Errorf("with %q: shortage %d, want %d", events, got, want)
		}
	}
	if _, err := c.usage(core.NewID()); err == nil {
		t.Error("usage of a group that is not there")
	}
}

func TestCgroups1Limits(t *testing.T) {
	id := core.NewID()
	f := fakeFS{t, t.TempDir()}
	for _, c := range []string{"memory", "cpu", "cpuacct"} {
		f.write(c+"/cgroup.procs", "")
		for _, file := range []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us"} {
			f.write(filepath.Join(c, "shoal/tree", file), "")
			f.write(filepath.Join(c, "shoal/tree", id, file), "")
		}
		f.write(filepath.Join(c, "shoal/tree", id, "cgroup.procs"), "0\n")
	}
	c, err := openCgroups(f.root, "shoal", "tree")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.create(id, hardMemory(256<<20)), c.limitCPU(id, 0.001)); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"memory/shoal/tree/" + id + "/memory.limit_in_bytes":       "402653184",
		"memory/shoal/tree/" + id + "/memory.memsw.limit_in_bytes": "402653184",
		"cpu/shoal/tree/" + id + "/cpu.cfs_quota_us":               "1000",
		"cpu/shoal/tree/" + id + "/cpu.cfs_burst_us":               "1000",
		"cpu/shoal/tree/" + id + "/cpu.cfs_period_us":              "100000",
	} {
		if got := f.read(file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	if got := c.entries(id); len(got) != 3 {
		t.Errorf("entries: %v", got)
	}
	// A process of another namespace shows as 0. Killing it would kill our own process group.
	if pids, err := c.processes(id); err != nil || len(pids) != 0 {
		t.Errorf("processes: %v, %v", pids, err)
	}
}

func TestCgroupsMissing(t *testing.T) {
	if _, err := openCgroups(t.TempDir(), "shoal", "tree"); err == nil {
		t.Error("a host without control groups was taken")
	}
	for _, parent := range []string{"", "/", "."} {
		if _, err := openCgroups(t.TempDir(), parent, "tree"); err == nil {
			t.Errorf("parent %q was taken", parent)
		}
	}
}

func TestRemoveGroupTakesFoldersOnly(t *testing.T) {
	f := fakeFS{t, t.TempDir()}
	for _, d := range []string{"a/b/c", "a/d"} {
		if err := os.MkdirAll(filepath.Join(f.root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeGroup(filepath.Join(f.root, "a")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(f.root, "a")); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
	if err := removeGroup(filepath.Join(f.root, "a")); err != nil {
		t.Errorf("second time: %v", err)
	}
	f.write("x/file", "kept")
	if err := removeGroup(filepath.Join(f.root, "x")); err == nil {
		t.Error("a folder with a file in it is no group")
	}
}
