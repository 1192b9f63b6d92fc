package btrfs_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/disk/btrfs"
)

// openDirEnv makes TestKilledOpen, in a child process, open a pool again and again.
const openDirEnv = "SHOAL_BTRFS_TEST_OPEN_DIR"

// TestRestart cuts Open off after each of its steps, and looks whether the next Open goes on from there.
func TestRestart(t *testing.T) {
	needRoot(t)
	for _, c := range []struct {
		name string
		// prepare leaves a pool directory as a process does that died at that step.
		prepare func(t *testing.T, pool string)
		check   func(t *testing.T, pool string, d *btrfs.Driver)
	}{
		{"half-made image", func(t *testing.T, pool string) {
			t.Helper()
			must(t, os.WriteFile(filepath.Join(pool, "pool.img.new-123"), make([]byte, mib), 0o600))
		}, func(t *testing.T, pool string, _ *btrfs.Driver) {
			t.Helper()
			if _, err := os.Stat(filepath.Join(pool, "pool.img.new-123")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the half-made image is left: %v", err)
			}
		}},
		{"image without loop device", btrfs.MakeUnmountedImage, nil},
		{"loop device without mount", func(t *testing.T, pool string) {
			t.Helper()
			btrfs.MakeUnmountedImage(t, pool)
			run(t, "losetup", "-f", filepath.Join(pool, "pool.img"))
		}, nil},
		{"mount without quotas and directories", func(t *testing.T, pool string) {
			t.Helper()
			btrfs.MakeUnmountedImage(t, pool)
			btrfs.MountPlain(t, pool)
		}, nil},
		{"image larger than its loop device", func(t *testing.T, pool string) {
			t.Helper()
			extended(t, pool, false)
		}, isExtended},
		{"loop device larger than its file system", func(t *testing.T, pool string) {
			t.Helper()
			extended(t, pool, true)
		}, isExtended},
		{"image larger, and unmounted", func(t *testing.T, pool string) {
			t.Helper()
			extended(t, pool, false)
			must(t, btrfs.Unmount(t.Context(), pool))
		}, isExtended},
		{"pool made read-only by an error", func(t *testing.T, pool string) {
			t.Helper()
			btrfs.MakeUnmountedImage(t, pool)
			btrfs.MountPlain(t, pool)
			must(t, unix.Mount("", filepath.Join(pool, "mnt"), "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		}, nil},
		{"clone that has not taken its place", func(t *testing.T, pool string) {
			t.Helper()
			d := open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib})
			clone(t, d, "kept", 0)
			btrfs.LeaveReplacing(t, d, template("kept"), sandbox("kept"))
			must(t, d.Close())
		}, func(t *testing.T, pool string, d *btrfs.Driver) {
			t.Helper()
			left, err := filepath.Glob(filepath.Join(pool, "mnt", "sandbox", "*", "kept*"))
			must(t, err)
			if path, err := d.Path(sandbox("kept")); err != nil || !slices.Equal(left, []string{path}) {
				t.Errorf("left are %q, for a tree at %q, %v", left, path, err)
			}
		}},
		{"image with holes", func(t *testing.T, pool string) {
			t.Helper()
			btrfs.MakeUnmountedImage(t, pool)
			f, err := os.OpenFile(filepath.Join(pool, "pool.img"), os.O_RDWR, 0)
			must(t, err)
			defer f.Close()
			must(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 128*mib, 64*mib))
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := filepath.Join(t.TempDir(), "pool")
			must(t, os.Mkdir(pool, 0o711))
			removePool(t, pool)
			c.prepare(t, pool)
			d := open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib})
			defer d.Close()
			if c.check != nil {
				c.check(t, pool, d)
			}
			if got := loops(t, pool); len(got) != 1 {
				t.Errorf("the image has %d loop devices: %q", len(got), got)
			}
			notSparse(t, pool)
			usable(t, d)
		})
	}
}

