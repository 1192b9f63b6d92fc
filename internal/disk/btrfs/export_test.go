package btrfs

import (
	"os"
	"path/filepath"
	"testing"

	"shoal/internal/disk"
)

// DisableQuotas switches quotas off in a driver's file system, as on a host whose operator never switched them on.
func DisableQuotas(t *testing.T, d *Driver) {
	t.Helper()
	args := quotaCtlArgs{cmd: 2}
	if err := ioctl(int(d.pool.root.Fd()), ioctlQuotaCtl, &args); err != nil {
		t.Fatal(err)
	}
}

// ExtendImage makes a driver's image larger and nothing else; with device, its loop device too: what is left by a process
// that died while a pool grew.
func ExtendImage(t *testing.T, d *Driver, more int64, device bool) {
	t.Helper()
	st, err := d.pool.image.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := extend(d.pool.image, st.Size(), more); err != nil {
		t.Fatal(err)
	}
	if !device {
		return
	}
	loop, err := findLoop(d.pool.image)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = loop.close() }()
	if err := loop.followImage(); err != nil {
		t.Fatal(err)
	}
}

// MakeUnmountedImage makes a pool image and nothing else.
func MakeUnmountedImage(t *testing.T, dir string) {
	t.Helper()
	cfg, err := Config{Dir: dir, GrowStep: MinImageBytes}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if err := makeImage(t.Context(), cfg, filepath.Join(dir, imageName)); err != nil {
		t.Fatal(err)
	}
}

// MountPlain mounts a pool's image as Open does, without what follows, and returns its loop device.
func MountPlain(t *testing.T, dir string) {
	t.Helper()
	image, err := os.OpenFile(filepath.Join(dir, imageName), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	loop, err := attachLoop(image)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = loop.close() }()
	if err := os.Mkdir(filepath.Join(dir, mountDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := mountPool(loop.path(), filepath.Join(dir, mountDir)); err != nil {
		t.Fatal(err)
	}
}

// LeaveReplacing makes what a Replace makes beside a tree, and nothing else.
func LeaveReplacing(t *testing.T, d *Driver, from, to disk.Ref) {
	t.Helper()
	if err := d.clone(from, d.dirOf(to), to.ID+replacing, disk.CloneOptions{}); err != nil {
		t.Fatal(err)
	}
}

// SyncAndClean commits, which also wakes the kernel's cleaner of deleted subvolumes.
func SyncAndClean(t *testing.T, d *Driver) {
	t.Helper()
	if err := commit(int(d.pool.root.Fd())); err != nil {
		t.Fatal(err)
	}
}

// SweepTwice removes quota groups that are not needed, as two sweeps of the loop do.
func SweepTwice(t *testing.T, d *Driver) {
	t.Helper()
	d.pool.sweepQgroups(t.Context(), d.pool.sweepQgroups(t.Context(), nil))
}

// Qgroups lists a driver's quota groups.
func Qgroups(t *testing.T, d *Driver) []string {
	t.Helper()
	groups, err := filepath.Glob(filepath.Join(d.pool.sysfs, "qgroups", "0_*"))
	if err != nil {
		t.Fatal(err)
	}
	return groups
}

// FindMkfs looks for a program by names.
func FindMkfs(names ...string) (string, error) { return findMkfs(names...) }
