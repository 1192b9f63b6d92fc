package node_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"shoal/internal/core"
	"shoal/internal/disk"
	diskfake "shoal/internal/disk/fake"
	runtimefake "shoal/internal/runtime/fake"
)

// put writes a sandbox's file.
func (s *server) put(t *testing.T, id core.SandboxID, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.tree(t, id), "mine"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// wantMine compares a sandbox's file; "" stands for none.
func (s *server) wantMine(t *testing.T, id core.SandboxID, want string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.tree(t, id), "mine"))
	if string(data) != want || (err == nil) != (want != "") {
		t.Errorf("its file is %q (%v), want %q", data, err, want)
	}
}

// restoring prepares a sandbox that has a checkpoint, and other files than that.
func (s *server) restoring(t *testing.T) core.NodeSpec {
	t.Helper()
	spec := s.create(t)
	s.put(t, spec.Sandbox, "saved")
	if _, err := s.Checkpoint(t.Context(), saved, spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.put(t, spec.Sandbox, "later")
	return spec
}

// restore restores a sandbox.
func (s *server) restore(ctx context.Context, spec core.NodeSpec, from core.TreeSource) error {
	spec.Source = from
	return s.Restore(ctx, spec)
}

// next is what the node is told for the next start, with what it needs reserved.
func (s *server) next(t *testing.T, spec core.NodeSpec) core.NodeSpec {
	t.Helper()
	spec.Incarnation++
	if err := s.Reserve(t.Context(), spec.Sandbox, spec.Resources); err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestRestore(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, s *server, id core.SandboxID){
		"running": func(*testing.T, *server, core.SandboxID) {},
		"stopped": func(t *testing.T, s *server, id core.SandboxID) {
			t.Helper()
			if err := s.Stop(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		},
		"failed": func(t *testing.T, s *server, id core.SandboxID) {
			t.Helper()
			if err := s.host.world.Crash(id, "test"); err != nil {
				t.Fatal(err)
			}
			s.exit(t)
		},
		"without a tree": func(t *testing.T, s *server, id core.SandboxID) {
			t.Helper()
			if err := s.Stop(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if err := s.disk.Delete(t.Context(), disk.Ref{Kind: disk.KindSandbox, ID: string(id)}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			spec := s.restoring(t)
			prepare(t, s, spec.Sandbox)
			if err := s.Restore(t.Context(), core.NodeSpec{Sandbox: "nobody"}); !core.IsCode(err, core.CodeInternal) {
				t.Errorf("without a reservation: %v", err)
			}
			spec = s.next(t, spec)
			for range 2 { // the same again does nothing
				if err := s.restore(t.Context(), spec, core.TreeSource{Checkpoint: saved}); err != nil {
					t.Fatal(err)
				}
				s.wantMine(t, spec.Sandbox, map[bool]string{true: "saved", false: "more"}[spec.Hostname != "again"])
				want := core.NodeSandbox{Sandbox: spec.Sandbox, Incarnation: spec.Incarnation, Epoch: spec.Epoch, Running: true}
				if got, _ := s.listed(t, spec.Sandbox); got != want || !s.reachable(t, spec.Sandbox) {
					t.Errorf("listed as %+v, want %+v", got, want)
				}
				s.put(t, spec.Sandbox, "more")
				spec.Hostname = "again"
			}
			s = s.restart()
			s.sweep(t, core.Known{
				Sandboxes: map[core.SandboxID]bool{spec.Sandbox: true}, Templates: map[core.TemplateID]bool{spec.Template: true},
				Checkpoints: map[core.CheckpointID]bool{saved: true},
			})
			if !s.reachable(t, spec.Sandbox) {
				t.Error("it was not taken over")
			}
			spec = s.next(t, spec)
			if err := s.restore(t.Context(), spec, core.TreeSource{Template: spec.Template}); err != nil {
				t.Fatal(err)
			}
			s.wantMine(t, spec.Sandbox, "")
			s.wantSavedMine(t)
			if left := s.exitsLeft(); len(left) != 0 {
				t.Errorf("a restore was reported as an exit: %v", left)
			}
		})
	}
}

// wantSavedMine holds that the checkpoint is as it was made.
func (s *server) wantSavedMine(t *testing.T) {
	t.Helper()
	dir, err := s.disk.Path(savedTree())
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "mine")); err != nil || string(data) != "saved" {
		t.Errorf("the checkpoint has %q, %v", data, err)
	}
}

// TestRestoreThatFails: the machine goes on if nothing was done; otherwise nothing runs, and the files are the old or the new.
func TestRestoreThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(s *server, id core.SandboxID)
		from core.TreeSource
		runs bool
		mine string
	}{
		"journal": {func(s *server, id core.SandboxID) { s.host.blockJournal(s.host.t, id) }, core.TreeSource{Checkpoint: saved}, true, "later"},
		"kill": {
			func(s *server, _ core.SandboxID) { s.host.world.SetFault(runtimefake.MethodKill, broken) },
			core.TreeSource{Checkpoint: saved},
			false, "later",
		},
		"no checkpoint": {func(*server, core.SandboxID) {}, core.TreeSource{Checkpoint: "gone"}, false, "later"},
		"replace":       {func(s *server, _ core.SandboxID) { s.disk.Fail(diskfake.OpReplace, errBroken) }, core.TreeSource{Checkpoint: saved}, false, "later"},
		"create": {
			func(s *server, _ core.SandboxID) { s.host.world.SetFault(runtimefake.MethodCreate, broken) },
			core.TreeSource{Checkpoint: saved},
			false, "saved",
		},
		"start": {
			func(s *server, _ core.SandboxID) { s.host.world.SetFault(runtimefake.MethodStart, broken) },
			core.TreeSource{Checkpoint: saved},
			false, "saved",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			spec := s.next(t, s.restoring(t))
			c.fail(s, spec.Sandbox)
			if err := s.restore(t.Context(), spec, c.from); err == nil {
				t.Fatal("it succeeded")
			}
			if got := s.reachable(t, spec.Sandbox); got != c.runs {
				t.Errorf("it is reachable: %v", got)
			}
			s.wantMine(t, spec.Sandbox, c.mine)
			s.wantSavedMine(t)
			if c.runs {
				return
			}
			for _, m := range []runtimefake.Method{runtimefake.MethodKill, runtimefake.MethodCreate, runtimefake.MethodStart} {
				s.host.world.SetFault(m, nil)
			}
			s.disk.Fail(diskfake.OpReplace, nil)
			spec = s.next(t, spec)
			if err := s.restore(t.Context(), spec, core.TreeSource{Checkpoint: saved}); err != nil {
				t.Fatalf("the next one: %v", err)
			}
			s.wantMine(t, spec.Sandbox, "saved")
		})
	}
}

// TestRestoreCanceled: a delete ends it, and finds nothing left.
func TestRestoreCanceled(t *testing.T) {
	s := start(t)
	spec := s.next(t, s.restoring(t))
	ctx, cancel := context.WithCancel(t.Context())
	s.disk.SetHook(func(_ context.Context, c diskfake.Call) error {
		if c.Op == diskfake.OpReplace {
			cancel()
		}
		return nil
	})
	if err := s.restore(ctx, spec, core.TreeSource{Checkpoint: saved}); !core.IsCode(err, core.CodeCanceled) {
		t.Errorf("got %v", err)
	}
	s.disk.SetHook(nil)
	if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteCheckpoint(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
	s.wantNothing(t)
}
