package node_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"shoal/internal/core"
	diskfake "shoal/internal/disk/fake"
	networkfake "shoal/internal/network/fake"
	"shoal/internal/runtime"
	runtimefake "shoal/internal/runtime/fake"
)

// TestExit: a machine that ends by itself is told of once, holds nothing but its tree, and can be deleted.
func TestExit(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	g, err := s.Guest(spec.Sandbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.host.world.Crash(spec.Sandbox, "it ran out of memory"); err != nil {
		t.Fatal(err)
	}
	want := core.NodeExit{Sandbox: spec.Sandbox, Incarnation: spec.Incarnation, Reason: "it ran out of memory"}
	if got := s.exit(t); got != want {
		t.Errorf("exit %+v, want %+v", got, want)
	}
	if s.reachable(t, spec.Sandbox) {
		t.Error("reachable")
	}
	if err := g.Ping(t.Context()); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("ping through what was reachable before: %v", err)
	}
	if _, err := s.Metrics(t.Context(), spec.Sandbox); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("metrics: %v, want unavailable", err)
	}
	if got, want := s.trace(t), (trace{trees: string(spec.Sandbox), journal: string(spec.Sandbox)}); got != want {
		t.Errorf("left %+v, want %+v", got, want)
	}
	if got, ok := s.listed(t, spec.Sandbox); !ok || got.Running {
		t.Errorf("listed as %+v, %v", got, ok)
	}
	if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.wantNothing(t)
	if left := s.exitsLeft(); len(left) != 0 {
		t.Errorf("told again: %v", left)
	}
}

// TestExitIsNotHeldUp: a machine whose remains can't be removed keeps no other from being told of.
func TestExitIsNotHeldUp(t *testing.T) {
	s := start(t)
	stuck, other := s.create(t), s.create(t)
	release := make(chan struct{})
	entered := make(chan struct{}, 10)
	s.host.world.SetFault(runtimefake.MethodKill, func(ctx context.Context, id core.SandboxID) error {
		if id != stuck.Sandbox {
			return nil
		}
		entered <- struct{}{}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	for _, id := range []core.SandboxID{stuck.Sandbox, other.Sandbox} {
		if err := s.host.world.Crash(id, "test"); err != nil {
			t.Fatal(err)
		}
	}
	<-entered
	if e := s.exit(t); e.Sandbox != other.Sandbox {
		t.Errorf("exit of %s, want %s", e.Sandbox, other.Sandbox)
	}
	// A delete waits for the clean-up, as long as its caller does.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Delete(ctx, stuck.Sandbox); !core.IsCode(err, core.CodeTimeout) {
		t.Errorf("delete meanwhile: %v, want timeout", err)
	}
	close(release)
	if e := s.exit(t); e.Sandbox != stuck.Sandbox {
		t.Errorf("exit of %s, want %s", e.Sandbox, stuck.Sandbox)
	}
}

// TestExitUncleaned: what can't be cleaned up is told of all the same, and a delete removes it.
func TestExitUncleaned(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	s.host.world.SetFault(runtimefake.MethodKill, func(context.Context, core.SandboxID) error { return errBroken })
	if err := s.host.world.Crash(spec.Sandbox, "test"); err != nil {
		t.Fatal(err)
	}
	s.exit(t)
	s.host.world.SetFault(runtimefake.MethodKill, nil)
	if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.wantNothing(t)
}

// TestCloseDuringExit: Close does not wait for a clean-up that hangs.
func TestCloseDuringExit(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	entered := make(chan struct{})
	s.host.world.SetFault(runtimefake.MethodKill, func(ctx context.Context, _ core.SandboxID) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	})
	if err := s.host.world.Crash(spec.Sandbox, "test"); err != nil {
		t.Fatal(err)
	}
	<-entered
	s.stop()
	s.host.world.SetFault(runtimefake.MethodKill, nil)
	s = s.host.open()
	s.sweep(t, known(spec.Sandbox))
	if got, want := s.trace(t), (trace{trees: string(spec.Sandbox), journal: string(spec.Sandbox)}); got != want {
		t.Errorf("left %+v, want %+v", got, want)
	}
}

// TestExitRacesDelete: whoever comes first, everything is gone, and the end is told of at most once.
func TestExitRacesDelete(t *testing.T) {
	s := start(t)
	const rounds = 40
	told := map[core.SandboxID]int{}
	for range rounds {
		spec := s.create(t)
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.host.world.Crash(spec.Sandbox, "test") })
		wg.Go(func() {
			if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
				t.Errorf("delete: %v", err)
			}
		})
		wg.Wait()
	}
	// Clean-ups that wait for their turn come after the last delete; a new create and delete would find their traces.
	for _, e := range s.exitsLeft() {
		told[e.Sandbox]++
		if told[e.Sandbox] > 1 {
			t.Errorf("%s was told of %d times", e.Sandbox, told[e.Sandbox])
		}
	}
	s = s.host.open()
	s.sweep(t, known())
	s.wantNothing(t)
}

