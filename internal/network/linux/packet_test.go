package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"shoal/internal/network"
)

// guestIndex finds eth0 in the slot. A fresh namespace has lo and eth0 only.
func guestIndex() (int, error) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(s) }()
	req, err := unix.NewIfreq(guestLink)
	if err != nil {
		return 0, err
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFINDEX, req); err != nil {
		return 0, err
	}
	return int(req.Uint32()), nil
}

// wire is a raw socket on a slot's eth0, as the runtime's own network stack has one: it passes the namespace's
// netfilter by.
type wire struct {
	fd, index int
}

func openWire(t *testing.T, slot network.Slot) *wire {
	t.Helper()
	w := &wire{}
	inNS(t, slot.NetNS, func() (err error) {
		if w.index, err = guestIndex(); err != nil {
			return err
		}
		w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Bind(w.fd, &unix.SockaddrLinklayer{Protocol: hton(unix.ETH_P_ALL), Ifindex: w.index})
	})
	t.Cleanup(func() { _ = unix.Close(w.fd) })
	return w
}

func hton(v uint16) uint16 { return v<<8 | v>>8 }

// send puts a frame on the wire.
func (w *wire) send(t *testing.T, frame []byte) {
	t.Helper()
	if err := unix.Sendto(w.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: w.index}); err != nil {
		t.Fatalf("send a frame: %v", err)
	}
}

// sendIP puts an IPv4 packet on the wire, in a frame from the guest to the router.
func (w *wire) sendIP(t *testing.T, packet []byte) {
	t.Helper()
	w.send(t, frame(unix.ETH_P_IP, packet))
}

// heard returns the frames from the router that fit, until none has come for a while.
func (w *wire) heard(t *testing.T, fits func(frame []byte) bool) [][]byte {
	t.Helper()
	var frames [][]byte
	buf := make([]byte, 4096)
	tv := unix.NsecToTimeval((100 * time.Millisecond).Nanoseconds())
	if err := unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		t.Fatalf("bound the wait: %v", err)
	}
	for {
		n, from, err := unix.Recvfrom(w.fd, buf, 0)
		if errors.Is(err, unix.EAGAIN) {
			return frames
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			t.Fatalf("receive: %v", err)
		}
		// The socket also sees what the slot itself sends.
		ll, ok := from.(*unix.SockaddrLinklayer)
		if ok && ll.Pkttype != unix.PACKET_OUTGOING && fits(buf[:n]) {
			frames = append(frames, append([]byte(nil), buf[:n]...))
		}
	}
}

func anyFrame([]byte) bool { return true }

func frame(kind uint16, payload []byte) []byte {
	f := append([]byte(nil), routerMAC()...)
	f = append(f, guestMAC()...)
	f = binary.BigEndian.AppendUint16(f, kind)
	return append(f, payload...)
}

// ipPacket builds an IPv4 packet. fragment is the field of flags and offset.
func ipPacket(from, to netip.Addr, protocol byte, id, fragment uint16, payload []byte) []byte {
	h := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0}
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(payload)))
	binary.BigEndian.PutUint16(h[4:], id)
	binary.BigEndian.PutUint16(h[6:], fragment)
	h = append(append(h, from.AsSlice()...), to.AsSlice()...)
	binary.BigEndian.PutUint16(h[10:], checksum(h))
	return append(h, payload...)
}

func udp(from, to uint16, data string) []byte {
	u := make([]byte, 8, 8+len(data))
	binary.BigEndian.PutUint16(u[0:], from)
	binary.BigEndian.PutUint16(u[2:], to)
	binary.BigEndian.PutUint16(u[4:], uint16(8+len(data)))
	return append(u, data...)
}

// tcp builds a TCP header with its checksum.
func tcp(fromAddr, toAddr netip.Addr, from, to uint16, flags byte) []byte {
	h := make([]byte, 20)
	binary.BigEndian.PutUint16(h[0:], from)
	binary.BigEndian.PutUint16(h[2:], to)
	binary.BigEndian.PutUint32(h[4:], 1000)
	h[12], h[13] = 5<<4, flags
	binary.BigEndian.PutUint16(h[14:], 1024)
	pseudo := append(append(fromAddr.AsSlice(), toAddr.AsSlice()...), 0, unix.IPPROTO_TCP, 0, 20)
	binary.BigEndian.PutUint16(h[16:], checksum(append(pseudo, h...)))
	return h
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(b[i]) << 8
		if i+1 < len(b) {
			sum += uint32(b[i+1])
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// counted returns how many packets a rule of the router's table has met, by the rule's comment.
func counted(t *testing.T, d *Driver, chain, comment string) uint64 {
	t.Helper()
	c, err := nftables.New(nftables.WithNetNSFd(d.router.ns))
	if err != nil {
		t.Fatalf("open nftables: %v", err)
	}
	tb, _ := slotTable()
	rules, err := c.GetRules(tb, &nftables.Chain{Name: chain, Table: tb})
	if err != nil {
		t.Fatalf("read rules: %v", err)
	}
	for _, r := range rules {
		if got, _ := userdata.GetString(r.UserData, userdata.TypeComment); got != comment {
			continue
		}
		for _, e := range r.Exprs {
			if n, ok := e.(*expr.Counter); ok {
				return n.Packets
			}
		}
	}
	t.Fatal(fmt.Errorf("no counting rule %q in chain %q", comment, chain))
	return 0
}
