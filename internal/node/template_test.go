package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"shoal/internal/core"
	"shoal/internal/disk"
	diskfake "shoal/internal/disk/fake"
)

func (s *server) hasTemplate(t *testing.T, id core.TemplateID) bool {
	t.Helper()
	has, err := s.HasTemplate(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return has
}

func TestImportTemplate(t *testing.T) {
	s := start(t)
	if !s.hasTemplate(t, template) {
		t.Fatal("the template is not there")
	}
	spec := s.create(t)
	// Once more: it is there already, and sandboxes stand on it.
	info, err := s.ImportTemplate(t.Context(), template, func(context.Context, string) error {
		t.Error("a complete template was filled again")
		return errBroken
	})
	if err != nil || info.Digest != "d" || !s.hasTemplate(t, template) {
		t.Errorf("import again: %+v, %v", info, err)
	}
	path, err := s.disk.Path(disk.Ref{Kind: disk.KindSandbox, ID: string(spec.Sandbox)})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(path, "file")); err != nil || string(got) != "content" {
		t.Errorf("the sandbox's file: %q, %v", got, err)
	}
	if err := s.DeleteTemplate(t.Context(), template); err != nil || s.hasTemplate(t, template) {
		t.Errorf("delete: %v", err)
	}
	if err := s.DeleteTemplate(t.Context(), template); err != nil {
		t.Errorf("delete again: %v", err)
	}
	if !s.reachable(t, spec.Sandbox) {
		t.Error("a sandbox suffered from its template's removal")
	}
}

// TestImportFails: whichever step fails, nothing is left, and the next import succeeds.
func TestImportFails(t *testing.T) {
	fine := func(context.Context, string) error { return nil }
	for name, tc := range map[string]struct {
		op   diskfake.Op
		fill func(context.Context, string) error
	}{
		"create": {diskfake.OpCreate, fine},
		"fill":   {"", func(context.Context, string) error { return errBroken }},
		"freeze": {diskfake.OpFreeze, fine},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHost(t).open()
			if tc.op != "" {
				s.disk.Fail(tc.op, errBroken)
			}
			if _, err := s.ImportTemplate(t.Context(), template, tc.fill); !errors.Is(err, errBroken) {
				t.Errorf("import: %v", err)
			}
			if trees, err := s.disk.List(t.Context()); err != nil || len(trees) != 0 {
				t.Errorf("left %v, %v", trees, err)
			}
			s.disk.Fail(tc.op, nil)
			s.importTemplate(t)
		})
	}
}

func TestImportCanceled(t *testing.T) {
	s := newHost(t).open()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.ImportTemplate(ctx, template, func(ctx context.Context, _ string) error {
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("import: %v", err)
	}
	if trees, err := s.disk.List(t.Context()); err != nil || len(trees) != 0 {
		t.Errorf("left %v, %v", trees, err)
	}
}

// TestImportAfterCutOff: what a killed server has left of an import is not in the way of the next.
func TestImportAfterCutOff(t *testing.T) {
	s := newHost(t).open()
	if _, err := s.disk.Create(t.Context(), disk.Ref{Kind: disk.KindTemplate, ID: string(template)}); err != nil {
		t.Fatal(err)
	}
	if s.hasTemplate(t, template) {
		t.Error("half a template counts as one")
	}
	s.importTemplate(t)
	if !s.hasTemplate(t, template) {
		t.Error("the template is not there")
	}
}

// TestTemplateWithoutRecord: a whole template that nobody has a record of is set aside for a day, never removed at once; one
// that was cut off is removed.
func TestTemplateWithoutRecord(t *testing.T) {
	s := start(t)
	cutOff := disk.Ref{Kind: disk.KindTemplate, ID: "halfatemplate000000000"}
	if _, err := s.disk.Create(t.Context(), cutOff); err != nil {
		t.Fatal(err)
	}
	s.sweep(t, known())
	if !s.hasTemplate(t, template) {
		t.Fatal("a template with a record was taken away")
	}
	if got := s.host.aside(t, disk.KindTemplate, cutOff.ID); got != 0 {
		t.Errorf("a cut-off import is kept %d times", got)
	}
	nobody := core.Known{}
	s.sweep(t, nobody)
	if s.hasTemplate(t, template) {
		t.Error("a template without a record is still in use")
	}
	if got := s.host.aside(t, disk.KindTemplate, string(template)); got != 1 {
		t.Fatalf("set aside %d times", got)
	}
	s.sweep(t, nobody)
	if got := s.host.aside(t, disk.KindTemplate, string(template)); got != 1 {
		t.Errorf("after the next sweep set aside %d times", got)
	}
	s.importTemplate(t) // its name is free
	spec := s.create(t)
	if !s.reachable(t, spec.Sandbox) {
		t.Error("not reachable")
	}
}
