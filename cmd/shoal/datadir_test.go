package main

import (
	"os"
	"path/filepath"
	"testing"

	"shoal/internal/core"
)

// TestDataDirIsTheServersOwn shows that the server takes no directory in which others may plant files, and that a second one
// on the same directory is refused.
func TestDataDirIsTheServersOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	for mode, want := range map[os.FileMode]core.Code{0o777: core.CodeDenied, 0o775: core.CodeDenied, 0o755: "", 0o700: ""} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode.Perm()); err != nil {
			t.Fatal(err)
		}
		d, err := openDataDir(path)
		if got := core.CodeOf(err); got != want {
			t.Errorf("mode %o: %v", mode, err)
		}
		if err != nil {
			continue
		}
		if _, err := openDataDir(path); !core.IsCode(err, core.CodeConflict) {
			t.Errorf("a second server: %v", err)
		}
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := openDataDir(path); !core.IsCode(err, core.CodeDenied) {
		t.Errorf("somebody else's directory: %v", err)
	}
}
