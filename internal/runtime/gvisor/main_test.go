package gvisor_test

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/image/oci"
	contract "shoal/internal/runtime"
	"shoal/internal/runtime/gvisor"
)

// TestMain lets the test binary be sentry, gofer and creator, as the real program is.
func TestMain(m *testing.M) {
	gvisor.RunFace()
	oci.RunFace() // a test imports images
	if err := gvisor.KeepFirstThread(); err != nil {
		panic(err)
	}
	if dir := os.Getenv(doomedDir); dir != "" {
		os.Exit(doomed(dir))
	}
	os.Exit(m.Run())
}

// needRoot skips a test that needs root, or fails it where the environment says that root must be there.
func needRoot(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("SHOAL_REQUIRE_ROOT") == "1" {
		tb.Fatal("needs root: namespaces, mounts and cgroups")
	}
	tb.Skip("needs root: namespaces, mounts and cgroups")
}

// host is one test's world: directories, a driver's configuration and network slots.
type host struct {
	t    testing.TB
	dir  string
	root string
	run  string
	cfg  gvisor.Config

	mu    sync.Mutex
	slots map[core.SandboxID]*slot
}

// newHost makes directories with a root tree that holds a test agent, and a configuration on them.
func newHost(tb testing.TB) *host {
	tb.Helper()
	needRoot(tb)
	dir, err := os.MkdirTemp("", "shoal-gvisor-") //nolint:usetesting // It must go before the sweep, not after, and is kept short.
	if err != nil {
		tb.Fatal(err)
	}
	h := &host{t: tb, dir: dir, root: filepath.Join(dir, "tree"), run: filepath.Join(dir, "run"), slots: map[core.SandboxID]*slot{}}
	tb.Cleanup(h.close)
	h.makeTree(h.root)
	if err := os.Mkdir(h.run, 0o755); err != nil {
		tb.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(h.run, "agent"), "./testdata/agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build test agent: %v\n%s", err, out)
	}
	h.cfg = gvisor.Config{
		StateDir: filepath.Join(dir, "runtime"), BinDir: filepath.Join(dir, "bin"),
		CgroupParent: "shoal-test", DialSlot: h.dial, DebugLogDir: os.Getenv("SHOAL_TEST_GVISOR_LOG"),
	}
	return h
}

// makeTree makes a tree that belongs to the mapped owners.
func (h *host) makeTree(root string) {
	h.t.Helper()
	for _, d := range []string{"", "tmp", "etc", "proc", "sys", "dev", "run"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "etc/secret"), []byte("root only"), 0o600); err != nil {
		h.t.Fatal(err)
	}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, gvisor.DefaultOwnerUID, gvisor.DefaultOwnerUID)
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky); err != nil {
		h.t.Fatal(err)
	}
}

// close removes everything.
func (h *host) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.slots {
		s.close()
	}
	if err := os.RemoveAll(h.dir); err != nil {
		h.t.Errorf("remove test directory: %v", err)
	}
}

// open opens a driver.
func (h *host) open() *gvisor.Driver { return h.openFor(h.t) }

// openFor opens a driver for a subtest.
func (h *host) openFor(tb testing.TB) *gvisor.Driver {
	tb.Helper()
	d, err := gvisor.Open(context.Background(), h.cfg)
	if err != nil {
		tb.Fatalf("Open: %v", err)
	}
	return d
}

// sweep kills what is left and removes the driver's groups.
func (h *host) sweep() {
	ctx := context.Background()
	d, err := gvisor.Open(ctx, h.cfg)
	if err != nil {
		h.t.Errorf("Open for clean-up: %v", err)
		return
	}
	list, err := d.List(ctx)
	if err != nil {
		h.t.Errorf("List for clean-up: %v", err)
	}
	for _, s := range list {
		if err := d.Kill(ctx, s.ID); err != nil {
			h.t.Errorf("Kill for clean-up: %v", err)
		}
	}
	if err := d.Uninstall(ctx); err != nil {
		h.t.Errorf("Uninstall: %v", err)
	}
	if err := d.Close(); err != nil {
		h.t.Errorf("Close: %v", err)
	}
}

