package linux

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/network"
)

func attachTest(t *testing.T, d *Driver) network.Slot {
	t.Helper()
	slot, err := d.Attach(t.Context(), core.SandboxID(core.NewID()), network.EgressDeny)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	return slot
}

// TestFragments is about a packet pieced together from two sandboxes. The router's own rules make the kernel join no
// fragments, so the test adds one that does, as a transparent proxy or connection tracking would.
func TestFragments(t *testing.T) {
	d := openTest(t)
	c, err := nftables.New(nftables.WithNetNSFd(d.router.ns))
	if err != nil {
		t.Fatalf("open nftables: %v", err)
	}
	tb := c.AddTable(&nftables.Table{Name: "joiner", Family: nftables.TableFamilyIPv4})
	chain := c.AddChain(&nftables.Chain{
		Name: "joiner", Table: tb, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRef(-100),
	})
	c.AddRule(&nftables.Rule{Table: tb, Chain: chain, Exprs: []expr.Any{&expr.Ct{Register: 1, Key: expr.CtKeySTATE}}})
	if err := c.Flush(); err != nil {
		t.Skipf("this kernel has no connection tracking to join fragments: %v", err)
	}
	one, two := openWire(t, attachTest(t, d)), openWire(t, attachTest(t, d))
	whole := udp(4000, 53, "0123456789abcdef0123456789abcdef")
	const more = 0x2000
	one.sendIP(t, ipPacket(network.GuestAddr, network.GatewayAddr, unix.IPPROTO_UDP, 77, more, whole[:24]))
	two.sendIP(t, ipPacket(network.GuestAddr, network.GatewayAddr, unix.IPPROTO_UDP, 77, 24/8, whole[24:]))
	for i, w := range []*wire{one, two} {
		if got := w.heard(t, anyFrame); len(got) != 0 {
			t.Errorf("slot %d got %d answers to a fragment", i+1, len(got))
		}
	}
	if got := counted(t, d, chainStamp, "fragment"); got != 2 {
		t.Errorf("%d fragments dropped, want 2", got)
	}
	// The same unbroken is answered, so the silence above says something.
	one.sendIP(t, ipPacket(network.GuestAddr, network.GatewayAddr, unix.IPPROTO_UDP, 78, 0, whole))
	if got := one.heard(t, anyFrame); len(got) != 1 {
		t.Errorf("%d answers to the whole packet, want 1", len(got))
	}
}

func TestSpoofedSources(t *testing.T) {
	d := openTest(t)
	victim, liar := attachTest(t, d), attachTest(t, d)
	forged := []netip.Addr{
		victim.Addr, liar.Addr, network.GatewayAddr,
		netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.88.0.3"), netip.MustParseAddr("0.0.0.0"),
		netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("1.1.1.1"),
	}
	heard, w := openWire(t, victim), openWire(t, liar)
	to := netip.MustParseAddr("1.1.1.1")
	for _, from := range forged {
		w.sendIP(t, ipPacket(from, to, unix.IPPROTO_UDP, 1, 0, udp(4000, 53, "hello")))
		w.sendIP(t, ipPacket(from, to, unix.IPPROTO_TCP, 2, 0, tcp(from, to, 4000, 443, tcpSYN)))
	}
	if got := w.heard(t, anyFrame); len(got) != 0 {
		t.Errorf("%d answers to forged packets", len(got))
	}
	if got := heard.heard(t, anyFrame); len(got) != 0 {
		t.Errorf("%d packets reached the slot whose address was forged", len(got))
	}
	if got, want := counted(t, d, chainStamp, "source"), uint64(2*len(forged)); got != want {
		t.Errorf("%d packets dropped for their source, want %d", got, want)
	}
}

func TestOptionsAreDropped(t *testing.T) {
	d := openTest(t)
	w := openWire(t, attachTest(t, d))
	recordRoute := []byte{7, 3, 4, 0}
	p := ipPacket(network.GuestAddr, network.GatewayAddr, unix.IPPROTO_UDP, 1, 0,
		append(recordRoute, udp(4000, 53, "hello")...))
	// The option's four bytes belong to the header.
	p[0] = 0x46
	binary.BigEndian.PutUint16(p[10:], 0)
	binary.BigEndian.PutUint16(p[10:], checksum(p[:24]))
	w.sendIP(t, p)
	if got := w.heard(t, anyFrame); len(got) != 0 {
		t.Errorf("%d answers to a packet with options", len(got))
	}
	if got := counted(t, d, chainStamp, "options"); got != 1 {
		t.Errorf("%d packets dropped for their options, want 1", got)
	}
}

