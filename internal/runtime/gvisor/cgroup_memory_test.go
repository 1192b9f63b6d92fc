package gvisor

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"shoal/internal/core"
)

// hog starts a program that takes memory without end in a group, and waits until the kernel has killed it.
func hog(t *testing.T, c cgroupTree, name string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read go; exec tail /dev/zero")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, path := range c.entries(name) {
		if err := writeControl(filepath.Dir(path), filepath.Base(path), strconv.Itoa(cmd.Process.Pid)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // that it fails is what is waited for
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		t.Fatalf("the hog ended as %v", cmd.ProcessState)
	}
}

// TestShortageIsToldApart uses up the memory of one group's own limit and of a limit above all groups, on a real kernel: who is
// short of what is told apart, and a bystander has an event but no shortage.
func TestShortageIsToldApart(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("SHOAL_REQUIRE_ROOT") != "" {
			t.Fatal("needs root: makes control groups")
		}
		t.Skip("needs root: makes control groups")
	}
	c, err := openCgroups(DefaultCgroupRoot, "shoal-test-shortage", "tree")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{core.NewID(), core.NewID(), core.NewID()}
	t.Cleanup(func() {
		for _, n := range names {
			if err := c.remove(n); err != nil {
				t.Errorf("remove: %v", err)
			}
		}
		if err := c.uninstall(); err != nil {
			t.Errorf("uninstall: %v", err)
		}
	})
	one, isOne := c.(*cgroups1)
	if !c.limitsMemory() || !isOne {
		t.Skip("no memory controller of cgroup v1 here: on v2 the kernel tells by itself")
	}
	own, other, bystander := names[0], names[1], names[2]
	for n, limit := range map[string]int64{own: 32 << 20, other: 0, bystander: 0} {
		if err := c.create(n, limit); err != nil {
			t.Fatal(err)
		}
	}
	hog(t, c, own)
	if got := c.outOfMemory(own); got != ownShortage {
		t.Errorf("at its own limit: shortage %d", got)
	}
	event, err := c.watchMemory(bystander)
	if err != nil {
		t.Fatal(err)
	}
	defer event.Close()
	if err := one.limitMemory("", 64<<20); err != nil {
		t.Fatal(err)
	}
	hog(t, c, other)
	if got := c.outOfMemory(other); got != hostShortage {
		t.Errorf("at a limit above: shortage %d", got)
	}
	if !drain(event) {
		t.Error("the kernel has told the bystander nothing: then the watch is more careful than it must be")
	}
	if got := c.outOfMemory(bystander); got != noShortage {
		t.Errorf("the bystander: shortage %d", got)
	}
}
