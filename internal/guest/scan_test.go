package guest

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

// TestLeaderWithoutMark: a leader whose environment the kernel does not show yet is a member all the same, and what descends
// from it too; another process with its number is not.
func TestLeaderWithoutMark(t *testing.T) {
	g, err := scanner{proc: "/proc"}.make("exec-of-this-test")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "sleep 1000 & echo $!; exec sleep 1001")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if pids, err := g.pids(); err != nil || len(pids) != 0 {
		t.Errorf("before it is told of its leader: %v, %v", pids, err)
	}
	g.lead(cmd.Process.Pid)
	if pids, err := g.pids(); err != nil || len(pids) != 2 || !slices.Contains(pids, cmd.Process.Pid) {
		t.Errorf("members %v, %v, want the leader %d and its child", pids, err, cmd.Process.Pid)
	}
	other := &scanned{proc: "/proc", mark: []byte("NO=mark"), leader: os.Getpid(), started: "1"}
	if pids, err := other.pids(); err != nil || len(pids) != 0 {
		t.Errorf("with the leader's number used again: %v, %v", pids, err)
	}
	if err := g.kill(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the leader lived on")
	}
	if pids, err := g.pids(); err != nil || len(pids) != 0 {
		t.Errorf("after the kill: %v, %v", pids, err)
	}
}
