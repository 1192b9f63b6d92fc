package btrfs_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/disk/btrfs"
)

func template(id string) disk.Ref { return disk.Ref{Kind: disk.KindTemplate, ID: id} }
func sandbox(id string) disk.Ref  { return disk.Ref{Kind: disk.KindSandbox, ID: id} }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clone makes a template and a clone of it, and returns the clone's path.
func clone(t *testing.T, d *btrfs.Driver, id string, limit int64) string {
	t.Helper()
	if _, err := d.Create(t.Context(), template(id)); err != nil {
		t.Fatal(err)
	}
	must(t, d.Freeze(t.Context(), template(id)))
	path, err := d.Clone(t.Context(), template(id), sandbox(id), disk.CloneOptions{LimitBytes: limit})
	must(t, err)
	return path
}

// write writes n MiB that don't compress to a file, and syncs it now and then.
func write(path string, n int) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, mib)
	seed := uint32(n)
	for i := range block {
		seed = seed*1664525 + 1013904223
		block[i] = byte(seed >> 24)
	}
	for i := range n {
		if _, err := f.Write(block); err != nil {
			return err
		}
		if i%8 != 7 {
			continue
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return f.Sync()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("timed out waiting for %s", what)
		case <-tick.C:
		}
	}
}

func space(t *testing.T, d *btrfs.Driver) disk.Space {
	t.Helper()
	s, err := d.Space(t.Context())
	must(t, err)
	return s
}

// host makes a file system of the given type and size to be the host's disk, and returns its directory.
func host(t *testing.T, fsType string, size int64) string {
	t.Helper()
	dir := t.TempDir()
	mnt := filepath.Join(dir, "host")
	must(t, os.Mkdir(mnt, 0o711))
	switch fsType {
	case "tmpfs":
		must(t, unix.Mount("tmpfs", mnt, "tmpfs", 0, fmt.Sprintf("size=%d", size)))
	default:
		image := filepath.Join(dir, "host.img")
		must(t, os.WriteFile(image, nil, 0o600))
		must(t, os.Truncate(image, size))
		run(t, "mkfs."+fsType, "-q", image)
		run(t, "mount", "-o", "loop", image, mnt)
	}
	t.Cleanup(func() { must(t, unix.Unmount(mnt, 0)) })
	return mnt
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// fillDisk takes all the space of a directory's file system until told to stop, also what becomes free.
func fillDisk(t *testing.T, dir string) (stop func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	must(t, err)
	var done atomic.Bool
	full := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	wg.Go(func() {
		defer f.Close()
		block := make([]byte, 64<<10)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for !done.Load() {
			if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
				if err := f.Sync(); err != nil && !errors.Is(err, unix.ENOSPC) {
					t.Errorf("filler: %v", err)
				}
				once.Do(func() { close(full) })
				<-tick.C
			}
		}
	})
	<-full
	return func() { done.Store(true); wg.Wait() }
}

// TestHostDiskFull fills the host's disk while sandboxes write: they see a full disk at worst.
func TestHostDiskFull(t *testing.T) {
	needRoot(t)
	for _, fsType := range []string{"ext4", "tmpfs"} {
		t.Run(fsType, func(t *testing.T) {
			dir := host(t, fsType, 640*mib)
			pool := filepath.Join(dir, "pool")
			removePool(t, pool)
			d := open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib, MinHostFree: 64 * mib})
			t.Cleanup(func() { d.Close() })
			paths := []string{clone(t, d, "a", 0), clone(t, d, "b", 0)}

			stop := fillDisk(t, dir)
			defer stop()
			var wg sync.WaitGroup
			for _, path := range paths {
				wg.Go(func() {
					file := filepath.Join(path, "f")
					if err := write(file, 600); !errors.Is(err, unix.ENOSPC) {
						t.Errorf("writing more than there is: got %v, want ENOSPC", err)
					}
					if err := os.Remove(file); err != nil {
						t.Errorf("remove: %v", err)
					}
				})
			}
			wg.Wait()
			// The pool still works: write, read back uncached, clone, delete.
			must(t, d.Delete(t.Context(), sandbox("b")))
			eventually(t, "room again", func() bool { return write(filepath.Join(paths[0], "again"), 20) == nil })
			must(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0))
			if b, err := os.ReadFile(filepath.Join(paths[0], "again")); err != nil || len(b) != 20*mib {
				t.Errorf("read %d bytes: %v", len(b), err)
			}
			_, err := d.Clone(t.Context(), template("a"), sandbox("c"), disk.CloneOptions{})
			must(t, err)
			must(t, d.Close())
			open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib, MinHostFree: 64 * mib}).Close()
		})
	}
}

// TestGrows writes more than the first image holds, and then more than it may grow to.
func TestGrows(t *testing.T) {
	needRoot(t)
	pool := filepath.Join(t.TempDir(), "pool")
	removePool(t, pool)
	d := open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib, MaxBytes: 1024 * mib})
	t.Cleanup(func() { d.Close() })
	path := clone(t, d, "a", 0)
	for i := range 6 {
		before := space(t, d)
		must(t, write(filepath.Join(path, fmt.Sprint(i)), 100))
		after := space(t, d)
		if after.TotalBytes != 1024*mib {
			t.Errorf("total is %d MiB, want 1024", after.TotalBytes>>20)
		}
		if after.FreeBytes >= before.FreeBytes {
			t.Errorf("free went from %d to %d by writing", before.FreeBytes, after.FreeBytes)
		}
		eventually(t, "room for the next file", func() bool {
			s := space(t, d)
			inPool := s.FreeBytes - (s.TotalBytes - s.AllocatedBytes)
			return inPool > 120*mib || s.AllocatedBytes >= 1024*mib
		})
	}
	eventually(t, "growth to the limit", func() bool { return space(t, d).AllocatedBytes >= 1024*mib })
	if err := write(filepath.Join(path, "too much"), 600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("writing beyond the limit: got %v, want ENOSPC", err)
	}
	if got := space(t, d).AllocatedBytes; got > 1024*mib+mib {
		t.Errorf("the image takes %d MiB, more than its limit", got>>20)
	}
	notSparse(t, pool)
}

