package gvisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"shoal/internal/blockdev"
	"shoal/internal/core"
)

// disks are a loop device on a disk with a scheduler.
func disks(scheduler string) []blockdev.Device {
	return []blockdev.Device{{Name: "loop0", Number: "7:0", Scheduler: "none"}, {Name: "sda", Number: "8:0", Scheduler: scheduler}}
}

func TestCgroups2IOWeight(t *testing.T) {
	for name, tc := range map[string]struct {
		qos, controllers string
		files            []string
		devices          []blockdev.Device
		file             string
		most             int
		lacks            string
	}{
		"cost model":        {"8:0 enable=1 ctrl=auto", unifiedControllers, []string{"io.weight", "io.bfq.weight"}, disks("bfq"), "io.weight", 10_000, ""},
		"bfq":               {"8:0 enable=0", unifiedControllers, []string{"io.weight", "io.bfq.weight"}, disks("bfq"), "io.bfq.weight", 1000, ""},
		"no scheduler":      {"8:16 enable=1", unifiedControllers, []string{"io.weight"}, disks("mq-deadline"), "", 0, "loop0 (none), sda (mq-deadline)"},
		"not passed on":     {"8:0 enable=1", "cpu memory", []string{"io.weight"}, disks("none"), "", 0, "io controller"},
		"kernel without":    {"", unifiedControllers, nil, disks("bfq"), "", 0, "CONFIG_BFQ_GROUP_IOSCHED"},
		"files on no block": {"", unifiedControllers, nil, nil, "", 0, "no block device"},
	} {
		t.Run(name, func(t *testing.T) {
			id := core.NewID()
			f := unified(t, "shoal", "shoal/tree", "shoal/tree/"+id)
			f.write("io.cost.qos", tc.qos+"\n")
			f.write("shoal/cgroup.controllers", tc.controllers)
			for _, file := range tc.files {
				f.write("shoal/tree/"+file, "default 100\n")
				f.write("shoal/tree/"+id+"/"+file, "")
			}
			c, err := openCgroups(f.root, "shoal", "tree")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.useDevices(tc.devices); err != nil {
				t.Fatal(err)
			}
			got := c.weighsIO()
			if got.file != tc.file || got.most != tc.most || (got.lacks == "") != (tc.lacks == "") || !strings.Contains(got.lacks, tc.lacks) {
				t.Errorf("%+v, want %q up to %d, lacking %q", got, tc.file, tc.most, tc.lacks)
			}
			if err := c.weighIO(id, 50); err != nil {
				t.Fatal(err)
			}
			for _, file := range tc.files {
				want := ""
				if file == tc.file {
					want = "50"
				}
				if text := f.read("shoal/tree/" + id + "/" + file); text != want {
					t.Errorf("%s is %q, want %q", file, text, want)
				}
			}
			if enabled := strings.Contains(f.read("cgroup.subtree_control"), "+io"); enabled != (tc.lacks == "" || name == "kernel without" || name == "not passed on") {
				t.Errorf("the io controller is switched on: %v", enabled)
			}
		})
	}
}

// oneHierarchies is a host with version 1 in which the sandboxes named have groups for memory.
func oneHierarchies(t *testing.T, ids ...string) fakeFS {
	t.Helper()
	f := fakeFS{t, t.TempDir()}
	for _, c := range []string{"memory", ioController1} {
		f.write(c+"/cgroup.procs", "")
	}
	for _, id := range ids {
		f.write("memory/shoal/tree/"+id+"/cgroup.procs", "4194305\n")
	}
	return f
}

