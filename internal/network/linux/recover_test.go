package linux

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/network"
)

// The environment that makes the test binary play another process: a server that dies, or a runtime that keeps a
// namespace.
const (
	envRole = "SHOAL_TEST_ROLE"
	envArg  = "SHOAL_TEST_ARG"
)

// TestMain lets a child of a test play its role instead of running tests.
func TestMain(m *testing.M) {
	switch os.Getenv(envRole) {
	case "":
		os.Exit(m.Run())
	case "server":
		playServer(os.Getenv(envArg))
	case "churn":
		playChurn(os.Getenv(envArg))
	case "runtime":
		playRuntime(os.Getenv(envArg))
	}
	os.Exit(1)
}

// play starts the test binary in a role and returns it with its output.
func play(t *testing.T, role, arg string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	// #nosec G204 -- the test binary itself.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"="+role, envArg+"="+arg)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("pipe: %v", err)
	}
	// The child lives as long as its input is open, so that none is left behind if the test dies.
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatalf("pipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the %s: %v", role, err)
	}
	t.Cleanup(func() { kill(cmd) })
	return cmd, bufio.NewReader(out)
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// say writes a line to the test and then waits for the end of input.
func say(line string) {
	fmt.Println(line)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func hear(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("the other process has died: %v", err)
	}
	return strings.TrimSpace(line)
}

// playServer attaches a slot and tells its sandbox, address and namespace.
func playServer(dir string) {
	ctx := context.Background()
	d, err := Open(ctx, Config{Name: "server", StateDir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		say("open: " + err.Error())
	}
	slot, err := d.Attach(ctx, core.SandboxID(core.NewID()), network.EgressDeny)
	if err != nil {
		say("attach: " + err.Error())
	}
	say(fmt.Sprintf("%s %s %s", slot.Sandbox, slot.Addr, slot.NetNS))
}

// playChurn attaches and detaches without end, with a line after each step.
func playChurn(dir string) {
	fmt.Println("starting")
	ctx := context.Background()
	d, err := Open(ctx, Config{Name: "churn", StateDir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		say("open: " + err.Error())
	}
	var last core.SandboxID
	for {
		fmt.Println("ok")
		id := core.SandboxID(core.NewID())
		if _, err := d.Attach(ctx, id, network.EgressDeny); err != nil {
			say("attach: " + err.Error())
		}
		if err := d.Detach(ctx, last); err != nil {
			say("detach: " + err.Error())
		}
		last = id
	}
}

// playRuntime enters a namespace for good and greets whoever connects to the guest agent's port.
func playRuntime(path string) {
	var l net.Listener
	err := runInNS(path, func() (err error) {
		l, err = net.Listen("tcp4", fmt.Sprintf("%s:%d", network.GuestAddr, network.AgentPort))
		return err
	})
	if err != nil {
		say("listen: " + err.Error())
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello\n")
			_ = c.Close()
		}
	}()
	say("listening")
}

// wantHello dials the guest agent's port and reads what playRuntime says.
func wantHello(t *testing.T, d *Driver, id core.SandboxID) {
	t.Helper()
	c, err := d.Dial(t.Context(), id, network.AgentPort)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer func() { _ = c.Close() }()
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello\n" {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestServerKilled kills a server while a runtime in a process of its own goes on, and then the runtime.
func TestServerKilled(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "net")
	server, out := play(t, "server", dir)
	fields := strings.Fields(hear(t, out))
	if len(fields) != 3 {
		t.Fatalf("the server says %q", fields)
	}
	id := core.SandboxID(fields[0])
	runtime, said := play(t, "runtime", fields[2])
	if got := hear(t, said); got != "listening" {
		t.Fatalf("the runtime says %q", got)
	}
	kill(server)

	d := openDir(t, dir)
	t.Cleanup(func() { destroy(t, d, dir) })
	slot, err := d.Adopt(t.Context(), id)
	if err != nil {
		t.Fatalf("Adopt: %v", err)
	}
	if slot.Addr.String() != fields[1] || slot.NetNS != "" {
		t.Errorf("adopted %+v, want address %s and no namespace", slot, fields[1])
	}
	wantHello(t, d, id)

	// When the runtime dies too, nothing keeps the namespace.
	kill(runtime)
	eventually(t, "the slot is gone with its runtime", func() bool {
		_, err := d.Adopt(t.Context(), id)
		return core.IsCode(err, core.CodeNotFound)
	})
	if slots, err := d.List(t.Context()); err != nil || len(slots) != 0 {
		t.Errorf("List has %v, %v; want nothing", slots, err)
	}
	if _, err := d.Dial(t.Context(), id, network.AgentPort); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("Dial of a dead slot: %v, want unavailable", err)
	}
	// The dead slot makes room for a new one, and its element in the map goes.
	if _, err := d.Attach(t.Context(), id, network.EgressDeny); err != nil {
		t.Errorf("Attach after the slot died: %v", err)
	}
	if elements, _, err := d.router.table.read(); err != nil || len(elements) != 1 {
		t.Errorf("the map has %v, %v; want one element", elements, err)
	}
}

