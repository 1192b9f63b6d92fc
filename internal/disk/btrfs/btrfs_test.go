package btrfs_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/disk"
	"shoal/internal/disk/btrfs"
	"shoal/internal/disk/disktest"
)

const mib = 1 << 20

// needRoot skips as an ordinary user, unless root is what this run is for.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("SHOAL_REQUIRE_ROOT") == "1" {
		t.Fatal("needs root: mounts a pool image")
	}
	t.Skip("needs root: mounts a pool image")
}

func open(t *testing.T, cfg btrfs.Config) *btrfs.Driver {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	d, err := btrfs.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// removePool takes mounts and loop devices of a pool away when the test ends. It opens the pool again first: that too must
// work after whatever the test did.
func removePool(t *testing.T, dir string) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.Background()
		d, err := btrfs.Open(ctx, btrfs.Config{Dir: dir, GrowStep: 256 * mib})
		if err != nil {
			t.Errorf("open before removal: %v", err)
		} else if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := btrfs.Unmount(ctx, dir); err != nil {
			t.Errorf("unmount: %v", err)
		}
		if linked, err := filepath.EvalSymlinks(dir); err == nil {
			dir = linked
		}
		if left := leftovers(t, dir); len(left) > 0 {
			t.Errorf("left after unmount: %q", left)
		}
	})
}

// leftovers returns the mounts and loop devices that belong to a directory.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	var left []string
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir+"/") {
			left = append(left, line)
		}
	}
	return append(left, loops(t, dir)...)
}

// loops returns the loop devices whose backing file lies in a directory.
func loops(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	names, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		// A device may be detached while the list is read.
		if b, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(b), dir+"/") {
			found = append(found, name+": "+string(b))
		}
	}
	return found
}

func TestContract(t *testing.T) {
	needRoot(t)
	known := map[string]bool{}
	disktest.Run(t, func(t *testing.T, dir string) disk.Driver {
		t.Helper()
		pool := filepath.Join(dir, "pool")
		if !known[pool] && !disktest.Child() {
			known[pool] = true
			removePool(t, pool)
		}
		return open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib})
	}, disktest.Options{})
}
