package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/disk"
	diskfake "shoal/internal/disk/fake"
	runtimefake "shoal/internal/runtime/fake"
)

// saved is the checkpoint that the tests make.
const saved core.CheckpointID = "saved"

func savedTree() disk.Ref { return disk.Ref{Kind: disk.KindCheckpoint, ID: string(saved)} }

// wantSaved checks the file of a checkpoint's tree.
func (s *server) wantSaved(t *testing.T, want string) {
	t.Helper()
	path, err := s.disk.Path(savedTree())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(path, "result")); err != nil || string(got) != want {
		t.Errorf("the checkpoint has %q, %v", got, err)
	}
}

func (s *server) hasCheckpoint(t *testing.T) bool {
	t.Helper()
	has, err := s.HasCheckpoint(t.Context(), saved)
	if err != nil {
		t.Fatal(err)
	}
	return has
}

// TestCheckpoint: the sandbox is held while its tree is cloned, and before and afterwards it isn't.
func TestCheckpoint(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	s.work(t, spec.Sandbox)
	var held []bool
	s.disk.SetHook(func(_ context.Context, c diskfake.Call) error {
		if c.Op == diskfake.OpFlush || c.Op == diskfake.OpClone {
			held = append(held, s.host.world.Frozen(spec.Sandbox))
		}
		return nil
	})
	for range 2 { // Once more: it is there.
		if _, err := s.Checkpoint(t.Context(), saved, spec.Sandbox); err != nil {
			t.Fatal(err)
		}
	}
	s.disk.SetHook(nil)
	if len(held) != 2 || held[0] || !held[1] {
		t.Errorf("at the flush and at the clone it was held: %v", held)
	}
	if s.host.world.Frozen(spec.Sandbox) || !s.reachable(t, spec.Sandbox) {
		t.Error("the sandbox does not go on")
	}
	s.wantSaved(t, "42")
	trees, err := s.disk.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tree := range trees {
		if tree.Ref == savedTree() && !tree.Frozen {
			t.Error("the checkpoint can be written")
		}
	}
	if _, err := s.Checkpoint(t.Context(), "other", "nobody"); !core.IsCode(err, core.CodeNotFound) {
		t.Errorf("of a sandbox that is not there: %v", err)
	}
	for range 2 {
		if err := s.DeleteCheckpoint(t.Context(), saved); err != nil || s.hasCheckpoint(t) {
			t.Errorf("delete: %v", err)
		}
	}
}

