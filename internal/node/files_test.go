package node_test

import (
	"io"
	"os"
	"testing"

	"shoal/internal/core"
	"shoal/internal/disk"
)

// TestFilesOfAMachineThatEnded: they are read from its tree, only while it doesn't run, and are gone with it.
func TestFilesOfAMachineThatEnded(t *testing.T) {
	s := newHost(t).open()
	s.importTemplate(t)
	spec := s.create(t)
	if _, err := s.Files(t.Context(), spec.Sandbox); !core.IsCode(err, core.CodeConflict) {
		t.Errorf("while it runs: %v", err)
	}
	dir, err := s.disk.Path(disk.Ref{Kind: disk.KindSandbox, ID: string(spec.Sandbox)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/left", []byte("behind"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.host.world.Crash(spec.Sandbox, "test"); err != nil {
		t.Fatal(err)
	}
	s.exit(t)
	files, err := s.Files(t.Context(), spec.Sandbox)
	if err != nil {
		t.Fatal(err)
	}
	_, r, err := files.ReadFile(t.Context(), "/left", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != "behind" {
		t.Errorf("%q, %v", text, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Files(t.Context(), spec.Sandbox); !core.IsCode(err, core.CodeNotFound) {
		t.Errorf("after delete: %v", err)
	}
}
