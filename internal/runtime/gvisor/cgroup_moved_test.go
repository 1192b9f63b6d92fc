package gvisor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
)

// TestMovedCgroups has a sandbox below a former parent: it is found, limited and removed there, and new ones go to the new one.
func TestMovedCgroups(t *testing.T) {
	id, next := core.NewID(), core.NewID()
	f := unified(t, "old", "old/tree", "old/tree/"+id, "new", "new/tree", "new/tree/"+next)
	c, err := openAllCgroups(f.root, "new", []string{"old", "new", "gone"}, "tree")
	if err != nil {
		t.Fatal(err)
	}
	if hasFile(f.root, "gone") {
		t.Error("a parent that has nothing was made again")
	}
	f.write("old/tree/"+id+"/cgroup.procs", "77\n")
	if pids, err := c.processes(id); err != nil || !cmp.Equal(pids, []int{77}) {
		t.Errorf("processes: %v, %v", pids, err)
	}
	if err := c.limitCPU(id, 1); err != nil || f.read("old/tree/"+id+"/cpu.max") != "100000 100000" {
		t.Errorf("limit: %v", err)
	}
	if names, err := c.names(); err != nil || len(names) != 2 {
		t.Errorf("names: %v, %v", names, err)
	}
	if got, want := c.entries(next), []string{filepath.Join(f.root, "new/tree", next, "cgroup.procs")}; !cmp.Equal(got, want) {
		t.Errorf("entries %v, want %v", got, want)
	}
	if err := c.create(core.NewID(), 0); err != nil {
		t.Errorf("create: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Join(f.root, "new/tree")); err != nil || !hasFolders(entries, 2) {
		t.Errorf("the new one is not below the new parent: %v, %v", entries, err)
	}
}

func hasFolders(entries []os.DirEntry, want int) bool {
	n := 0
	for _, e := range entries {
		if e.IsDir() {
			n++
		}
	}
	return n == want
}
