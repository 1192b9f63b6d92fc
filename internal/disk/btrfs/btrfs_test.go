package btrfs_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
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
	})
}

func TestContract(t *testing.T) {
	needRoot(t)
	known := map[string]bool{}
	disktest.Run(t, func(t *testing.T, dir string) disk.Driver {
		pool := filepath.Join(dir, "pool")
		if !known[pool] && !disktest.Child() {
			known[pool] = true
			removePool(t, pool)
		}
		return open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib})
	}, disktest.Options{})
}
