package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/disk"
	diskfake "shoal/internal/disk/fake"
)

func diffQuery(id core.SandboxID, against core.TreeRef) core.TreeDiffQuery {
	return core.TreeDiffQuery{Sandbox: id, Against: against, SharedBefore: time.Now(), Path: "/", Limit: 10}
}

func ofTemplate() core.TreeRef { return core.TreeRef{Kind: core.TreeTemplate, ID: string(template)} }

// trees counts the trees of a kind.
func (s *server) trees(t *testing.T, kind disk.Kind) (n int) {
	t.Helper()
	list, err := s.disk.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tree := range list {
		if tree.Ref.Kind == kind {
			n++
		}
	}
	return n
}

func TestDiff(t *testing.T) {
	s := start(t)
	one, two := s.create(t), s.create(t)
	s.work(t, one.Sandbox)
	d, err := s.Diff(t.Context(), diffQuery(one.Sandbox, ofTemplate()))
	if err != nil || len(d.Files) != 2 || d.Files[0].Path != "/mine" || d.Files[1].Path != "/result" || d.Files[1].Change != core.DiffAdded {
		t.Errorf("against its template: %+v, %v", d, err)
	}
	d, err = s.Diff(t.Context(), diffQuery(two.Sandbox, core.TreeRef{Kind: core.TreeSandbox, ID: string(one.Sandbox)}))
	if err != nil || len(d.Files) != 2 || d.Files[0].Change != core.DiffRemoved {
		t.Errorf("against another sandbox: %+v, %v", d, err)
	}
	// Also of one that has ended.
	if err := s.host.world.Crash(one.Sandbox, "test"); err != nil {
		t.Fatal(err)
	}
	s.exit(t)
	if d, err = s.Diff(t.Context(), diffQuery(one.Sandbox, ofTemplate())); err != nil || len(d.Files) != 2 {
		t.Errorf("of one that has ended: %+v, %v", d, err)
	}
	if n := s.trees(t, disk.KindView); n > 0 {
		t.Errorf("%d views are left", n)
	}
	if !s.reachable(t, two.Sandbox) {
		t.Error("the sandbox suffered")
	}
	for name, q := range map[string]core.TreeDiffQuery{
		"no sandbox":    diffQuery("nobody", ofTemplate()),
		"no other":      diffQuery(two.Sandbox, core.TreeRef{Kind: core.TreeSandbox, ID: "nobody"}),
		"no template":   diffQuery(two.Sandbox, core.TreeRef{Kind: core.TreeTemplate, ID: "nobody"}),
		"no checkpoint": diffQuery(two.Sandbox, core.TreeRef{Kind: core.TreeCheckpoint, ID: "nobody"}),
	} {
		if _, err := s.Diff(t.Context(), q); !core.IsCode(err, core.CodeNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDiffFails: whichever step fails, no view is left; one that can't be removed is removed later.
func TestDiffFails(t *testing.T) {
	for _, op := range []diskfake.Op{diskfake.OpClone, diskfake.OpDelete, diskfake.OpPath} {
		t.Run(string(op), func(t *testing.T) {
			s := start(t)
			spec := s.create(t)
			s.disk.Fail(op, errBroken)
			_, err := s.Diff(t.Context(), diffQuery(spec.Sandbox, ofTemplate()))
			if op != diskfake.OpDelete && !errors.Is(err, errBroken) || op == diskfake.OpDelete && err != nil {
				t.Errorf("diff: %v", err)
			}
			s.disk.Fail(op, nil)
			if op == diskfake.OpDelete {
				if n := s.trees(t, disk.KindView); n != 1 {
					t.Fatalf("%d views", n)
				}
				s.host.clock.advance(t, 2*time.Hour)
				for deadline := time.After(patience); s.trees(t, disk.KindView) > 0; {
					select {
					case <-deadline:
						t.Fatal("nobody removes the view")
					case <-time.After(time.Millisecond):
					}
				}
			}
			if n := s.trees(t, disk.KindView); n > 0 {
				t.Errorf("%d views are left", n)
			}
		})
	}
}

// TestDiffCanceled: a caller who goes leaves nothing.
func TestDiffCanceled(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.disk.SetHook(func(_ context.Context, c diskfake.Call) error {
		if c.Op == diskfake.OpClone {
			cancel()
		}
		return nil
	})
	if _, err := s.Diff(ctx, diffQuery(spec.Sandbox, ofTemplate())); !core.IsCode(err, core.CodeCanceled) {
		t.Errorf("diff: %v", err)
	}
	s.disk.SetHook(nil)
	if n := s.trees(t, disk.KindView); n > 0 {
		t.Errorf("%d views are left", n)
	}
}

// TestDiffOfWhatGoes: a base that is removed while it is read is not taken for an empty one.
func TestDiffOfWhatGoes(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	paths := 0
	s.disk.SetHook(func(_ context.Context, c diskfake.Call) error {
		if c.Op == diskfake.OpPath && c.Ref.Kind == disk.KindTemplate {
			if paths++; paths > 1 {
				return core.Errorf(core.CodeNotFound, "no such tree")
			}
		}
		return nil
	})
	if _, err := s.Diff(t.Context(), diffQuery(spec.Sandbox, ofTemplate())); !core.IsCode(err, core.CodeNotFound) {
		t.Errorf("diff: %v", err)
	}
}

// TestDiffCutOff: what a killed server has left is swept away.
func TestDiffCutOff(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	view := disk.Ref{Kind: disk.KindView, ID: core.NewID()}
	dir, err := s.disk.Clone(t.Context(), disk.Ref{Kind: disk.KindSandbox, ID: string(spec.Sandbox)}, view, disk.CloneOptions{Live: true})
	if err != nil {
		t.Fatal(err)
	}
	known := core.Known{Sandboxes: map[core.SandboxID]bool{spec.Sandbox: true}, Templates: map[core.TemplateID]bool{template: true}}
	if err := s.Sweep(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "file")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if s.trees(t, disk.KindSandbox) != 1 {
		t.Error("the sandbox's tree is gone")
	}
}
