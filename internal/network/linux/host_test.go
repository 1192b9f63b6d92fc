package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/network"
)

// hostState renders all of the host's own network that a driver could have touched.
func hostState(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	for _, f := range []string{
		"ip_forward", "conf/all/rp_filter", "conf/all/forwarding", "icmp_ratelimit", "icmp_ratemask",
	} {
		v, err := os.ReadFile("/proc/sys/net/ipv4/" + f)
		check(t, err)
		fmt.Fprintf(&b, "%s=%s", f, v)
	}
	c, err := nftables.New()
	check(t, err)
	tables, err := c.ListTables()
	check(t, err)
	for _, tb := range tables {
		fmt.Fprintf(&b, "table %d %s\n", tb.Family, tb.Name)
	}
	links, err := netlink.LinkList()
	check(t, err)
	for _, l := range links {
		fmt.Fprintf(&b, "link %s\n", l.Attrs().Name)
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	check(t, err)
	for _, r := range routes {
		fmt.Fprintf(&b, "route %s\n", r)
	}
	rules, err := netlink.RuleList(netlink.FAMILY_V4)
	check(t, err)
	for _, r := range rules {
		fmt.Fprintf(&b, "rule %s\n", r)
	}
	return b.String()
}

func TestHostIsUntouched(t *testing.T) {
	needRoot(t)
	before := hostState(t)
	dir := filepath.Join(t.TempDir(), "net")
	d := openDir(t, dir)
	slot := attachTest(t, d)
	greet(t, listenIn(t, slot, network.AgentPort))
	wantHello(t, d, slot.Sandbox)
	if during := hostState(t); during != before {
		t.Errorf("the host's network changed from\n%s\nto\n%s", before, during)
	}
	destroy(t, d, dir)
	if after := hostState(t); after != before {
		t.Errorf("the host's network changed from\n%s\nto\n%s", before, after)
	}
}

// TestServersAreApart runs two servers at once: the same slot numbers and addresses, nothing in common.
func TestServersAreApart(t *testing.T) {
	needRoot(t)
	base := t.TempDir()
	dirs := []string{filepath.Join(base, "one"), filepath.Join(base, "two")}
	drivers := []*Driver{openDir(t, dirs[0]), openDir(t, dirs[1])}
	slots := []network.Slot{attachTest(t, drivers[0]), attachTest(t, drivers[1])}
	if slots[0].Addr != slots[1].Addr {
		t.Errorf("the first slots have addresses %v and %v: the test wants them equal", slots[0].Addr, slots[1].Addr)
	}
	for i, d := range drivers {
		greet(t, listenIn(t, slots[i], network.AgentPort))
		if got, err := d.List(t.Context()); err != nil || len(got) != 1 || got[0] != slots[i] {
			t.Errorf("server %d lists %v, %v; want %v", i, got, err, slots[i])
		}
		if _, err := d.Dial(t.Context(), slots[1-i].Sandbox, network.AgentPort); !core.IsCode(err, core.CodeNotFound) {
			t.Errorf("server %d dials the other's slot: %v", i, err)
		}
	}
	destroy(t, drivers[0], dirs[0])
	wantHello(t, drivers[1], slots[1].Sandbox)
	destroy(t, drivers[1], dirs[1])
}

func TestDialEmptySlot(t *testing.T) {
	d := openTest(t)
	start := time.Now()
	for _, n := range []uint32{1, 77, maxNumber} {
		_, err := d.dialAddr(t.Context(), netip.AddrPortFrom(slotAddr(n), network.AgentPort))
		if !errors.Is(err, unix.EHOSTUNREACH) {
			t.Errorf("dial of empty slot %d: %v, want no route", n, err)
		}
	}
	if took := time.Since(start); took > fast {
		t.Errorf("dials of empty slots took %v", took)
	}
}

// TestDialEndsWithContext dials a slot that swallows every packet.
func TestDialEndsWithContext(t *testing.T) {
	d := openTest(t)
	slot := attachTest(t, d)
	inNS(t, slot.NetNS, func() error {
		addrs, err := netlink.LinkByName(guestLink)
		if err != nil {
			return err
		}
		own, err := netlink.ParseAddr(network.GuestAddr.String() + "/30")
		if err != nil {
			return err
		}
		return netlink.AddrDel(addrs, own)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := d.Dial(ctx, slot.Sandbox, network.AgentPort)
	if !core.IsCode(err, core.CodeTimeout) {
		t.Errorf("Dial: %v, want a timeout", err)
	}
	if took := time.Since(start); took > fast {
		t.Errorf("Dial took %v", took)
	}
}

// TestFailedAttachLeavesNothing makes an attach fail late: its interface's name is taken.
func TestFailedAttachLeavesNothing(t *testing.T) {
	d := openTest(t)
	check(t, d.router.links.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: linkName(1), TxQLen: -1}, PeerName: "taken", PeerTxQLen: -1,
	}))
	before := openFiles(t)
	id := core.SandboxID(core.NewID())
	_, err := d.Attach(t.Context(), id, network.EgressDeny)
	if !core.IsCode(err, core.CodeInternal) {
		t.Errorf("Attach: %v, want an internal error", err)
	}
	if d.find(id) != nil {
		t.Error("the slot is still known")
	}
	if after := openFiles(t); !slices.Equal(after, before) {
		t.Errorf("descriptors before %v, after %v", before, after)
	}
	if _, err := d.Attach(t.Context(), id, network.EgressDeny); err != nil {
		t.Errorf("the next Attach: %v", err)
	}
}