// usable makes a clone, with a limit that bites.
func usable(t *testing.T, d *btrfs.Driver) {
	t.Helper()
	path := clone(t, d, "usable", 4*mib)
	must(t, write(filepath.Join(path, "f"), 2))
	if err := write(filepath.Join(path, "g"), 10); !errors.Is(err, unix.EDQUOT) && !errors.Is(err, unix.ENOSPC) {
		t.Errorf("writing beyond the limit: got %v, want EDQUOT or ENOSPC", err)
	}
}

func extended(t *testing.T, pool string, device bool) {
	t.Helper()
	d := open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib, MaxBytes: 256 * mib})
	path := clone(t, d, "kept", 0)
	must(t, write(filepath.Join(path, "f"), 1))
	btrfs.ExtendImage(t, d, 256*mib, device)
	must(t, d.Close())
}

func isExtended(t *testing.T, pool string, d *btrfs.Driver) {
	t.Helper()
	var st unix.Statfs_t
	must(t, unix.Statfs(filepath.Join(pool, "mnt"), &st))
	if got := int64(st.Blocks) * st.Bsize; got < 512*mib {
		t.Errorf("the file system has %d MiB, its image 512", got>>20)
	}
	path, err := d.Path(sandbox("kept"))
	must(t, err)
	if st, err := os.Stat(filepath.Join(path, "f")); err != nil || st.Size() != mib {
		t.Errorf("file of before: %v, %v", st, err)
	}
}

// TestSandboxesKeepTheMount lets a process hold a file while the mount is taken away below it, as a sandbox in its own
// mount namespace does when the server's is torn down: the pool must be mounted again from the same loop device.
func TestSandboxesKeepTheMount(t *testing.T) {
	needRoot(t)
	pool := filepath.Join(t.TempDir(), "pool")
	removePool(t, pool)
	d := open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib})
	path := clone(t, d, "a", 0)
	f, err := os.Create(filepath.Join(path, "held"))
	must(t, err)
	defer f.Close()
	if err := d.Unmount(t.Context()); !core.IsCode(err, core.CodeConflict) {
		t.Fatalf("unmount while a file is open: got %v, want conflict", err)
	}
	must(t, unix.Unmount(filepath.Join(pool, "mnt"), unix.MNT_DETACH))

	d = open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib})
	defer d.Close()
	if got := loops(t, pool); len(got) != 1 {
		t.Errorf("the image has %d loop devices: %q", len(got), got)
	}
	_, err = f.WriteString("written by the old mount")
	must(t, err)
	b, err := os.ReadFile(filepath.Join(path, "held"))
	if err != nil || string(b) != "written by the old mount" {
		t.Errorf("read %q, %v by the new mount", b, err)
	}
}

// TestKilledOpen kills a process at many moments of Open and Unmount.
func TestKilledOpen(t *testing.T) {
	needRoot(t)
	if dir := os.Getenv(openDirEnv); dir != "" {
		for i := 0; ; i++ {
			pool := filepath.Join(dir, "pool")
			d := open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib})
			must(t, d.Unmount(t.Context()))
			if i%2 == 1 {
				must(t, os.Remove(filepath.Join(pool, "pool.img")))
			}
		}
	}
	dir := t.TempDir()
	pool := filepath.Join(dir, "pool")
	removePool(t, pool)
	for i := range 12 {
		// The deadline is what kills.
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond+time.Duration(i)*7*time.Millisecond)
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKilledOpen$")
		cmd.Env = append(os.Environ(), openDirEnv+"="+dir)
		out, _ := cmd.CombinedOutput()
		if ctx.Err() == nil {
			t.Fatalf("the process ended by itself: %s", out)
		}
		cancel()
		d := open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib})
		if got := loops(t, pool); len(got) != 1 {
			t.Errorf("the image has %d loop devices: %q", len(got), got)
		}
		path := clone(t, d, "a", 0)
		must(t, write(filepath.Join(path, "f"), 1))
		must(t, d.Delete(t.Context(), sandbox("a")))
		must(t, d.Delete(t.Context(), template("a")))
		must(t, d.Close())
	}
}