// TestKilledAnywhere kills servers while they open, attach and detach, one after the other on one state directory.
func TestKilledAnywhere(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "net")
	const rounds = 12
	for round := range rounds {
		server, out := play(t, "churn", dir)
		if got := hear(t, out); got != "starting" {
			t.Fatalf("round %d: the server says %q", round, got)
		}
		for range round {
			if got := hear(t, out); got != "ok" {
				t.Fatalf("round %d: the server says %q", round, got)
			}
		}
		kill(server)
	}
	d := openDir(t, dir)
	t.Cleanup(func() { destroy(t, d, dir) })
	eventually(t, "slots that nothing uses are gone", func() bool {
		slots, err := d.List(t.Context())
		check(t, err)
		return len(slots) == 0
	})
	slot := attachTest(t, d)
	greet(t, listenIn(t, slot, network.AgentPort))
	wantHello(t, d, slot.Sandbox)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	check(t, err)
	if n := strings.Count(string(mounts), dir); n != 1 {
		t.Errorf("%d mounts in the state directory, want 1", n)
	}
}

// destroy destroys the driver and checks that its state directory is gone with the mount.
func destroy(t *testing.T, d *Driver, dir string) {
	t.Helper()
	if err := d.Destroy(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state directory is still there: %v", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("a mount under %s is left (%v)", dir, err)
	}
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	const patience = 10 * time.Second
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("still not after %v: %s", patience, what)
		}
	}
}