// notSparse fails if any part of the image lacks blocks.
func notSparse(t *testing.T, pool string) {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(pool, "pool.img"), &st))
	if st.Blocks*512 < st.Size {
		t.Errorf("image of %d bytes has blocks for %d", st.Size, st.Blocks*512)
	}
}

func TestDeleteGivesNothingBackToTheHost(t *testing.T) {
	needRoot(t)
	pool := filepath.Join(t.TempDir(), "pool")
	removePool(t, pool)
	d := open(t, btrfs.Config{Dir: pool, GrowStep: 512 * mib, MaxBytes: 512 * mib})
	t.Cleanup(func() { d.Close() })
	path := clone(t, d, "a", 0)
	before := space(t, d).FreeBytes
	must(t, write(filepath.Join(path, "f"), 100))
	must(t, d.Delete(t.Context(), sandbox("a")))
	eventually(t, "space of the deleted tree", func() bool { return space(t, d).FreeBytes > before-10*mib })
	notSparse(t, pool)
}

func TestNoRoomAtAll(t *testing.T) {
	needRoot(t)
	dir := host(t, "tmpfs", 300*mib)
	pool := filepath.Join(dir, "pool")
	_, err := btrfs.Open(t.Context(), btrfs.Config{Dir: pool, MinHostFree: 64 * mib})
	if !core.IsCode(err, core.CodeExhausted) {
		t.Fatalf("got %v, want exhausted", err)
	}
	if left, err := filepath.Glob(filepath.Join(pool, "pool.img*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
}

// TestPassage looks at who may reach a tree.
func TestPassage(t *testing.T) {
	needRoot(t)
	pool := filepath.Join(t.TempDir(), "pool")
	removePool(t, pool)
	d := open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib})
	t.Cleanup(func() { d.Close() })
	path := clone(t, d, "a", 0)
	check := func(mode, gid uint32) {
		t.Helper()
		for dir := filepath.Dir(path); strings.HasPrefix(dir, pool); dir = filepath.Dir(dir) {
			var st unix.Stat_t
			must(t, unix.Stat(dir, &st))
			if st.Mode&0o7777 != mode || st.Uid != 0 || st.Gid != gid {
				t.Errorf("%s has mode %o and owner %d:%d", dir, st.Mode&0o7777, st.Uid, st.Gid)
			}
		}
	}
	check(0o700, 0)
	const group = 1_000_000
	for _, gid := range []int{group, 0} { // what an earlier start has allowed does not stay
		must(t, d.Close())
		d = open(t, btrfs.Config{Dir: pool, GrowStep: 256 * mib, OwnerGID: gid})
		mode := uint32(0o700)
		if gid != 0 {
			mode = 0o710
		}
		check(mode, uint32(gid))
	}
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(pool, "pool.img"), &st))
	if st.Mode&0o077 != 0 {
		t.Errorf("the image has mode %o", st.Mode&0o7777)
	}
	var flags unix.Statfs_t
	must(t, unix.Statfs(path, &flags))
	if want := int64(unix.ST_NOSUID | unix.ST_NODEV); flags.Flags&want != want {
		t.Errorf("mount flags are %x, want nosuid and nodev", flags.Flags)
	}
}

// TestOnBtrfs keeps trees on a btrfs that is there already.
func TestOnBtrfs(t *testing.T) {
	needRoot(t)
	for _, quotas := range []bool{false, true} {
		t.Run(fmt.Sprintf("quotas=%v", quotas), func(t *testing.T) {
			// A pool's own file system serves as the host's.
			outer := filepath.Join(t.TempDir(), "outer")
			removePool(t, outer)
			hostPool := open(t, btrfs.Config{Dir: outer, GrowStep: 512 * mib})
			t.Cleanup(func() { hostPool.Close() })
			if !quotas {
				btrfs.DisableQuotas(t, hostPool)
			}
			dir := filepath.Join(outer, "mnt", "data", "pool")
			t.Cleanup(func() {
				d := open(t, btrfs.Config{Dir: dir})
				must(t, d.Unmount(context.Background()))
			})
			d := open(t, btrfs.Config{Dir: dir})
			defer d.Close()
			if _, err := os.Stat(filepath.Join(dir, "pool.img")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("an image was made on btrfs: %v", err)
			}
			caps := d.Capabilities()
			if caps.Quota != quotas || (caps.QuotaReason == "") != quotas {
				t.Errorf("capabilities are %+v", caps)
			}
			limit := int64(0)
			if quotas {
				limit = 8 * mib
			}
			path := clone(t, d, "a", limit)
			if err := write(filepath.Join(path, "f"), 20); (err != nil) != quotas {
				t.Errorf("write: %v", err)
			}
			var flags unix.Statfs_t
			must(t, unix.Statfs(path, &flags))
			if want := int64(unix.ST_NOSUID | unix.ST_NODEV); flags.Flags&want != want {
				t.Errorf("mount flags are %x, want nosuid and nodev", flags.Flags)
			}
			must(t, d.Close())
			d = open(t, btrfs.Config{Dir: dir})
			defer d.Close()
			if got, err := d.Path(sandbox("a")); err != nil || got != path {
				t.Errorf("path is %q, %v after a reopen, was %q", got, err, path)
			}
			must(t, d.Delete(t.Context(), sandbox("a")))
			must(t, d.Delete(t.Context(), template("a")))
		})
	}
}