// TestExitRacesCreate: a machine that ends around the end of its create is either a failed create that leaves nothing, or a
// sandbox that ran and whose end is told of.
func TestExitRacesCreate(t *testing.T) {
	s := start(t)
	for i := range 60 {
		spec := s.reserve(t)
		var wg sync.WaitGroup
		started := make(chan struct{})
		s.host.world.SetFault(runtimefake.MethodDial, func(_ context.Context, id core.SandboxID) error {
			if id == spec.Sandbox {
				close(started)
				s.host.world.SetFault(runtimefake.MethodDial, nil)
			}
			return nil
		})
		wg.Go(func() {
			<-started
			for range i * 20 {
				_, _ = s.Guest("nobody")
			}
			if err := s.host.world.Crash(spec.Sandbox, "test"); err != nil {
				t.Errorf("crash: %v", err)
			}
		})
		err := s.Create(t.Context(), spec)
		wg.Wait()
		if err == nil {
			if e := s.exit(t); e.Sandbox != spec.Sandbox {
				t.Errorf("exit of %s, want %s", e.Sandbox, spec.Sandbox)
			}
			if s.reachable(t, spec.Sandbox) {
				t.Error("reachable after its end")
			}
			if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
				t.Errorf("delete: %v", err)
			}
		} else if !core.IsCode(err, core.CodeUnavailable) {
			t.Errorf("create: %v, want unavailable", err)
		}
		s.wantNothing(t)
	}
	if left := s.exitsLeft(); len(left) != 0 {
		t.Errorf("told again: %v", left)
	}
}

// TestDeleteGoesOn: a delete that fails anywhere holds on to what it may not have removed, and repeated it ends.
func TestDeleteGoesOn(t *testing.T) {
	for name, fail := range map[string]func(s *server, err error){
		"kill": func(s *server, err error) {
			s.host.world.SetFault(runtimefake.MethodKill, func(context.Context, core.SandboxID) error { return err })
		},
		"detach": func(s *server, err error) {
			if err != nil {
				s.network.Inject(networkfake.Fault{Op: networkfake.OpDetach, Times: 1, Err: err})
			}
		},
		"detach, done": func(s *server, err error) {
			if err != nil {
				s.network.Inject(networkfake.Fault{Op: networkfake.OpDetach, Times: 1, Err: err, After: true})
			}
		},
		"tree": func(s *server, err error) { s.disk.Fail(diskfake.OpDelete, err) },
	} {
		for _, restart := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := start(t)
				spec := s.create(t)
				fail(s, core.Errorf(core.CodeUnavailable, "not now"))
				if err := s.Delete(t.Context(), spec.Sandbox); !core.IsCode(err, core.CodeUnavailable) {
					t.Errorf("delete: %v, want unavailable", err)
				}
				if got := s.trace(t); got.journal != string(spec.Sandbox) || got.trees != string(spec.Sandbox) || got.reserved != 1 {
					t.Errorf("half removed and forgotten: %+v", got)
				}
				if s.reachable(t, spec.Sandbox) {
					t.Error("reachable")
				}
				fail(s, nil)
				if restart {
					s = s.restart()
					s.sweep(t, known(spec.Sandbox))
				} else if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
					t.Errorf("delete again: %v", err)
				}
				s.wantNothing(t)
			})
		}
	}
}

// TestDeleteOnFullDisk: a journal that takes no more entries does not stop what would give it room.
func TestDeleteOnFullDisk(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	s.host.blockJournal(t, spec.Sandbox)
	blocked := s.host.journalPath(spec.Sandbox) + ".new"
	if err := os.WriteFile(filepath.Join(blocked, "full"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	s.wantNothing(t)
}

func TestDeleteUnknown(t *testing.T) {
	s := start(t)
	if err := s.Delete(t.Context(), core.SandboxID(core.NewID())); err != nil {
		t.Errorf("delete of nothing: %v", err)
	}
}

func TestMetrics(t *testing.T) {
	s := start(t)
	if _, err := s.Metrics(t.Context(), core.SandboxID(core.NewID())); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("of nothing: %v, want unavailable", err)
	}
	spec := s.create(t)
	m, err := s.Metrics(t.Context(), spec.Sandbox)
	if err != nil || m.MemoryBytes != 16*mib || m.MemoryLimitBytes != spec.Resources.MemoryBytes || m.Processes < 1 || m.DiskBytes != -1 || m.At.IsZero() {
		t.Errorf("%+v, %v", m, err)
	}
	// A sandbox whose kernel says nothing still costs what the host sees.
	s.host.world.SetStats(func(_ core.SandboxID, st *runtime.Stats) { st.Processes, st.PSSBytes = -1, 3*mib })
	if m, err := s.Metrics(t.Context(), spec.Sandbox); err != nil || m.Processes != -1 || m.PSSBytes != 3*mib || m.MemoryBytes != 16*mib {
		t.Errorf("of a silent one: %+v, %v", m, err)
	}
	s.host.world.SetStats(nil)
	s.disk.Fail(diskfake.OpUsage, core.Errorf(core.CodeUnsupported, "no quotas"))
	if m, err := s.Metrics(t.Context(), spec.Sandbox); err != nil || m.DiskBytes != -1 {
		t.Errorf("without quotas: %+v, %v", m, err)
	}
	s.disk.Fail(diskfake.OpUsage, errBroken)
	if _, err := s.Metrics(t.Context(), spec.Sandbox); !core.IsCode(err, core.CodeInternal) {
		t.Errorf("with a broken disk: %v", err)
	}
	s.disk.Fail(diskfake.OpUsage, nil)
	s.host.world.SetFault(runtimefake.MethodStats, func(context.Context, core.SandboxID) error { return errBroken })
	if _, err := s.Metrics(t.Context(), spec.Sandbox); !core.IsCode(err, core.CodeInternal) {
		t.Errorf("with a broken runtime: %v", err)
	}
}
