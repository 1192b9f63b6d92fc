package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"shoal/internal/durable"
)

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"first\n", "", "a longer third one\n", "short"} {
		for _, mode := range []fs.FileMode{0o600, 0o644, 0o666} {
			if err := durable.Replace(path, []byte(content), mode); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil || string(got) != content {
				t.Errorf("content %q, %v, want %q", got, err, content)
			}
			if info, err := os.Stat(path); err != nil || info.Mode() != mode {
				t.Errorf("mode %v, %v, want %v", info.Mode(), err, mode)
			}
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left beside it: %v, %v", left, err)
	}
}

// TestReplaceFails: what can't be written leaves the old file.
func TestReplaceFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := durable.Replace(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.Replace(path, []byte("new"), 0o600); err == nil {
		t.Error("written over a directory")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("content %q, %v", got, err)
	}
	if err := durable.SyncDir(filepath.Join(filepath.Dir(path), "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}
