package btrfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"shoal/internal/disk"
	"shoal/internal/disk/btrfs"
)

// TestPowerLoss takes a copy of the image the moment a call has returned, which holds what a power loss would leave, and
// looks at the pool that it makes.
func TestPowerLoss(t *testing.T) {
	needRoot(t)
	for _, c := range []struct {
		name string
		act  func(t *testing.T, d *btrfs.Driver)
		want func(t *testing.T, d *btrfs.Driver)
	}{
		{"freeze", func(t *testing.T, d *btrfs.Driver) {
			t.Helper()
			path, err := d.Create(t.Context(), template("new"))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(path, "f"), []byte("text"), 0o644))
			must(t, d.Freeze(t.Context(), template("new")))
		}, func(t *testing.T, d *btrfs.Driver) {
			t.Helper()
			path, err := d.Clone(t.Context(), template("new"), sandbox("new"), disk.CloneOptions{})
			must(t, err)
			if b, err := os.ReadFile(filepath.Join(path, "f")); err != nil || string(b) != "text" {
				t.Errorf("read %q, %v", b, err)
			}
		}},
		{"clone", func(t *testing.T, d *btrfs.Driver) {
			t.Helper()
			_, err := d.Clone(t.Context(), template("a"), sandbox("new"), disk.CloneOptions{LimitBytes: 4 * mib})
			must(t, err)
		}, func(t *testing.T, d *btrfs.Driver) {
			t.Helper()
			path, err := d.Path(sandbox("new"))
			must(t, err)
			if err := write(filepath.Join(path, "f"), 10); err == nil {
				t.Error("the clone has lost its limit")
			}
		}},
		{"delete", func(t *testing.T, d *btrfs.Driver) {
			t.Helper()
			must(t, d.Delete(t.Context(), sandbox("a")))
		}, func(t *testing.T, d *btrfs.Driver) {
			t.Helper()
			if path, err := d.Path(sandbox("a")); err == nil {
				t.Errorf("the deleted tree is back at %s", path)
			}
		}},
		{"quarantine", func(t *testing.T, d *btrfs.Driver) {
			t.Helper()
			must(t, d.Quarantine(t.Context(), sandbox("a")))
		}, func(t *testing.T, d *btrfs.Driver) {
			t.Helper()
			if path, err := d.Path(sandbox("a")); err == nil {
				t.Errorf("the tree that was set aside is back at %s", path)
			}
			if n, err := d.PurgeQuarantine(t.Context(), 0); n != 1 || err != nil {
				t.Errorf("purged %d trees, %v, want 1", n, err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := filepath.Join(t.TempDir(), "pool")
			removePool(t, pool)
			cfg := btrfs.Config{Dir: pool, GrowStep: 256 * mib, MaxBytes: 256 * mib}
			d := open(t, cfg)
			t.Cleanup(func() { d.Close() })
			clone(t, d, "a", 0)

			c.act(t, d)
			image := filepath.Join(pool, "pool.img")
			run(t, "cp", "--sparse=auto", image, image+".copy")
			must(t, d.Unmount(t.Context()))
			must(t, os.Rename(image+".copy", image))

			d = open(t, cfg)
			if _, err := d.Path(template("a")); err != nil {
				t.Errorf("the template is gone: %v", err)
			}
			c.want(t, d)
		})
	}
}
