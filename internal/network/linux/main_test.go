package linux

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"shoal/internal/network"
	"shoal/internal/network/networktest"
)

// needRoot skips the test for an ordinary user, or fails it where root is required.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	const reason = "needs root: it makes network namespaces"
	if os.Getenv("SHOAL_REQUIRE_ROOT") == "1" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// openDir opens a driver on a state directory.
func openDir(t *testing.T, dir string) *Driver {
	t.Helper()
	cfg := Config{Name: "test", StateDir: dir, Logger: slog.New(slog.DiscardHandler)}
	d, err := Open(context.WithoutCancel(t.Context()), cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return d
}

// openTest opens a driver on a state of its own, which is destroyed when the test ends.
func openTest(t *testing.T) *Driver {
	t.Helper()
	needRoot(t)
	d := openDir(t, t.TempDir())
	t.Cleanup(func() {
		if err := d.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	return d
}

// inNS runs fn on a thread in the network namespace at path.
func inNS(t *testing.T, path string, fn func() error) {
	t.Helper()
	if err := runInNS(path, fn); err != nil {
		t.Fatalf("in %s: %v", path, err)
	}
}

func runInNS(path string, fn func() error) error {
	out := make(chan error, 1)
	onThread(func() bool {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			_ = unix.Close(fd)
		}
		if err == nil {
			err = fn()
		}
		out <- err
		return false
	})
	return <-out
}

// listenIn listens in a slot as a program of the sandbox would.
func listenIn(t *testing.T, slot network.Slot, port uint16) net.Listener {
	t.Helper()
	var l net.Listener
	inNS(t, slot.NetNS, func() (err error) {
		l, err = net.Listen("tcp4", fmt.Sprintf("%s:%d", network.GuestAddr, port))
		return err
	})
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// hold keeps a slot's namespace in use as a runtime would.
func hold(t *testing.T, slot network.Slot) func() {
	t.Helper()
	fd, err := unix.Open(slot.NetNS, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("hold %s: %v", slot.NetNS, err)
	}
	held := true
	release := func() {
		if held {
			held = false
			_ = unix.Close(fd)
		}
	}
	t.Cleanup(release)
	return release
}

func TestContract(t *testing.T) {
	needRoot(t)
	networktest.Run(t,
		func(t *testing.T, dir string) network.Driver {
			t.Helper()
			return openDir(t, dir)
		},
		networktest.Options{Listen: listenIn, Hold: hold})
}