// TestStrayReplies checks that the door for replies to the host's dials lets nothing in that could open a connection,
// even if something listened in the router.
func TestStrayReplies(t *testing.T) {
	d := openTest(t)
	slot := attachTest(t, d)
	fd := -1
	err := d.router.thread.do(func() (err error) {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		if err = unix.Bind(fd, &unix.SockaddrInet4{Port: 9999, Addr: network.GatewayAddr.As4()}); err != nil {
			return err
		}
		return unix.Listen(fd, 8)
	})
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err != nil {
		t.Fatalf("listen in the router: %v", err)
	}
	w := openWire(t, slot)
	const fin, psh, urg = 0x01, 0x08, 0x20
	for _, flags := range []byte{tcpSYN, tcpSYN | psh, tcpSYN | urg, tcpSYN | fin, tcpSYN | tcpACK, tcpACK} {
		w.sendIP(t, ipPacket(network.GuestAddr, network.GatewayAddr, unix.IPPROTO_TCP, 1, 0,
			tcp(network.GuestAddr, network.GatewayAddr, 4000, 9999, flags)))
	}
	synACKs := w.heard(t, func(f []byte) bool { return len(f) >= 48 && f[14+20+13]&(tcpSYN|tcpACK) == tcpSYN|tcpACK })
	if len(synACKs) != 0 {
		t.Errorf("a listener in the router answered %d times", len(synACKs))
	}
	if c, _, err := unix.Accept(fd); err == nil {
		_ = unix.Close(c)
		t.Error("a listener in the router has a connection")
	}
}

func TestLinkLayerTricks(t *testing.T) {
	d := openTest(t)
	other := attachTest(t, d)
	w := openWire(t, attachTest(t, d))
	before := neighbours(t, d)
	stranger := []byte{0x02, 0xba, 0xd0, 0, 0, 1}
	arp := func(op byte, senderIP, targetIP netip.Addr) []byte {
		p := []byte{0, 1, 8, 0, 6, 4, 0, op}
		p = append(append(p, stranger...), senderIP.AsSlice()...)
		return append(append(p, make([]byte, 6)...), targetIP.AsSlice()...)
	}
	broadcast := func(kind uint16, payload []byte) []byte {
		f := append(bytes.Repeat([]byte{0xff}, 6), stranger...)
		return append(binary.BigEndian.AppendUint16(f, kind), payload...)
	}
	for _, claimed := range []netip.Addr{
		network.GatewayAddr, network.GuestAddr, other.Addr, netip.MustParseAddr("10.88.0.3"),
	} {
		for op := byte(1); op <= 2; op++ {
			w.send(t, broadcast(unix.ETH_P_ARP, arp(op, claimed, network.GatewayAddr)))
			w.send(t, frame(unix.ETH_P_ARP, arp(op, claimed, network.GatewayAddr)))
		}
	}
	packet := ipPacket(network.GuestAddr, network.GatewayAddr, unix.IPPROTO_UDP, 1, 0, udp(1, 53, "x"))
	w.send(t, frame(unix.ETH_P_8021Q, append([]byte{0, 7, 8, 0}, packet...)))
	w.send(t, broadcast(unix.ETH_P_IPV6, echo6(netip.MustParseAddr("fe80::bad"), netip.MustParseAddr("ff02::1"))))
	if got := w.heard(t, anyFrame); len(got) != 0 {
		t.Errorf("%d answers to tricks of the link layer, first %x", len(got), got[0])
	}
	if after := neighbours(t, d); after != before {
		t.Errorf("the router's neighbours changed from\n%s to\n%s", before, after)
	}
}

// echo6 builds an ICMPv6 echo request.
func echo6(from, to netip.Addr) []byte {
	ends := append(from.AsSlice(), to.AsSlice()...)
	echo := []byte{128, 0, 0, 0, 0, 1, 0, 1}
	sum := checksum(append(append(append([]byte{}, ends...), 0, 0, 0, 8, 0, 0, 0, unix.IPPROTO_ICMPV6), echo...))
	echo[2], echo[3] = byte(sum>>8), byte(sum)
	return append(append([]byte{0x60, 0, 0, 0, 0, 8, unix.IPPROTO_ICMPV6, 255}, ends...), echo...)
}

// neighbours renders the router's neighbour entries.
func neighbours(t *testing.T, d *Driver) string {
	t.Helper()
	var b bytes.Buffer
	list, err := d.router.links.NeighList(0, 0)
	if err != nil {
		t.Fatalf("list neighbours: %v", err)
	}
	for _, n := range list {
		b.WriteString(n.String() + " " + n.HardwareAddr.String() + "\n")
	}
	return b.String()
}
