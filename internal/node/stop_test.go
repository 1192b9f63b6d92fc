package node_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/core"
	"shoal/internal/disk"
	diskfake "shoal/internal/disk/fake"
	networkfake "shoal/internal/network/fake"
	runtimefake "shoal/internal/runtime/fake"
)

// tree returns the directory of a sandbox's tree.
func (s *server) tree(t *testing.T, id core.SandboxID) string {
	t.Helper()
	dir, err := s.disk.Path(disk.Ref{Kind: disk.KindSandbox, ID: string(id)})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// wantStopped asserts that nothing but the tree and the journal entry is there.
func (s *server) wantStopped(t *testing.T, id core.SandboxID) {
	t.Helper()
	if got, want := s.trace(t), (trace{trees: string(id), journal: string(id)}); got != want {
		t.Errorf("a stopped sandbox is %+v, want %+v", got, want)
	}
	if s.reachable(t, id) {
		t.Error("it is reachable")
	}
	if _, listed := s.listed(t, id); listed {
		t.Error("it is listed with those that run")
	}
}

// wake wakes a sandbox as its next incarnation.
func (s *server) wake(t *testing.T, spec core.NodeSpec) core.NodeSpec {
	t.Helper()
	spec.Incarnation++
	if err := s.Reserve(t.Context(), spec.Sandbox, spec.Resources); err != nil {
		t.Fatal(err)
	}
	if err := s.Wake(t.Context(), spec); err != nil {
		t.Fatalf("wake: %v", err)
	}
	return spec
}

// broken fails.
func broken(context.Context, core.SandboxID) error { return errBroken }

func TestStopKeepsTheTree(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	running := s.trace(t)
	mine := filepath.Join(s.tree(t, spec.Sandbox), "mine")
	if err := os.WriteFile(mine, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Stop(t.Context(), spec.Sandbox); err != nil {
			t.Fatal(err)
		}
		s.wantStopped(t, spec.Sandbox)
	}
	if _, err := s.Files(t.Context(), spec.Sandbox); err != nil {
		t.Errorf("its files: %v", err)
	}
	if err := s.Wake(t.Context(), spec); !core.IsCode(err, core.CodeInternal) {
		t.Errorf("a wake without a reservation: %v", err)
	}
	for range 3 { // many times, and with restarts between
		spec = s.wake(t, spec)
		if got := s.trace(t); got != running {
			t.Errorf("awake it is %+v, want %+v", got, running)
		}
		want := core.NodeSandbox{Sandbox: spec.Sandbox, Incarnation: spec.Incarnation, Epoch: spec.Epoch, Running: true}
		if got, _ := s.listed(t, spec.Sandbox); got != want {
			t.Errorf("listed as %+v, want %+v", got, want)
		}
		if err := s.Wake(t.Context(), spec); err != nil {
			t.Errorf("the same wake again: %v", err)
		}
		other := spec
		other.Incarnation++
		if err := s.Wake(t.Context(), other); !core.IsCode(err, core.CodeConflict) {
			t.Errorf("another wake of what runs: %v", err)
		}
		if data, err := os.ReadFile(mine); err != nil || string(data) != "kept" {
			t.Errorf("its file: %q, %v", data, err)
		}
		s = s.restart()
		s.sweep(t, known(spec.Sandbox))
		if !s.reachable(t, spec.Sandbox) {
			t.Error("it was not taken over")
		}
		if err := s.Stop(t.Context(), spec.Sandbox); err != nil {
			t.Fatal(err)
		}
		s = s.restart()
		s.sweep(t, known(spec.Sandbox))
		s.wantStopped(t, spec.Sandbox)
	}
	if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.wantNothing(t)
	if left := s.exitsLeft(); len(left) != 0 {
		t.Errorf("a stop was reported as an exit: %v", left)
	}
}

// TestStopIsDurable: a stop that is answered has had the tree flushed, after the last process of the sandbox ended.
func TestStopIsDurable(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	flushed := false
	s.disk.SetHook(func(_ context.Context, c diskfake.Call) error {
		if c.Op == diskfake.OpFlush && c.Ref.ID == string(spec.Sandbox) {
			flushed = true
			if len(s.host.world.Specs()) != 0 {
				t.Error("its machine is still there")
			}
		}
		return nil
	})
	if err := s.Stop(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	if !flushed {
		t.Error("its tree was not flushed")
	}
	s.disk.SetHook(nil)
	s.disk.Fail(diskfake.OpFlush, errBroken)
	if err := s.Stop(t.Context(), spec.Sandbox); err == nil {
		t.Error("a flush that failed is no error")
	}
}

// TestWakeOnAFullDisk: what is stopped can be woken when the disk has no room for new sandboxes.
func TestWakeOnAFullDisk(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	if err := s.Stop(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.host.limits.MinDiskFreeBytes = 10 * mib
	s = s.host.open()
	s.disk.SetSpace(disk.Space{TotalBytes: 100 * mib, FreeBytes: 10*mib - 1})
	wantExhausted(t, s.Reserve(t.Context(), core.SandboxID(core.NewID()), spec.Resources))
	s.wake(t, spec)
	if !s.reachable(t, spec.Sandbox) {
		t.Error("it does not answer")
	}
}

// TestRestartSaysStopped holds that a start tells stopped sandboxes from lost ones.
func TestRestartSaysStopped(t *testing.T) {
	s := start(t)
	stopped, runs := s.create(t), s.create(t)
	if err := s.Stop(t.Context(), stopped.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.host.log.take()
	s = s.host.open()
	if said := s.host.log.take(); !strings.Contains(said, "taken_over=1 not_taken_over=0 stopped=1\n") {
		t.Errorf("it says:\n%s", said)
	}
	s.sweep(t, known(runs.Sandbox)) // the stopped one has no record
	if n := s.host.aside(t, disk.KindSandbox, string(stopped.Sandbox)); n != 1 {
		t.Errorf("%d trees were set aside", n)
	}
}

// TestStopCutOff: whatever of it was left when the server died is gone after the sweep, and it can be woken.
func TestStopCutOff(t *testing.T) {
	for _, phase := range []string{"stopped", "waking"} {
		t.Run(phase, func(t *testing.T) {
			s := start(t)
			spec := s.create(t)
			s.host.setPhase(t, spec.Sandbox, phase)
			s = s.restart()
			if s.reachable(t, spec.Sandbox) {
				t.Error("it was taken over")
			}
			s.sweep(t, known(spec.Sandbox))
			s.wantStopped(t, spec.Sandbox)
			spec = s.wake(t, spec)
			if !s.reachable(t, spec.Sandbox) {
				t.Error("it does not answer")
			}
		})
	}
}

// TestWakeOfWhatWasLost: the journal may be older than the store after a power cut, or have no entry at all.
func TestWakeOfWhatWasLost(t *testing.T) {
	for name, change := range map[string]func(h *host, id core.SandboxID) error{
		"no entry":      func(h *host, id core.SandboxID) error { return os.Remove(h.journalPath(id)) },
		"damaged entry": func(h *host, id core.SandboxID) error { return os.WriteFile(h.journalPath(id), []byte("{"), 0o600) },
		"older entry":   func(h *host, id core.SandboxID) error { h.setPhase(h.t, id, "running"); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			spec := s.create(t)
			if err := s.Stop(t.Context(), spec.Sandbox); err != nil {
				t.Fatal(err)
			}
			if err := change(s.host, spec.Sandbox); err != nil {
				t.Fatal(err)
			}
			s = s.restart()
			s.sweep(t, known(spec.Sandbox))
			if err := s.Stop(t.Context(), spec.Sandbox); err != nil {
				t.Errorf("stop: %v", err)
			}
			s.wake(t, spec)
			if !s.reachable(t, spec.Sandbox) {
				t.Error("it does not answer")
			}
		})
	}
}

// TestWakeThatFails leaves what was there: the tree, and nothing else; the next one succeeds.
func TestWakeThatFails(t *testing.T) {
	for name, fail := range map[string]func(s *server, id core.SandboxID){
		"journal": func(s *server, id core.SandboxID) { s.host.blockJournal(s.host.t, id) },
		"attach": func(s *server, _ core.SandboxID) {
			s.network.Inject(networkfake.Fault{Op: networkfake.OpAttach, Times: 1, Err: errBroken})
		},
		"create": func(s *server, _ core.SandboxID) {
			s.host.world.SetFault(runtimefake.MethodCreate, broken)
		},
		"start": func(s *server, _ core.SandboxID) {
			s.host.world.SetFault(runtimefake.MethodStart, broken)
		},
		"limit": func(*server, core.SandboxID) {}, // which this disk can't enforce
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			spec := s.create(t)
			if err := s.Stop(t.Context(), spec.Sandbox); err != nil {
				t.Fatal(err)
			}
			fail(s, spec.Sandbox)
			next := spec
			next.Incarnation++
			if name == "limit" {
				next.Resources.DiskBytes = 16 * mib
			}
			if err := s.Reserve(t.Context(), spec.Sandbox, spec.Resources); err != nil {
				t.Fatal(err)
			}
			if err := s.Wake(t.Context(), next); err == nil {
				t.Fatal("it was woken")
			}
			next.Resources.DiskBytes = 0
			s.host.world.SetFault(runtimefake.MethodCreate, nil)
			s.host.world.SetFault(runtimefake.MethodStart, nil)
			s.wantStopped(t, spec.Sandbox)
			if _, err := os.Stat(filepath.Join(s.tree(t, spec.Sandbox), "file")); err != nil {
				t.Error(err)
			}
			s.wake(t, next)
			if !s.reachable(t, spec.Sandbox) {
				t.Error("it does not answer")
			}
		})
	}
}

// TestStopOnAFullDisk: what the journal can't be told isn't begun.
func TestStopOnAFullDisk(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	s.host.blockJournal(t, spec.Sandbox)
	if err := s.Stop(t.Context(), spec.Sandbox); err == nil {
		t.Fatal("it was stopped")
	}
	if !s.reachable(t, spec.Sandbox) {
		t.Error("it does not run any more")
	}
	if err := s.Stop(t.Context(), spec.Sandbox); err != nil { // the next write succeeds
		t.Fatal(err)
	}
	s.wantStopped(t, spec.Sandbox)
}

// TestStopOfWhatEnded: one that ended by itself is stopped too, and its end, told late, takes nothing from its next life.
func TestStopOfWhatEnded(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	if err := s.host.world.Crash(spec.Sandbox, "test"); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.wake(t, spec)
	s.exit(t)
	if !s.reachable(t, spec.Sandbox) || s.trace(t).reserved != 1 {
		t.Error("the end of its earlier life was taken for that of this one")
	}
}

// TestDeleteOfStopped starts nothing.
func TestDeleteOfStopped(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	if err := s.Stop(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.host.world.SetFault(runtimefake.MethodCreate, broken)
	if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.wantNothing(t)
	if err := s.Stop(t.Context(), spec.Sandbox); err != nil {
		t.Errorf("stop of what is gone: %v", err)
	}
	s.wantNothing(t)
}
