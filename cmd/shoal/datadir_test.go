package main

import (
	"os"
	"path/filepath"
	"slices"
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

// TestCgroupParents: every parent that was ever noted is known until all is forgotten, and nobody else may read it.
func TestCgroupParents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	for _, step := range []struct {
		note string
		want []string
	}{
		{"", nil},
		{"shoal", []string{"shoal"}},
		{"shoal", []string{"shoal"}},
		{"a.slice/shoal", []string{"shoal", "a.slice/shoal"}},
		{"shoal", []string{"shoal", "a.slice/shoal"}},
	} {
		d, err := openDataDir(path)
		if err != nil {
			t.Fatal(err)
		}
		if step.note != "" {
			if err := d.noteCgroupParent(step.note); err != nil {
				t.Error(err)
			}
			if info, err := os.Stat(d.join("cgroups")); err != nil || info.Mode() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		}
		if got, err := d.cgroupParents(); err != nil || !slices.Equal(got, step.want) {
			t.Errorf("after %q: %q, %v, want %q", step.note, got, err, step.want)
		}
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}
	d, err := openDataDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for range 2 {
		if err := d.forgetCgroupParents(); err != nil {
			t.Error(err)
		}
	}
	if got, err := d.cgroupParents(); err != nil || len(got) != 0 {
		t.Errorf("after all was forgotten: %q, %v", got, err)
	}
}
