package e2e_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// forks forks a sandbox, and has the forks deleted at the end.
func (e env) forks(t *testing.T, sandbox string, req shoal.ForkSandboxRequest) []shoal.Sandbox {
	t.Helper()
	list, err := e.Client.Sandboxes().Fork(ctx(t), sandbox, req)
	if err != nil {
		t.Fatalf("fork: %v", err)
	}
	for _, sb := range list {
		e.DeleteAtEnd(t, sb.ID)
	}
	return list
}

// testForkFiles: the files of a fork are its parent's at one moment, with what was written right before, while a program writes on; each has an
// identity of its own, and no fork sees another's writes.
func testForkFiles(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Name: "parent", Env: map[string]string{"A": "1", "B": "2"}})
	if _, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Shell: pair}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 20*time.Second, "it counts", func() error {
		if out := e.Out(t, sb.ID, "cat /pair/d 2>/dev/null | head -c 20"); len(out) < 20 || out == strings.Repeat("0", 20) {
			return fmt.Errorf("it is at %q", out)
		}
		return nil
	})
	e.Out(t, sb.ID, "printf sentinel >/root/sentinel")
	count, memory := 3, int64(128<<20)
	list := e.forks(t, sb.ID, shoal.ForkSandboxRequest{
		Count: &count, NamePrefix: "fork-", MemoryBytes: &memory, Env: map[string]string{"B": "3"}, Labels: map[string]string{"of": "parent"},
	})
	const look = `cat /root/sentinel; for f in a b c d; do echo; head -c 20 /pair/$f; done; echo; hostname; cat /etc/machine-id; echo $A$B`
	seen := map[string]bool{strings.TrimSpace(e.Out(t, sb.ID, "cat /etc/machine-id")): true}
	var files string
	for i, fork := range list {
		lines := strings.Fields(e.Out(t, fork.ID, look))
		if len(lines) != 8 || lines[0] != "sentinel" || lines[5] != fmt.Sprintf("fork-%d", i) || seen[lines[6]] || lines[7] != "13" {
			t.Fatalf("fork %d has %q", i, lines)
		}
		seen[lines[6]] = true
		var n [4]int
		for j := range n {
			n[j], _ = strconv.Atoi(lines[1+j])
		}
		if n[0] == 0 || n[0]-n[3] > 1 || n[0] < n[1] || n[1] < n[2] || n[2] < n[3] {
			t.Errorf("the files are of several moments: %v", n)
		}
		if all := fmt.Sprint(n); files == "" {
			files = all
		} else if all != files {
			t.Errorf("fork %d has %s, another %s", i, all, files)
		}
		if fork.Parent != sb.ID || fork.Source == "" || fork.Source != list[0].Source || fork.MemoryBytes != memory || fork.Labels["of"] != "parent" {
			t.Errorf("fork %d is %+v", i, fork)
		}
		e.Out(t, fork.ID, "printf mine >/root/sentinel")
	}
	if got := e.Out(t, sb.ID, "cat /root/sentinel"); got != "sentinel" {
		t.Errorf("the parent has %q", got)
	}
	before := e.Out(t, sb.ID, "head -c 20 /pair/a")
	harness.Eventually(t, 20*time.Second, "the parent goes on counting", func() error {
		if now := e.Out(t, sb.ID, "head -c 20 /pair/a"); now <= before {
			return fmt.Errorf("it is at %s", now)
		}
		return nil
	})
}

// testForkLineage: forks of forks live on when their parents, and checkpoints in the middle, are gone; what is shared stays; the checkpoint of a fork
// goes with the last of its sandboxes, and a stopped sandbox is forked as it lies.
func testForkLineage(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	e.Out(t, sb.ID, "head -c 3000000 /dev/urandom >/root/big; sha256sum </root/big >/root/sum")
	middle := e.save(t, sb.ID, shoal.CreateCheckpointRequest{})
	if _, err := e.Client.Sandboxes().Stop(ctx(t), sb.ID, shoal.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	first := e.forks(t, sb.ID, shoal.ForkSandboxRequest{})[0]
	if got, err := e.Client.Sandboxes().Get(ctx(t), sb.ID); err != nil || got.State != "stopped" {
		t.Errorf("the parent is %s, %v", got.State, err)
	}
	e.Out(t, first.ID, "echo first >/root/word")
	second := e.forks(t, first.ID, shoal.ForkSandboxRequest{})[0]
	from, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{FromCheckpoint: middle.ID})
	if err != nil {
		t.Fatal(err)
	}
	e.DeleteAtEnd(t, from.ID)
	err = errors.Join(
		e.Client.Checkpoints().Delete(ctx(t), middle.ID), e.Client.Sandboxes().Delete(ctx(t), sb.ID), e.Client.Sandboxes().Delete(ctx(t), first.ID))
	if err != nil {
		t.Fatal(err)
	}
	e.noCheckpoint(t, middle.ID)
	e.noCheckpoint(t, first.Source) // its only fork is gone
	e.treeOf(t, second.Source)
	third := e.forks(t, second.ID, shoal.ForkSandboxRequest{})[0]
	for name, id := range map[string]string{"second": second.ID, "third": third.ID, "from the checkpoint": from.ID} {
		if out := e.Out(t, id, "sha256sum </root/big | cmp - /root/sum && cat /root/word 2>/dev/null; echo"); (strings.TrimSpace(out) == "first") == (id == from.ID) {
			t.Errorf("%s has %q", name, out)
		}
	}
	if err := errors.Join(e.Client.Sandboxes().Delete(ctx(t), second.ID), e.Client.Sandboxes().Delete(ctx(t), third.ID)); err != nil {
		t.Fatal(err)
	}
	e.noCheckpoint(t, second.Source)
	e.noCheckpoint(t, third.Source)
}