// openFiles lists what the process's descriptors refer to, but for the directory that is being read.
func openFiles(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	var list []string
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasSuffix(to, "/fd") {
			list = append(list, to)
		}
	}
	slices.Sort(list)
	return list
}

// TestLateStart opens a namespace's path after its slot has been detached and another attached.
func TestLateStart(t *testing.T) {
	d := openTest(t)
	early := attachTest(t, d)
	check(t, d.Detach(t.Context(), early.Sandbox))
	late := attachTest(t, d)
	if early.NetNS == late.NetNS {
		t.Errorf("both slots were at %s", early.NetNS)
	}
	if fd, err := unix.Open(early.NetNS, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.Close(fd)
		t.Errorf("%s still leads to a namespace", early.NetNS)
	}
}

// TestOneThatStaysKeepsNoOther removes interfaces together with one that the kernel does not let go.
func TestOneThatStaysKeepsNoOther(t *testing.T) {
	d := openTest(t)
	batch := []removal{{index: loIndex, number: 7}}
	for number := range uint32(2) {
		link := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: linkName(100 + number), TxQLen: -1}, PeerName: fmt.Sprintf("peer%d", number), PeerTxQLen: -1,
		}
		check(t, d.router.links.LinkAdd(link))
		batch = append(batch, removal{index: link.Index, number: 100 + number})
	}
	if left := d.removeBatch(batch); len(left) != 1 || left[0] != batch[0] {
		t.Errorf("left are %v", left)
	}
	for _, r := range batch[1:] {
		if _, err := d.router.links.LinkByIndex(r.index); err == nil {
			t.Errorf("interface %d is left", r.index)
		}
	}
}

// TestNothingLeaks destroys a driver with slots in all conditions and looks for anything left: mounts, links,
// namespaces, descriptors and goroutines.
func TestNothingLeaks(t *testing.T) {
	needRoot(t)
	files, goroutines := openFiles(t), runtime.NumGoroutine()
	dir := filepath.Join(t.TempDir(), "net")
	d := openDir(t, dir)
	kept := attachTest(t, d)
	release := hold(t, kept)
	for range 5 {
		attachTest(t, d)
		check(t, d.Detach(t.Context(), attachTest(t, d).Sandbox))
	}
	l := listenIn(t, kept, 80)
	c, err := d.Dial(t.Context(), kept.Sandbox, 80)
	check(t, err)
	keptNS, err := unix.Open(kept.NetNS, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	check(t, err)
	destroy(t, d, dir)
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlived Destroy")
	}
	// A namespace that something else keeps has lost its way out.
	inNS(t, fmt.Sprintf("/proc/self/fd/%d", keptNS), func() error {
		if link, err := netlink.LinkByName(guestLink); err == nil {
			t.Errorf("the slot's interface is left: %v", link)
		}
		return nil
	})
	check(t, c.Close())
	check(t, l.Close())
	check(t, unix.Close(keptNS))
	release()
	eventually(t, "goroutines are gone", func() bool { return runtime.NumGoroutine() <= goroutines })
	if after := openFiles(t); !slices.Equal(after, files) {
		t.Errorf("descriptors before %v, after %v", files, after)
	}
}

// TestDialCost reports what a dial costs, without the guest.
func TestDialCost(t *testing.T) {
	d := openTest(t)
	slot := attachTest(t, d)
	greet(t, listenIn(t, slot, network.AgentPort))
	const dials = 200
	took := make([]time.Duration, dials)
	for i := range took {
		start := time.Now()
		c, err := d.Dial(t.Context(), slot.Sandbox, network.AgentPort)
		took[i] = time.Since(start)
		check(t, err)
		check(t, c.Close())
	}
	t.Logf("dial p50 %v", median(took))
}

// TestManySlots makes slots until a cost that grows with their number would show, and reports what one costs.
func TestManySlots(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 200 namespaces")
	}
	d := openTest(t)
	const slots = 200
	ids := make([]core.SandboxID, slots)
	attach, detach := make([]time.Duration, slots), make([]time.Duration, slots)
	for i := range ids {
		ids[i] = core.SandboxID(core.NewID())
		start := time.Now()
		_, err := d.Attach(t.Context(), ids[i], network.EgressDeny)
		attach[i] = time.Since(start)
		check(t, err)
	}
	t.Logf("attach p50: first fifty %v, last fifty %v", median(attach[:50]), median(attach[150:]))
	if list, err := d.List(t.Context()); err != nil || len(list) != slots {
		t.Errorf("List has %d slots, %v", len(list), err)
	}
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			start := time.Now()
			if err := d.Detach(t.Context(), ids[i]); err != nil {
				t.Errorf("Detach: %v", err)
			}
			detach[i] = time.Since(start)
		})
	}
	wg.Wait()
	t.Logf("detach p50, all at once: %v", median(detach))
	start := time.Now()
	eventually(t, "all interfaces are gone", func() bool {
		links, err := d.router.listLinks()
		check(t, err)
		return len(links) == 1
	})
	t.Logf("interfaces gone after %v", time.Since(start))
	if elements, _, err := d.router.table.read(); err != nil || len(elements) != 0 {
		t.Errorf("the map has %v, %v; want nothing", elements, err)
	}
}

func median(d []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[len(s)/2]
}
