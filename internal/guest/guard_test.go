package guest_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
)

// shortMemory is a machine whose memory is used up as long as a process lives.
type shortMemory struct {
	mu     sync.Mutex
	holder string
}

const machineMemory = 256 << 20

func (m *shortMemory) Used() (used, limit int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holder == "" {
		return machineMemory / 2, machineMemory, nil
	}
	// A process that is dead but not yet waited for has no program any more.
	if _, err := os.Readlink("/proc/" + m.holder + "/exe"); err != nil {
		return machineMemory / 2, machineMemory, nil
	}
	return machineMemory, machineMemory, nil
}

func (m *shortMemory) isFull() bool {
	used, limit, _ := m.Used()
	return used >= limit
}

func (m *shortMemory) Close() error { return nil }

func (m *shortMemory) fullWhile(pid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holder = pid
}

// holding is a Python program that holds so many MiB and tells its process id.
func holding(mib string) string {
	return `python3 -c 'import os, time; x = b"x" * (` + mib + ` << 20); print("held", os.getpid(), flush=True); time.sleep(1000)'`
}

// started starts a script and returns the first thing that it says.
func (a *agent) started(t *testing.T, script string) (id core.ExecID, said string) {
	t.Helper()
	id = newID()
	s, err := a.client.Exec(t.Context(), id, shell(script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for {
		m, err := s.Recv()
		if err != nil || m.Kind == core.ExecEnded {
			t.Fatalf("the script said nothing: %+v, %v", m, err)
		}
		if m.Kind == core.ExecStdout {
			return id, strings.TrimPrefix(strings.TrimSpace(string(m.Data)), "held ")
		}
	}
}

func (a *agent) get(t *testing.T, id core.ExecID) core.Exec {
	t.Helper()
	e, err := a.client.GetExec(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestGuardKillsTheGreediest runs three execs and then runs out of memory until one has been killed.
func TestGuardKillsTheGreediest(t *testing.T) {
	m := &shortMemory{}
	a := startAgent(t, guest.Config{Memory: m}, client.Config{})
	small, _ := a.started(t, "echo small; sleep 1000")
	a.started(t, holding("30")+"; true")
	big, pid := a.started(t, "exec "+holding("120"))
	m.fullWhile(pid)
	eventually(t, "one is killed", func() bool { return a.get(t, big).Outcome != core.OutcomeRunning })
	if e := a.get(t, big); e.Outcome != core.OutcomeSignaled || e.Signal != "SIGKILL" || !e.OutOfMemory {
		t.Errorf("the greediest ended as %+v", e)
	}
	if s := a.get(t, big).Shortage; s.LimitBytes != machineMemory || s.UsedBytes != machineMemory || s.HeldBytes < 100<<20 {
		t.Errorf("the figures are %+v", s)
	}
	if e := a.get(t, small); e.Outcome != core.OutcomeRunning || e.OutOfMemory {
		t.Errorf("a small one: %+v", e)
	}
}

// TestGuardSparesTheShell has an interactive shell run a greedy job in the foreground: only the job is killed, the shell not even
// for what little it holds when memory stays short, and not for a greedy job in the background either. When the shell itself has
// become greedy, all is killed.
func TestGuardSparesTheShell(t *testing.T) {
	m := &shortMemory{}
	a := startAgent(t, guest.Config{Memory: m}, client.Config{})
	id := newID()
	s, err := a.client.Exec(t.Context(), id, core.ExecSpec{Cmd: []string{"sh", "-i"}, TTY: true, Rows: 24, Cols: 200, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	number := regexp.MustCompile(`held ([0-9]+)\r`)
	run := func(format string) (pid string) {
		if err := s.SendStdin(fmt.Appendf(nil, format+"\n", holding("100"))); err != nil {
			t.Fatal(err)
		}
		var said []byte
		for {
			msg, err := s.Recv()
			if err != nil || msg.Kind == core.ExecEnded {
				t.Fatalf("the shell said %q: %+v, %v", said, msg, err)
			}
			said = append(said, msg.Data...)
			if found := number.FindSubmatch(said); found != nil {
				return string(found[1])
			}
		}
	}
	for _, format := range []string{"%s", "%s & sleep 1000"} {
		m.fullWhile(run(format))
		eventually(t, "the job is killed", func() bool { return !m.isFull() })
		if e := a.get(t, id); e.Outcome != core.OutcomeRunning || !e.OutOfMemory {
			t.Errorf("after %q: %+v", format, e)
		}
	}
	if err := s.Signal("SIGINT"); err != nil { // ends the sleep, not the shell
		t.Fatal(err)
	}
	m.fullWhile(strconv.Itoa(os.Getpid()))
	if r := a.run(t, shell("sleep 0.6; echo done")); string(r.stdout) != "done\n" || r.exec.OutOfMemory {
		t.Errorf("%q, %+v", r.stdout, r.exec)
	}
	if e := a.get(t, id); e.Outcome != core.OutcomeRunning {
		t.Errorf("the shell was killed for crumbs: %+v", e)
	}
	m.fullWhile("")
	m.fullWhile(run("exec %s"))
	eventually(t, "all is killed", func() bool { return a.get(t, id).Outcome != core.OutcomeRunning })
	if e := a.get(t, id); e.Outcome != core.OutcomeSignaled || e.Signal != "SIGKILL" {
		t.Errorf("it ended as %+v", e)
	}
}
