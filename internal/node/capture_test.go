package node_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"shoal/internal/core"
	"shoal/internal/disk"
	diskfake "shoal/internal/disk/fake"
)

// captured is the template that the tests make of a sandbox.
const captured core.TemplateID = "captured"

// work writes into a sandbox's tree what its programs would.
func (s *server) work(t *testing.T, id core.SandboxID) {
	t.Helper()
	path, err := s.disk.Path(disk.Ref{Kind: disk.KindSandbox, ID: string(id)})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"result": "42", "mine": "the machine's own"} {
		if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCaptureTemplate(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	s.work(t, spec.Sandbox)
	for range 2 { // Once more: it is made anew.
		tree, err := s.CaptureTemplate(t.Context(), captured, core.TreeSource{Sandbox: spec.Sandbox})
		if err != nil || tree.Digest != "d" || len(tree.Packages) != 1 || !s.hasTemplate(t, captured) {
			t.Fatalf("capture: %+v, %v", tree, err)
		}
	}
	if !s.reachable(t, spec.Sandbox) {
		t.Error("the sandbox suffered")
	}
	path, err := s.disk.Path(disk.Ref{Kind: disk.KindTemplate, ID: string(captured)})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(path, "result")); err != nil || string(got) != "42" {
		t.Errorf("result: %q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(path, "mine")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the machine's own file: %v", err)
	}
	if _, err := s.CaptureTemplate(t.Context(), "other", core.TreeSource{Sandbox: "nobody"}); !core.IsCode(err, core.CodeNotFound) {
		t.Errorf("of a sandbox that is not there: %v", err)
	}
}

// TestCaptureFails: whichever step fails, nothing is left and the sandbox goes on.
func TestCaptureFails(t *testing.T) {
	for name, op := range map[string]diskfake.Op{"clone": diskfake.OpClone, "clean": "", "freeze": diskfake.OpFreeze} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			spec := s.create(t)
			s.work(t, spec.Sandbox)
			if op == "" {
				s.host.cleanErr = errBroken
			} else {
				s.disk.Fail(op, errBroken)
			}
			if _, err := s.CaptureTemplate(t.Context(), captured, core.TreeSource{Sandbox: spec.Sandbox}); !errors.Is(err, errBroken) {
				t.Errorf("capture: %v", err)
			}
			if _, err := s.disk.Path(disk.Ref{Kind: disk.KindTemplate, ID: string(captured)}); !core.IsCode(err, core.CodeNotFound) {
				t.Errorf("its tree: %v", err)
			}
			if !s.reachable(t, spec.Sandbox) {
				t.Error("the sandbox suffered")
			}
			s.host.cleanErr = nil
			if op != "" {
				s.disk.Fail(op, nil)
			}
			if _, err := s.CaptureTemplate(t.Context(), captured, core.TreeSource{Sandbox: spec.Sandbox}); err != nil {
				t.Errorf("once more: %v", err)
			}
		})
	}
}

// TestCaptureCutOff: what a killed server has left of one is swept away, though its record is there.
func TestCaptureCutOff(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	ref := disk.Ref{Kind: disk.KindTemplate, ID: string(captured)}
	if _, err := s.disk.Clone(t.Context(), disk.Ref{Kind: disk.KindSandbox, ID: string(spec.Sandbox)}, ref, disk.CloneOptions{Live: true}); err != nil {
		t.Fatal(err)
	}
	if s.hasTemplate(t, captured) {
		t.Error("half a template is taken for one")
	}
	known := core.Known{
		Sandboxes: map[core.SandboxID]bool{spec.Sandbox: true}, Templates: map[core.TemplateID]bool{template: true, captured: true},
	}
	if err := s.Sweep(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	if _, err := s.disk.Path(ref); !core.IsCode(err, core.CodeNotFound) {
		t.Errorf("it is still there: %v", err)
	}
	if !s.hasTemplate(t, template) {
		t.Error("a whole template was swept away")
	}
}