func TestCgroups1IOWeight(t *testing.T) {
	for name, tc := range map[string]struct {
		files   []string
		devices []blockdev.Device
		file    string
		lacks   string
	}{
		"bfq":            {[]string{"blkio.weight", "blkio.bfq.weight"}, disks("bfq"), "blkio.bfq.weight", ""},
		"cfq":            {[]string{"blkio.weight"}, disks("cfq"), "blkio.weight", ""},
		"no scheduler":   {[]string{"blkio.bfq.weight"}, disks("none"), "", "scheduler bfq"},
		"kernel without": {nil, disks("bfq"), "", "CONFIG_BFQ_GROUP_IOSCHED"},
	} {
		t.Run(name, func(t *testing.T) {
			fresh := core.NewID()
			f := oneHierarchies(t)
			for _, file := range tc.files {
				f.write("blkio/shoal/tree/"+file, "100")
				f.write("blkio/shoal/tree/"+fresh+"/"+file, "")
			}
			c, err := openCgroups(f.root, "shoal", "tree")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.useDevices(tc.devices); err != nil {
				t.Fatal(err)
			}
			got := c.weighsIO()
			if got.file != tc.file || !strings.Contains(got.lacks, tc.lacks) || (got.most == 1000) != (tc.lacks == "") {
				t.Errorf("%+v, want %q, lacking %q", got, tc.file, tc.lacks)
			}
			if err := c.weighIO(fresh, 50); err != nil {
				t.Fatal(err)
			}
			if tc.file != "" && f.read("blkio/shoal/tree/"+fresh+"/"+tc.file) != "50" {
				t.Errorf("the weight is %q", f.read("blkio/shoal/tree/"+fresh+"/"+tc.file))
			}
			if entries := len(c.entries(fresh)); (entries == 2) != (tc.file != "") {
				t.Errorf("a sandbox enters %d groups", entries)
			}
		})
	}
}

// TestCgroups1WithoutDisks has no hierarchy for disks.
func TestCgroups1WithoutDisks(t *testing.T) {
	f := fakeFS{t, t.TempDir()}
	f.write("memory/cgroup.procs", "")
	c, err := openCgroups(f.root, "shoal", "tree")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.useDevices(disks("bfq")); err != nil || !strings.Contains(c.weighsIO().lacks, "blkio") {
		t.Errorf("%+v: %v", c.weighsIO(), err)
	}
}

// TestCgroups1FormerIOGroups removes groups of a time when weights meant something, on a real kernel, and moves what was started without one.
func TestCgroups1FormerIOGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("SHOAL_REQUIRE_ROOT") != "" {
			t.Fatal("needs root: makes control groups")
		}
		t.Skip("needs root: makes control groups")
	}
	if !hasFile(filepath.Join(DefaultCgroupRoot, ioController1), "blkio.bfq.io_serviced") {
		t.Skip("no blkio controller of cgroup v1 with BFQ here")
	}
	open := func(scheduler string) cgroupTree {
		t.Helper()
		c, err := openCgroups(DefaultCgroupRoot, "shoal-test-io", "tree")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.useDevices(disks(scheduler)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	id := core.NewID()
	before := open("none")
	if err := before.create(id, 0); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("tail", "-f", "/dev/null")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, path := range before.entries(id) {
		if err := writeControl(filepath.Dir(path), filepath.Base(path), strconv.Itoa(cmd.Process.Pid)); err != nil {
			t.Error(err)
		}
	}
	weighed := open("bfq")
	if err := weighed.weighIO(id, 50); err != nil {
		t.Fatal(err)
	}
	group := filepath.Join(DefaultCgroupRoot, ioController1, "shoal-test-io/tree", id)
	if pids, err := readPIDs(filepath.Join(group, "cgroup.procs")); err != nil || len(pids) != 1 || pids[0] != cmd.Process.Pid {
		t.Errorf("in the group are %v, not %d: %v", pids, cmd.Process.Pid, err)
	}
	if n, err := readNumber(group, "blkio.bfq.weight"); err != nil || n != 50 {
		t.Errorf("the weight is %d: %v", n, err)
	}
	after := open("none")
	if names, err := after.names(); err != nil || len(names) != 1 {
		t.Errorf("names %v: %v", names, err)
	}
	if _, err := after.killAll(id); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if err := after.remove(id); err != nil {
		t.Error(err)
	}
	if hasFile(group, "") {
		t.Error("the group is left")
	}
	if err := after.uninstall(); err != nil || hasFile(filepath.Join(DefaultCgroupRoot, ioController1, "shoal-test-io"), "") {
		t.Errorf("uninstall: %v", err)
	}
}