// TestOpenMends opens drivers on what a death at any step of an earlier one, or a meddling hand, may have left.
func TestOpenMends(t *testing.T) {
	needRoot(t)
	tests := []struct {
		name string
		// harm is done to a router with one live slot, or with none if bare.
		bare bool
		harm func(t *testing.T, d *Driver, slot network.Slot)
	}{
		{"file made but not mounted", true, func(t *testing.T, d *Driver, _ network.Slot) {
			t.Helper()
			check(t, d.router.forget())
			check(t, os.WriteFile(d.router.file, nil, 0o600))
		}},
		{"router without anything in it", true, func(t *testing.T, d *Driver, _ network.Slot) {
			t.Helper()
			check(t, d.router.forget())
			ns, err := inNewNetNS(func() error { return nil })
			check(t, err)
			bare := &router{file: d.router.file, ns: ns}
			check(t, bare.persist())
			check(t, unix.Close(ns))
		}},
		{"rules flushed", false, func(t *testing.T, d *Driver, _ network.Slot) {
			t.Helper()
			c, err := nftables.New(nftables.WithNetNSFd(d.router.ns))
			check(t, err)
			c.FlushRuleset()
			check(t, c.Flush())
		}},
		{"a chain emptied", false, func(t *testing.T, d *Driver, _ network.Slot) {
			t.Helper()
			c, err := nftables.New(nftables.WithNetNSFd(d.router.ns))
			check(t, err)
			tb, _ := slotTable()
			c.FlushChain(&nftables.Chain{Name: chainDecide, Table: tb})
			check(t, c.Flush())
		}},
		{"sysctls changed", false, func(t *testing.T, d *Driver, _ network.Slot) {
			t.Helper()
			check(t, d.router.thread.do(func() error {
				return applySysctls([]sysctl{
					{path: "ipv4/ip_forward", value: "1"},
					{path: "ipv4/icmp_ratemask", value: "6168"},
					{path: "ipv4/conf/all/rp_filter", value: "0"},
				})
			}))
		}},
		{"interface down, route and neighbour gone with it", false, func(t *testing.T, d *Driver, slot network.Slot) {
			t.Helper()
			check(t, d.router.links.LinkSetDown(linkAt(d.find(slot.Sandbox).index)))
		}},
		{"slot half made, without its map element", false, func(t *testing.T, d *Driver, _ network.Slot) {
			t.Helper()
			half := attachTest(t, d)
			hold(t, half)
			check(t, d.router.table.remove(d.find(half.Sandbox).index))
		}},
		{"interface without a sandbox", false, func(t *testing.T, d *Driver, _ network.Slot) {
			t.Helper()
			half := attachTest(t, d)
			hold(t, half)
			check(t, d.router.links.LinkSetAlias(linkAt(d.find(half.Sandbox).index), "nobody's"))
		}},
		{"element of an interface that is gone", false, func(t *testing.T, d *Driver, _ network.Slot) {
			t.Helper()
			check(t, d.router.table.add(4242, slotAddr(4242)))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "net")
			first := openDir(t, dir)
			var slot network.Slot
			if !tt.bare {
				slot = attachTest(t, first)
				hold(t, slot)
				greet(t, listenIn(t, slot, network.AgentPort))
			}
			tt.harm(t, first, slot)
			check(t, first.Close())
			d := openDir(t, dir)
			t.Cleanup(func() { destroy(t, d, dir) })
			if tt.bare {
				slot = attachTest(t, d)
				greet(t, listenIn(t, slot, network.AgentPort))
			}
			wantWhole(t, d, slot)
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// greet answers on a listener as playRuntime does.
func greet(t *testing.T, l net.Listener) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello\n")
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
}

// wantWhole checks that the router is as it must be, with this one slot in it.
func wantWhole(t *testing.T, d *Driver, slot network.Slot) {
	t.Helper()
	wantHello(t, d, slot.Sandbox)
	slots, err := d.List(t.Context())
	if err != nil || len(slots) != 1 || slots[0].Addr != slot.Addr {
		t.Errorf("List has %v, %v; want %v", slots, err, slot)
	}
	elements, _, err := d.router.table.read()
	if s := d.find(slot.Sandbox); err != nil || len(elements) != 1 || elements[s.index] != slot.Addr {
		t.Errorf("the map has %v, %v; want %d: %v", elements, err, s.index, slot.Addr)
	}
	check(t, d.router.thread.do(func() error {
		for _, s := range routerSysctls() {
			got, err := os.ReadFile("/proc/sys/net/" + s.path)
			if err != nil && s.optional {
				continue
			}
			if strings.TrimSpace(string(got)) != s.value {
				t.Errorf("sysctl %s is %q (%v), want %q", s.path, got, err, s.value)
			}
		}
		return nil
	}))
	eventually(t, "interfaces of no slot are gone", func() bool {
		links, err := d.router.listLinks()
		check(t, err)
		n := 0
		for _, l := range links {
			if _, ok := parseLinkName(l.Attrs().Name); ok {
				n++
			}
		}
		return n == 1
	})
}