// spec returns the spec of a new sandbox, with a fresh slot.
func (h *host) spec(id core.SandboxID) contract.Spec {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.slots[id]; old != nil {
		old.close()
	}
	s, err := newSlot()
	if err != nil {
		h.t.Fatalf("make slot: %v", err)
	}
	h.slots[id] = s
	return contract.Spec{
		ID: id, Incarnation: 1, RootFS: h.root, RunDir: h.run, NetNS: s.path(), Hostname: "box",
		Resources: core.Resources{VCPUs: 1, MemoryBytes: 256 << 20},
	}
}

// dial is the driver's way into a slot.
func (h *host) dial(ctx context.Context, id core.SandboxID, port uint16) (net.Conn, error) {
	h.mu.Lock()
	s := h.slots[id]
	h.mu.Unlock()
	if s == nil {
		return nil, core.Errorf(core.CodeNotFound, "no slot")
	}
	return s.dial(ctx, port)
}

// slot is a pair of network namespaces joined by a veth: the guest's and one that stands for the host.
type slot struct {
	host, guest netns.NsHandle
}

// newSlot makes a slot with the guest's and the gateway's addresses.
func newSlot() (s *slot, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread is never unlocked: it has changed its namespace and ends with this goroutine.
		runtime.LockOSThread()
		s, err = makeSlot()
	}()
	<-done
	return s, err
}

func makeSlot() (*slot, error) {
	s := &slot{}
	var err error
	if s.guest, err = netns.New(); err != nil {
		return nil, err
	}
	if s.host, err = netns.New(); err != nil {
		return nil, err
	}
	host, err := netlink.NewHandleAt(s.host)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	guest, err := netlink.NewHandleAt(s.guest)
	if err != nil {
		return nil, err
	}
	defer guest.Close()
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v0"}, PeerName: "eth0", PeerNamespace: netlink.NsFd(s.guest)}
	if err := host.LinkAdd(veth); err != nil {
		return nil, fmt.Errorf("add veth: %w", err)
	}
	if err := up(host, "v0", "10.88.0.1/30"); err != nil {
		return nil, err
	}
	if err := up(guest, "lo", ""); err != nil {
		return nil, err
	}
	return s, up(guest, "eth0", "10.88.0.2/30")
}

// up gives a link its address and sets it up.
func up(h *netlink.Handle, name, address string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	if address != "" {
		addr, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}
		if err := h.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("address %s: %w", name, err)
		}
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

func (s *slot) path() string { return fmt.Sprintf("/proc/self/fd/%d", int(s.guest)) }

func (s *slot) close() {
	s.guest.Close()
	s.host.Close()
}

func (s *slot) dial(ctx context.Context, port uint16) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err = unix.Setns(int(s.host), unix.CLONE_NEWNET); err != nil {
			return
		}
		var d net.Dialer
		conn, err = d.DialContext(ctx, "tcp4", fmt.Sprintf("10.88.0.2:%d", port))
	}()
	<-done
	return conn, err
}

// signal sends a signal to a sandbox's process.
func signal(tb testing.TB, pid int, sig unix.Signal) {
	tb.Helper()
	if pid <= 1 {
		tb.Fatalf("no process: %d", pid)
	}
	if err := unix.Kill(pid, sig); err != nil {
		tb.Fatalf("signal process %d: %v", pid, err)
	}
}

// overwrite replaces a file's content.
func overwrite(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// remove removes a file.
func remove(tb testing.TB, path string) {
	tb.Helper()
	if err := os.Remove(path); err != nil {
		tb.Fatal(err)
	}
}

// itoa is strconv.Itoa under a short name.
func itoa(n int) string { return strconv.Itoa(n) }
