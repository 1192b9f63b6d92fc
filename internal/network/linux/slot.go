package linux

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"shoal/internal/core"
	"shoal/internal/network"
)

// slotPrefix is where the addresses come from that stand for slots in the router: the shared address space of RFC 6598,
// which no site uses for hosts of its own. Slot n is the nth address.
var slotPrefix = netip.MustParsePrefix("100.64.0.0/10")

// maxNumber is the highest number of a slot; the last address of the prefix stays unused, as the first does.
const maxNumber = 1<<22 - 2

// slotAddr is the address that stands for slot n.
func slotAddr(n uint32) netip.Addr {
	first := slotPrefix.Addr().As4()
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(first[:])+n)
	return netip.AddrFrom4(a)
}

// linkName is the name of slot n's interface in the router.
func linkName(n uint32) string { return "v" + strconv.FormatUint(uint64(n), 10) }

// parseLinkName is the reverse of linkName.
func parseLinkName(name string) (uint32, bool) {
	digits, ok := strings.CutPrefix(name, "v")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n == 0 || n > maxNumber || linkName(uint32(n)) != name {
		return 0, false
	}
	return uint32(n), true
}

// slot is one sandbox's network as this process knows it. Nothing of it is durable: after a restart it is made again
// from the kernel.
type slot struct {
	id     core.SandboxID
	number uint32
	addr   netip.Addr
	// ready is set once, when the slot is attached whole; index and ns don't change afterwards.
	ready atomic.Bool
	// index is that of the interface in the router.
	index int

	// mu is held through Attach and Detach, which so wait for each other. Lock order: mu before Driver.mu.
	mu sync.Mutex
	// ns keeps the namespace; -1 if it was found after a restart.
	ns int
	// gone is set when the slot is detached or was never finished.
	gone bool
	// conns are the connections that Dial made and nobody has closed yet.
	conns map[*conn]struct{}
}

// view is what a caller sees of the slot. mu is held or the slot isn't published yet.
func (s *slot) view() network.Slot {
	v := network.Slot{Sandbox: s.id, Addr: s.addr}
	if s.ns >= 0 {
		v.NetNS = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.ns)
	}
	return v
}

// cut resets every connection that Dial made. mu is held.
func (s *slot) cut() {
	for c := range s.conns {
		c.reset()
	}
	s.conns = nil
}
