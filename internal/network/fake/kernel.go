package fake

import (
	"net"
	"net/netip"
	"sync"

	"shoal/internal/core"
	"shoal/internal/network"
)

// Kernel holds the slots. It may be used from many goroutines.
type Kernel struct {
	mu    sync.Mutex
	last  uint32
	slots map[core.SandboxID]*slot
}

// slot is one sandbox's network. Kernel.mu guards it.
type slot struct {
	id     core.SandboxID
	addr   netip.Addr
	netNS  string
	egress network.Egress
	// owner is the driver that attached it, nil once that has been closed.
	owner *Driver
	// holders counts the runtimes that use the namespace.
	holders   int
	listeners map[uint16]*listener
	conns     map[*conn]struct{}
}

// NewKernel returns a kernel without slots.
func NewKernel() *Kernel { return &Kernel{slots: map[core.SandboxID]*slot{}} }

// Listen listens in a sandbox's slot, as a program of the sandbox would. The listener ends with the slot.
func (k *Kernel) Listen(id core.SandboxID, port uint16) (net.Listener, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.slots[id]
	if s == nil {
		return nil, notFound()
	}
	if port == 0 {
		return nil, core.Errorf(core.CodeInvalid, "port 0 can't be listened on")
	}
	if s.listeners[port] != nil {
		return nil, core.Errorf(core.CodeExists, "the port is taken in the sandbox")
	}
	l := newListener(k, s, port)
	s.listeners[port] = l
	return l, nil
}

// Hold keeps a slot in use as a runtime does, also after its driver has been closed, until release is called once.
func (k *Kernel) Hold(id core.SandboxID) (release func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.slots[id]
	if s == nil {
		return nil, notFound()
	}
	s.holders++
	return sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		s.holders--
		k.collect(s)
	}), nil
}

// Egress returns the policy that a slot was attached with; ok is false if there is no slot.
func (k *Kernel) Egress(id core.SandboxID) (e network.Egress, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.slots[id]
	if s == nil {
		return "", false
	}
	return s.egress, true
}

// collect removes a slot that nothing uses any more. mu is held.
func (k *Kernel) collect(s *slot) {
	if s.owner == nil && s.holders == 0 {
		k.remove(s)
	}
}

// remove takes a slot away with all that listens and is connected in it. mu is held.
func (k *Kernel) remove(s *slot) {
	if k.slots[s.id] == s {
		delete(k.slots, s.id)
	}
	for _, l := range s.listeners {
		l.end()
	}
	for c := range s.conns {
		c.cut()
	}
	s.listeners, s.conns = nil, nil
}

// view is what a caller sees of a slot through d.
func (s *slot) view(d *Driver) network.Slot {
	v := network.Slot{Sandbox: s.id, Addr: s.addr}
	if s.owner == d {
		v.NetNS = s.netNS
	}
	return v
}
