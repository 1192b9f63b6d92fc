package soak_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// smallDiskBytes holds a pool's first size with a template, and some room.
const smallDiskBytes = 6500 << 20

// smallDisk mounts a file system of its own for a data directory.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	image, mount := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, smallDiskBytes), os.Mkdir(mount, 0o711)); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != "/" && d != "/tmp"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil { // sentries must pass through
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-m", "0", image}, {"mount", "-o", "loop", image, mount}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v %s", args, err, out)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mount, 0); err != nil {
			t.Errorf("unmount the small disk: %v", err)
		}
	})
	return mount
}

// TestFullHostDisk is named test 17: another program fills the host's disk while sandboxes write. They see no error, what is
// there can be used and deleted, what is new is refused by name.
func TestFullHostDisk(t *testing.T) {
	needFull(t)
	harness.NeedRoot(t)
	disk := smallDisk(t)
	dir := filepath.Join(disk, "data")
	if err := os.Mkdir(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	options := harness.Options{Dir: dir, Env: []string{"SHOAL_POOL_MIN_HOST_FREE=256M"}}
	e := env{harness.Start(t, options)}
	t.Cleanup(func() {
		_ = os.Remove(filepath.Join(disk, "filler"))
		e.Uninstall()
	})
	writer := e.Create(t, shoal.CreateSandboxRequest{Persistent: true})
	other := e.Create(t, shoal.CreateSandboxRequest{})
	x, err := e.Client.Execs(writer.ID).Start(ctx(t), shoal.ExecRequest{Shell: `set -e; i=0
while :; do i=$((i+1)); head -c 4000000 /dev/urandom > /root/f$((i%40)); sync; echo $i; done`})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(disk, "filler"))
	from := e.written(t, writer.ID, x.ID)
	harness.Eventually(t, time.Minute, "the sandbox goes on writing", func() error {
		if now := e.written(t, writer.ID, x.ID); now < from+200 {
			return errors.New("it stands")
		}
		return nil
	})
	// A new one fits, if no directory of the host has to grow for it, or is refused by name.
	extra, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{})
	switch {
	case err == nil:
		e.Out(t, extra.ID, "true")
	case shoal.ErrorCode(err) != "exhausted":
		t.Errorf("a create on a full disk: %v", err)
	}
	for range 50 {
		e.Out(t, other.ID, "echo x > /root/x && sync")
	}
	if err := e.Client.Sandboxes().Delete(ctx(t), other.ID); err != nil {
		t.Errorf("a delete on a full disk: %v", err)
	}
	// A kill in this state, and the way back.
	e.Kill()
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	e.Restart(options)
	if got, err := e.Client.Execs(writer.ID).Get(ctx(t), x.ID); err != nil || !got.Running {
		t.Errorf("the writer has ended: %+v %v", got, err)
	}
	again := e.Create(t, shoal.CreateSandboxRequest{Name: "new"})
	e.Out(t, again.ID, "true")
	e.deleteAll(t)
}

// written returns how many bytes an exec has printed.
func (e env) written(t *testing.T, sandbox, id string) int64 {
	t.Helper()
	got, err := e.Client.Execs(sandbox).Get(ctx(t), id)
	if err != nil || !got.Running {
		t.Fatalf("the writer has ended: %+v %v", got, err)
	}
	return got.OutputBytes
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	size := 1 << 20
	for c.Err() == nil {
		_, err := io.WriteString(f, strings.Repeat("x", size))
		switch {
		case err == nil:
		case !errors.Is(err, unix.ENOSPC):
			t.Fatal(err)
		case size == 1:
			return
		default:
			size = max(size/4, 1) // to the last block
		}
	}
	t.Fatal("the disk did not fill up in time")
}