// TestCheckpointOfTheDead: a machine that has ended needs not be held.
func TestCheckpointOfTheDead(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	s.work(t, spec.Sandbox)
	if err := s.host.world.Crash(spec.Sandbox, "test"); err != nil {
		t.Fatal(err)
	}
	s.exit(t)
	if _, err := s.Checkpoint(t.Context(), saved, spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.wantSaved(t, "42")
	if n := s.host.world.Calls(runtimefake.MethodFreeze); n != 0 {
		t.Errorf("it was held %d times", n)
	}
	// It outlives its sandbox, and a template can be made of it.
	if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	tree, err := s.CaptureTemplate(t.Context(), captured, core.TreeSource{Checkpoint: saved})
	if err != nil || tree.Digest != "d" || !s.hasTemplate(t, captured) {
		t.Errorf("capture: %+v, %v", tree, err)
	}
	s.wantSaved(t, "42")
	if _, err := s.CaptureTemplate(t.Context(), "other", core.TreeSource{Checkpoint: "nothing"}); !core.IsCode(err, core.CodeNotFound) {
		t.Errorf("of a checkpoint that is not there: %v", err)
	}
}

// TestCheckpointFails: whichever step fails, nothing is left and the sandbox goes on.
func TestCheckpointFails(t *testing.T) {
	for name, breakIt := range map[string]func(s *server, err error){
		"flush": func(s *server, err error) { s.disk.Fail(diskfake.OpFlush, err) },
		"clone": func(s *server, err error) { s.disk.Fail(diskfake.OpClone, err) },
		"look":  func(s *server, err error) { s.disk.Fail(diskfake.OpUsage, err) },
		"hold":  func(s *server, err error) { s.host.world.SetFault(runtimefake.MethodFreeze, fault(err)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			spec := s.create(t)
			s.work(t, spec.Sandbox)
			breakIt(s, errBroken)
			if _, err := s.Checkpoint(t.Context(), saved, spec.Sandbox); !errors.Is(err, errBroken) {
				t.Errorf("checkpoint: %v", err)
			}
			if s.hasCheckpoint(t) {
				t.Error("something of it is left")
			}
			if s.host.world.Frozen(spec.Sandbox) || !s.reachable(t, spec.Sandbox) {
				t.Error("the sandbox does not go on")
			}
			breakIt(s, nil)
			if _, err := s.Checkpoint(t.Context(), saved, spec.Sandbox); err != nil {
				t.Errorf("once more: %v", err)
			}
			s.wantSaved(t, "42")
		})
	}
}

func fault(err error) runtimefake.Fault {
	if err == nil {
		return nil
	}
	return func(context.Context, core.SandboxID) error { return err }
}

// TestCheckpointThaws: a sandbox that can't be let go at once is let go a moment later.
func TestCheckpointThaws(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	s.work(t, spec.Sandbox)
	tries := 0
	s.host.world.SetFault(runtimefake.MethodThaw, func(context.Context, core.SandboxID) error {
		if tries++; tries < 3 {
			return errBroken
		}
		return nil
	})
	if _, err := s.Checkpoint(t.Context(), saved, spec.Sandbox); err != nil {
		t.Errorf("checkpoint: %v", err)
	}
	if tries != 3 || s.host.world.Frozen(spec.Sandbox) || !s.reachable(t, spec.Sandbox) {
		t.Errorf("after %d tries the sandbox does not go on", tries)
	}
}

// TestCheckpointStuck: a sandbox that can't be let go is ended and told of, and its files are kept.
func TestCheckpointStuck(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	s.host.world.SetFault(runtimefake.MethodThaw, fault(errBroken))
	if _, err := s.Checkpoint(t.Context(), saved, spec.Sandbox); !errors.Is(err, errBroken) {
		t.Errorf("checkpoint: %v", err)
	}
	if s.running(spec.Sandbox) {
		t.Error("it still counts among the living")
	}
	e := s.exit(t)
	if e.Sandbox != spec.Sandbox || e.Incarnation != spec.Incarnation || !strings.Contains(e.Reason, "let go") {
		t.Errorf("exit %+v", e)
	}
	if got, want := s.trace(t), (trace{trees: string(spec.Sandbox), journal: string(spec.Sandbox)}); got != want {
		t.Errorf("left %+v, want %+v", got, want)
	}
}

// TestCheckpointCanceled: a caller who goes away leaves nothing, and nothing is held.
func TestCheckpointCanceled(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.disk.SetHook(func(ctx context.Context, c diskfake.Call) error {
		if c.Op == diskfake.OpClone {
			cancel()
			return ctx.Err()
		}
		return nil
	})
	if _, err := s.Checkpoint(ctx, saved, spec.Sandbox); err == nil {
		t.Error("it was made")
	}
	s.disk.SetHook(nil)
	if s.hasCheckpoint(t) || s.host.world.Frozen(spec.Sandbox) || !s.reachable(t, spec.Sandbox) {
		t.Error("something of it is left")
	}
}

// TestCheckpointCutOff: the next server lets go of what the last one has held, and sets aside what nobody knows.
func TestCheckpointCutOff(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	s.work(t, spec.Sandbox)
	if _, err := s.Checkpoint(t.Context(), saved, spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	if err := s.runtime.Freeze(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	s = s.restart()
	if s.host.world.Frozen(spec.Sandbox) || !s.reachable(t, spec.Sandbox) {
		t.Error("the sandbox is still held")
	}
	known := core.Known{
		Sandboxes: map[core.SandboxID]bool{spec.Sandbox: true}, Templates: map[core.TemplateID]bool{template: true},
		Checkpoints: map[core.CheckpointID]bool{saved: true},
	}
	if err := s.Sweep(t.Context(), known); err != nil || !s.hasCheckpoint(t) {
		t.Errorf("a checkpoint on record was swept away, %v", err)
	}
	known.Checkpoints = nil
	if err := s.Sweep(t.Context(), known); err != nil || s.hasCheckpoint(t) {
		t.Errorf("a checkpoint without a record stays in the way, %v", err)
	}
	if n, err := s.disk.PurgeQuarantine(t.Context(), 0); n != 1 || err != nil {
		t.Errorf("set aside were %d, %v", n, err)
	}
}

// TestCheckpointInTurn: a checkpoint's tree does not go while a template is made of it.
func TestCheckpointInTurn(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	s.work(t, spec.Sandbox)
	if _, err := s.Checkpoint(t.Context(), saved, spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	s.disk.SetHook(func(_ context.Context, c diskfake.Call) error {
		if c.Op == diskfake.OpClone {
			close(begun)
			<-goOn
		}
		return nil
	})
	made, gone := make(chan error), make(chan error)
	go func() {
		_, err := s.CaptureTemplate(context.Background(), captured, core.TreeSource{Checkpoint: saved})
		made <- err
	}()
	<-begun
	go func() { gone <- s.DeleteCheckpoint(context.Background(), saved) }()
	select {
	case err := <-gone:
		t.Errorf("it went while it was cloned: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(goOn)
	if err := errors.Join(<-made, <-gone); err != nil {
		t.Error(err)
	}
}

// TestCreateFromCheckpoint: the files are the checkpoint's, which can't go while they are cloned, and nothing is left of a create from one
// that is gone.
func TestCreateFromCheckpoint(t *testing.T) {
	s := start(t)
	source := s.create(t)
	s.work(t, source.Sandbox)
	if _, err := s.Checkpoint(t.Context(), saved, source.Sandbox); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), source.Sandbox); err != nil {
		t.Fatal(err)
	}
	spec := s.reserve(t)
	spec.Source = core.TreeSource{Checkpoint: saved}
	gone := make(chan error, 1)
	s.disk.SetHook(func(_ context.Context, c diskfake.Call) error {
		if c.Op == diskfake.OpClone {
			go func() { gone <- s.DeleteCheckpoint(context.WithoutCancel(t.Context()), saved) }()
		}
		return nil
	})
	if err := s.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	s.disk.SetHook(nil)
	if err := <-gone; err != nil || s.hasCheckpoint(t) {
		t.Errorf("the checkpoint is not gone: %v", err)
	}
	path, err := s.disk.Path(disk.Ref{Kind: disk.KindSandbox, ID: string(spec.Sandbox)})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(path, "result")); err != nil || string(got) != "42" {
		t.Errorf("the sandbox has %q, %v", got, err)
	}
	if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	again := s.reserve(t)
	again.Source = spec.Source
	if err := s.Create(t.Context(), again); !core.IsCode(err, core.CodeNotFound) {
		t.Errorf("from one that is gone: %v", err)
	}
	s.wantNothing(t)
}
