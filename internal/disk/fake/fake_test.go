package fake_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/disk/disktest"
	"shoal/internal/disk/fake"
)

func open(t *testing.T, dir string) *fake.Driver {
	t.Helper()
	d, err := fake.Open(filepath.Join(dir, "trees"))
	if err != nil {
		t.Fatal(err)
	}
	if !disktest.Child() {
		t.Cleanup(func() {
			if err := d.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
	return d
}

func TestContract(t *testing.T) {
	disktest.Run(t, func(t *testing.T, dir string) disk.Driver {
		t.Helper()
		return open(t, dir)
	}, disktest.Options{Attempt: obeying})
}

// obeying runs attempts on a thread that obeys permission bits, also as root.
func obeying(t *testing.T, attempts func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		// The thread is not unlocked, so it ends with this goroutine: what it gave up concerns nobody else.
		runtime.LockOSThread()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		err := unix.Capget(&header, &data[0])
		if err == nil {
			data[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
			err = unix.Capset(&header, &data[0])
		}
		if err == nil {
			attempts()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestFaults(t *testing.T) {
	d := open(t, t.TempDir())
	ctx := t.Context()
	ref := disk.Ref{Kind: disk.KindTemplate, ID: "abc"}
	fault := core.Errorf(core.CodeExhausted, "full")

	d.Fail(fake.OpCreate, fault)
	if _, err := d.Create(ctx, ref); !errors.Is(err, fault) {
		t.Errorf("got %v, want the fault", err)
	}
	d.Fail(fake.OpCreate, nil)
	if _, err := d.Create(ctx, ref); err != nil {
		t.Error(err)
	}
}

func TestHook(t *testing.T) {
	d := open(t, t.TempDir())
	ctx := t.Context()
	from, to := disk.Ref{Kind: disk.KindTemplate, ID: "abc"}, disk.Ref{Kind: disk.KindSandbox, ID: "abc"}
	fault := errors.New("broken")
	var calls []fake.Call
	d.SetHook(func(_ context.Context, c fake.Call) error {
		calls = append(calls, c)
		if c.Op == fake.OpFreeze {
			return fault
		}
		return nil
	})
	path, err := d.Create(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Freeze(ctx, from); !errors.Is(err, fault) {
		t.Errorf("got %v, want the hook's error", err)
	}
	if err := os.WriteFile(filepath.Join(path, "f"), nil, 0o644); err != nil {
		t.Errorf("a refused freeze froze: %v", err)
	}
	opts := disk.CloneOptions{LimitBytes: 1}
	if _, err := d.Clone(ctx, from, to, opts); !core.IsCode(err, core.CodeUnsupported) {
		t.Errorf("got %v, want unsupported", err)
	}
	want := []fake.Call{
		{Op: fake.OpCreate, Ref: from},
		{Op: fake.OpFreeze, Ref: from},
		{Op: fake.OpClone, Ref: to, From: from, Options: opts},
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestSetSpace(t *testing.T) {
	d := open(t, t.TempDir())
	want := disk.Space{TotalBytes: 100, FreeBytes: 3, AllocatedBytes: 97}
	d.SetSpace(want)
	got, err := d.Space(t.Context())
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}
