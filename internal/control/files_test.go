package control_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"shoal/internal/core"
)

// TestFilesOfASandboxThatFailed: they can be read without anything being started, and not changed; others see none of it.
func TestFilesOfASandboxThatFailed(t *testing.T) {
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{Name: "x"})
	if _, err := w.svc.ReadFiles(t.Context(), alice, "x"); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	w.node.crash(sb.ID)
	eventually(t, "it is failed", func() bool {
		got, err := w.svc.GetSandbox(t.Context(), alice, "x")
		return err == nil && got.State == core.StateFailed
	})
	files, err := w.svc.ReadFiles(t.Context(), alice, "x")
	if err != nil {
		t.Fatal(err)
	}
	_, r, err := files.ReadFile(t.Context(), "/f", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != "kept" {
		t.Errorf("%q, %v", text, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	_, err = w.svc.Files(t.Context(), alice, "x")
	wantCode(t, err, core.CodeConflict)
	if !strings.Contains(err.Error(), "it crashed") || !strings.Contains(err.Error(), "read and not changed") {
		t.Errorf("changes are refused with %q", err)
	}
	_, err = w.svc.ReadFiles(t.Context(), bob, "x")
	wantCode(t, err, core.CodeNotFound)
	if err := w.svc.DeleteSandbox(t.Context(), alice, "x"); err != nil {
		t.Fatal(err)
	}
	_, err = w.svc.ReadFiles(t.Context(), alice, "x")
	wantCode(t, err, core.CodeNotFound)
}

// TestReadingIsUse: who reads the files of a sandbox that failed keeps it, as one that runs.
func TestReadingIsUse(t *testing.T) {
	inTime(t, func(w *world) {
		sb := w.create(core.SandboxSpec{Idle: time.Minute})
		w.node.crash(sb.ID)
		w.pass(time.Second)
		files, err := w.svc.ReadFiles(w.t.Context(), alice, string(sb.ID))
		if err != nil {
			w.t.Fatal(err)
		}
		_, r, err := files.ReadFile(w.t.Context(), "/f", 0, -1)
		if err != nil {
			w.t.Fatal(err)
		}
		w.pass(5 * time.Minute)
		if !w.lives(sb) {
			w.t.Error("it was deleted while a file of it was read")
		}
		if err := r.Close(); err != nil {
			w.t.Error(err)
		}
		w.pass(2 * time.Minute)
		if w.lives(sb) {
			w.t.Error("it lives on though nobody uses it")
		}
	})
}
