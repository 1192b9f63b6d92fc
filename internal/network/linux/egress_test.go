package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"shoal/internal/network"
)

// fast is how long a refusal may take in a test. A lost packet would cost a second or more.
const fast = 900 * time.Millisecond

// hostAddrs are the IPv4 addresses of the machine that the test runs on, loopback left out: in the slot that's its own.
func hostAddrs(t *testing.T) []string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatalf("list the host's addresses: %v", err)
	}
	var list []string
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			list = append(list, p.Addr().String())
		}
	}
	return list
}

// destinations is what a sandbox must not reach.
func destinations(t *testing.T, other network.Slot) []string {
	t.Helper()
	return append(hostAddrs(t),
		"1.1.1.1", "169.254.169.254", "169.254.1.1", "10.88.0.1", "10.0.0.1", "172.17.0.1", "192.168.0.1",
		"100.64.0.0", "100.127.255.255", "8.8.8.8", other.Addr.String())
}

func TestTCPIsResetAtOnce(t *testing.T) {
	d := openTest(t)
	slot, other := attachTest(t, d), attachTest(t, d)
	listenIn(t, other, 80)
	for _, to := range destinations(t, other) {
		for _, port := range []string{"53", "80", "443", "7070", "8700"} {
			start := time.Now()
			err := dialFrom(t, slot, "tcp4", net.JoinHostPort(to, port))
			if !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("connect to %s:%s: %v, want refused", to, port, err)
			}
			if took := time.Since(start); took > fast {
				t.Errorf("connect to %s:%s took %v", to, port, took)
			}
		}
	}
}

// dialFrom connects from inside a slot.
func dialFrom(t *testing.T, slot network.Slot, kind, to string) error {
	t.Helper()
	return runInNS(slot.NetNS, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		c, err := (&net.Dialer{}).DialContext(ctx, kind, to)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
}

func TestUDPIsRefusedAtOnce(t *testing.T) {
	d := openTest(t)
	slot, other := attachTest(t, d), attachTest(t, d)
	for _, to := range destinations(t, other) {
		for _, port := range []uint16{53, 443, 9999} {
			start := time.Now()
			err := askUDP(slot, netip.AddrPortFrom(netip.MustParseAddr(to), port), 3*time.Second)
			if !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("UDP to %s:%d: %v, want refused", to, port, err)
			}
			if took := time.Since(start); took > fast {
				t.Errorf("UDP to %s:%d: the refusal took %v", to, port, took)
			}
		}
	}
}

// askUDP sends a packet from a connected socket in a slot and waits for an answer.
func askUDP(slot network.Slot, to netip.AddrPort, wait time.Duration) error {
	return runInNS(slot.NetNS, func() error {
		c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(to))
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		if _, err := c.Write([]byte("hello?")); err != nil {
			return err
		}
		if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return err
		}
		_, err = c.Read(make([]byte, 64))
		return err
	})
}

// TestEveryRefusalIsSent holds that none of many refusals falls to the kernel's limits on ICMP errors, of which one is
// shared by the whole machine.
func TestEveryRefusalIsSent(t *testing.T) {
	d := openTest(t)
	slot := attachTest(t, d)
	const packets = 3000
	refused := 0
	inNS(t, slot.NetNS, func() error {
		c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort("1.1.1.1:443")))
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		for range packets {
			// The refusal of a packet may be told by the next write already.
			if _, err := c.Write([]byte("x")); errors.Is(err, unix.ECONNREFUSED) {
				refused++
				continue
			}
			if err := c.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
				return err
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNREFUSED) {
				return err
			}
			refused++
		}
		return nil
	})
	if refused != packets {
		t.Errorf("%d of %d packets were refused", refused, packets)
	}
}

func TestOtherProtocolsGetNothing(t *testing.T) {
	d := openTest(t)
	slot, other := attachTest(t, d), attachTest(t, d)
	w, heard := openWire(t, slot), openWire(t, other)
	echo := []byte{8, 0, 0, 0, 0, 1, 0, 1}
	ck := checksum(echo)
	echo[2], echo[3] = byte(ck>>8), byte(ck)
	targets := []netip.Addr{
		network.GatewayAddr, other.Addr, netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("224.0.0.1"),
		netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("127.0.0.1"),
	}
	for _, to := range targets {
		w.sendIP(t, ipPacket(network.GuestAddr, to, unix.IPPROTO_ICMP, 1, 0, echo))
		w.sendIP(t, ipPacket(network.GuestAddr, to, unix.IPPROTO_SCTP, 2, 0, make([]byte, 16)))
		w.sendIP(t, ipPacket(network.GuestAddr, to, unix.IPPROTO_GRE, 3, 0, make([]byte, 16)))
	}
	for _, f := range w.heard(t, anyFrame) {
		if f[14+9] != unix.IPPROTO_ICMP || f[14+20] != icmpUnreach {
			t.Errorf("an answer that is no refusal: %x", f)
		}
	}
	if got := heard.heard(t, anyFrame); len(got) != 0 {
		t.Errorf("%d packets reached another slot", len(got))
	}
}

func TestNoIPv6(t *testing.T) {
	d := openTest(t)
	slot := attachTest(t, d)
	for _, to := range []string{"[2606:4700:4700::1111]:443", "[fe80::1]:80", "[ff02::1]:80"} {
		start := time.Now()
		if err := dialFrom(t, slot, "tcp6", to); err == nil {
			t.Errorf("connected to %s", to)
		}
		if took := time.Since(start); took > fast {
			t.Errorf("connect to %s took %v to fail", to, took)
		}
	}
	inNS(t, slot.NetNS, func() error {
		link, err := netlink.LinkByName(guestLink)
		if err != nil {
			return err
		}
		addrs, err := netlink.AddrList(link, netlink.FAMILY_V6)
		if len(addrs) != 0 {
			t.Errorf("eth0 has IPv6 addresses: %v", addrs)
		}
		return err
	})
}

// TestGuestView holds what a sandbox sees, which a checkpoint carries into every other slot.
func TestGuestView(t *testing.T) {
	d := openTest(t)
	first := ""
	for i := range 2 {
		slot := attachTest(t, d)
		view := ""
		inNS(t, slot.NetNS, func() error {
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			link, err := netlink.LinkByName(guestLink)
			if err != nil {
				return err
			}
			addrs, err := netlink.AddrList(link, netlink.FAMILY_V4)
			if err != nil {
				return err
			}
			routes, err := netlink.RouteList(link, netlink.FAMILY_V4)
			if err != nil {
				return err
			}
			neighs, err := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_V4)
			if err != nil {
				return err
			}
			a := link.Attrs()
			view = fmt.Sprintf("lo up %v, mtu %d, mac %v", lo.Attrs().Flags&net.FlagUp != 0, a.MTU, a.HardwareAddr)
			for _, x := range addrs {
				view += "\naddr " + x.IPNet.String()
			}
			for _, x := range routes {
				view += "\nroute " + x.String()
			}
			for _, x := range neighs {
				if x.State == netlink.NUD_PERMANENT {
					view += "\nneigh " + x.String() + " " + x.HardwareAddr.String()
				}
			}
			return nil
		})
		if i == 0 {
			first = view
			t.Log(view)
			continue
		}
		if view != first {
			t.Errorf("two slots look different from inside:\n%s\n---\n%s", first, view)
		}
	}
}