func TestOnlyOneDriver(t *testing.T) {
	needRoot(t)
	pool := filepath.Join(t.TempDir(), "pool")
	removePool(t, pool)
	d := open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib})
	defer d.Close()
	if _, err := btrfs.Open(t.Context(), btrfs.Config{Dir: pool}); !core.IsCode(err, core.CodeConflict) {
		t.Errorf("a second driver: got %v, want conflict", err)
	}
	if err := btrfs.Unmount(t.Context(), pool); !core.IsCode(err, core.CodeConflict) {
		t.Errorf("unmount below a driver: got %v, want conflict", err)
	}
	must(t, btrfs.Unmount(t.Context(), filepath.Join(t.TempDir(), "none")))
}

func TestForeignMount(t *testing.T) {
	needRoot(t)
	pool := filepath.Join(t.TempDir(), "pool")
	mnt := filepath.Join(pool, "mnt")
	must(t, os.MkdirAll(mnt, 0o711))
	must(t, unix.Mount("tmpfs", mnt, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { must(t, unix.Unmount(mnt, 0)) })
	if _, err := btrfs.Open(t.Context(), btrfs.Config{Dir: pool, GrowStep: 256 * mib}); !core.IsCode(err, core.CodeConflict) {
		t.Errorf("got %v, want conflict", err)
	}
	if got := loops(t, pool); len(got) != 0 {
		t.Errorf("loop devices are left: %q", got)
	}
}

// TestStaleQuotaGroups deletes a template before its clone: the kernel keeps the template's quota group for the extents that
// the clone shares, and nobody removes it when these are gone too.
func TestStaleQuotaGroups(t *testing.T) {
	needRoot(t)
	pool := filepath.Join(t.TempDir(), "pool")
	removePool(t, pool)
	d := open(t, btrfs.Config{Dir: pool, GrowStep: 512 * mib})
	defer d.Close()
	kept := clone(t, d, "kept", 4*mib)
	before := btrfs.Qgroups(t, d)

	shared, err := d.Create(t.Context(), template("shared"))
	must(t, err)
	must(t, write(filepath.Join(shared, "f"), 8))
	must(t, d.Freeze(t.Context(), template("shared")))
	_, err = d.Clone(t.Context(), template("shared"), sandbox("b"), disk.CloneOptions{})
	must(t, err)
	must(t, d.Delete(t.Context(), template("shared")))
	btrfs.SweepTwice(t, d)
	if n := len(btrfs.Qgroups(t, d)); n <= len(before) {
		t.Errorf("%d quota groups while a clone shares extents, want more than %d", n, len(before))
	}
	must(t, d.Delete(t.Context(), sandbox("b")))
	eventually(t, "removal of quota groups", func() bool {
		btrfs.SyncAndClean(t, d)
		btrfs.SweepTwice(t, d)
		return slices.Equal(before, btrfs.Qgroups(t, d))
	})
	if err := write(filepath.Join(kept, "f"), 10); err == nil {
		t.Error("the sweep took a clone's limit away")
	}
}

func TestBadConfig(t *testing.T) {
	for name, cfg := range map[string]btrfs.Config{
		"no directory": {},
		"negative":     {Dir: t.TempDir(), GrowStep: -1},
		"too small":    {Dir: t.TempDir(), MaxBytes: mib},
	} {
		if _, err := btrfs.Open(t.Context(), cfg); !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("%s: got %v, want invalid", name, err)
		}
	}
}

// TestPathsAreUnderMount guards what the documents promise to who reads a path in a log.
func TestPathsAreUnderMount(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	must(t, os.Symlink(dir, filepath.Join(dir, "link with space")))
	pool := filepath.Join(dir, "link with space", "a pool")
	removePool(t, pool)
	d := open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib})
	defer d.Close()
	path := clone(t, d, "a", 0)
	if want := filepath.Join(dir, "a pool", "mnt") + "/"; !strings.HasPrefix(path, want) {
		t.Errorf("path is %q, want it below %q", path, want)
	}
	must(t, d.Close())
	d = open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib})
	defer d.Close()
	if got, err := d.Path(sandbox("a")); err != nil || got != path {
		t.Errorf("path is %q, %v after a reopen", got, err)
	}
}
