package guest_test

import (
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
)

// TestProcesses reads what runs on this machine, as an agent that is not the sandbox's init sees it.
func TestProcesses(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	s, err := a.client.Exec(t.Context(), core.ExecID(core.NewID()), core.ExecSpec{Cmd: []string{"sleep", "4321"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	first, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // this process's own, which is the agent's too
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	list, err := a.client.Processes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list.Processes, func(p core.Process) bool { return p.Command == "sleep 4321" })
	if i < 0 && list.MoreProcesses == 0 {
		t.Fatalf("it is not among %d", len(list.Processes))
	}
	if i >= 0 {
		p := list.Processes[i]
		if p.PID != first.Exec.PID || p.UID != os.Geteuid() || time.Since(p.StartedAt).Abs() > time.Hour {
			t.Errorf("%+v, want pid %d", p, first.Exec.PID)
		}
	}
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	for _, x := range list.Listeners {
		if x.Port == port {
			t.Errorf("the agent's own listener is told: %+v", x)
		}
	}
	if slices.ContainsFunc(list.Processes, func(p core.Process) bool { return p.PID == os.Getpid() }) {
		t.Error("the agent itself is told")
	}
}
