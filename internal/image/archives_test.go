package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
)

func TestArchives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{
		"procps_2%3a4.0.2-3_amd64.deb", "procps_2%3a4.0.2-2_amd64.deb", "apt_2.6.1_amd64.deb", "npm_9.2.0~ds1-1_all.deb", "lock", "odd.deb",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := func() []string {
		var out []string
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	if err := pruneArchives(dir, []core.Package{{Name: "procps", Version: "2:4.0.2-3"}, {Name: "apt", Version: "2.6.2"}}); err != nil {
		t.Fatal(err)
	}
	// What another recipe has and this tree hasn't stays.
	if diff := cmp.Diff([]string{"lock", "npm_9.2.0~ds1-1_all.deb", "odd.deb", "procps_2%3a4.0.2-3_amd64.deb"}, list()); diff != "" {
		t.Error(diff)
	}
	if err := clearArchives(dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"lock", "odd.deb"}, list()); diff != "" {
		t.Error(diff)
	}
}

func TestLockWorkDir(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "work")
	unlock, err := lockWorkDir(t.Context(), dir, func() { t.Error("waits for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*lockInterval)
	defer cancel()
	waits := 0
	if _, err := lockWorkDir(ctx, dir, func() { waits++ }); !errors.Is(err, context.DeadlineExceeded) || waits != 1 {
		t.Errorf("a second lock gives %v and says %d times that it waits", err, waits)
	}
	unlock()
	again, err := lockWorkDir(t.Context(), dir, func() { t.Error("waits for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	again()
}
