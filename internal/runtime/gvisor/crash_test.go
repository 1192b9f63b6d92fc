package gvisor_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	contract "shoal/internal/runtime"
	"shoal/internal/runtime/gvisor"
)

// doomedDir, in the environment, makes the test binary a server that creates and starts one sandbox and waits to be killed.
const doomedDir = "SHOAL_TEST_DOOMED_DIR"

// doomed is main of such a server.
func doomed(dir string) int {
	ctx := context.Background()
	d, err := gvisor.Open(ctx, gvisor.Config{
		StateDir: filepath.Join(dir, "runtime"), BinDir: filepath.Join(dir, "bin"), CgroupParent: "shoal-test",
		DialSlot: func(context.Context, core.SandboxID, uint16) (net.Conn, error) { return nil, unix.ENOTSUP },
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s, err := newSlot()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	id := core.SandboxID(core.NewID())
	fmt.Println("ready")
	err = d.Create(ctx, contract.Spec{
		ID: id, Incarnation: 1, RootFS: filepath.Join(dir, "tree"), RunDir: filepath.Join(dir, "run"), NetNS: s.path(),
		Hostname: "box", Resources: core.Resources{VCPUs: 1, MemoryBytes: 256 << 20},
	})
	if err == nil {
		err = d.Start(ctx, id)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	select {}
}

// TestKillMinusNineOfTheServer kills the server at moments from before to after a create, and wants the next one to find and
// remove whatever there is.
func TestKillMinusNineOfTheServer(t *testing.T) {
	h := newHost(t)
	t.Cleanup(h.sweep)
	d := h.open()
	t.Cleanup(func() { d.Close() })
	for _, ms := range []int{0, 5, 12, 20, 30, 45, 60, 90, 130, 200, 300} {
		server := exec.Command("/proc/self/exe")
		server.Env = append(os.Environ(), doomedDir+"="+h.dir)
		server.Stderr = os.Stderr
		out, err := server.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 16)); err != nil {
			t.Fatalf("the server did not come up: %v", err)
		}
		<-time.After(time.Duration(ms) * time.Millisecond)
		if err := server.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Wait(); err == nil {
			t.Error("a killed server ended well")
		}
		list, err := d.List(t.Context())
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		for _, st := range list {
			p, _ := h.lookProcesses(st.ID)
			if err := d.Kill(t.Context(), st.ID); err != nil {
				t.Fatalf("Kill after %d ms: %v", ms, err)
			}
			h.wantNothing(t, d, p)
		}
	}
}

// TestNeighbourOutOfMemory has the limit above all sandboxes be used up by somebody else: a small sandbox beside goes on.
func TestNeighbourOutOfMemory(t *testing.T) {
	h := newHost(t)
	t.Cleanup(h.sweep)
	d := h.open()
	t.Cleanup(func() { d.Close() })
	id, agent := h.started(t, d)
	groups, err := filepath.Glob(gvisor.DefaultCgroupRoot + "/memory/shoal-test/*/" + string(id))
	if err != nil || len(groups) != 1 {
		t.Skipf("no memory controller of cgroup v1 here: %v, %v", groups, err)
	}
	parent := filepath.Dir(groups[0])
	overwrite(t, filepath.Join(parent, "memory.limit_in_bytes"), "134217728")
	hog := exec.Command("sh", "-c", "echo $$ >"+parent+"/cgroup.procs; exec tail /dev/zero")
	if err := hog.Run(); err == nil || hog.ProcessState.ExitCode() != -1 {
		t.Fatalf("the hog ended as %v, %v", hog.ProcessState, err)
	}
	select {
	case e := <-d.Exits():
		t.Errorf("the neighbour ended: %+v", e)
	case <-time.After(1500 * time.Millisecond): // longer than the driver waits for a kill
	}
	if got := agent.Must(t, "echo alive"); got != "alive" {
		t.Errorf("the neighbour says %q", got)
	}
}

// TestAdoptSilent restarts the driver while a sandbox's kernel is held: silence is not death, and it goes on afterwards.
func TestAdoptSilent(t *testing.T) {
	h := newHost(t)
	t.Cleanup(h.sweep)
	first := h.open()
	id, agent := h.started(t, first)
	p := h.processes(t, id)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	signal(t, p.Sentry.PID, unix.SIGSTOP)
	d := h.open()
	t.Cleanup(func() { d.Close() })
	err := d.Adopt(t.Context(), id, 1)
	signal(t, p.Sentry.PID, unix.SIGCONT)
	if err != nil {
		t.Fatalf("Adopt: %v", err)
	}
	if got := agent.Must(t, "echo alive"); got != "alive" {
		t.Errorf("afterwards it says %q", got)
	}
	signal(t, p.Sentry.PID, unix.SIGKILL)
	if e := <-d.Exits(); e.ID != id {
		t.Errorf("its end: %+v", e)
	}
}
