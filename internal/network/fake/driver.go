package fake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"shoal/internal/core"
	"shoal/internal/network"
)

// Driver is a driver on a Kernel.
type Driver struct {
	kernel *Kernel
	// kernel.mu guards all below.
	closed bool
	faults []*Fault
	calls  map[Op]int
}

var _ network.Driver = (*Driver)(nil)

// New opens a driver on a kernel.
func New(k *Kernel) *Driver { return &Driver{kernel: k, calls: map[Op]int{}} }

// Listen listens in a sandbox's slot, as a program of the sandbox would.
func (d *Driver) Listen(id core.SandboxID, port uint16) (net.Listener, error) {
	return d.kernel.Listen(id, port)
}

// Capabilities says that only EgressDeny can be enforced.
func (d *Driver) Capabilities() network.Capabilities { return network.Capabilities{} }

// Attach makes a slot.
func (d *Driver) Attach(ctx context.Context, id core.SandboxID, egress network.Egress) (network.Slot, error) {
	before, after := d.enter(ctx, OpAttach, id)
	if before != nil {
		return network.Slot{}, before
	}
	d.kernel.mu.Lock()
	defer d.kernel.mu.Unlock()
	switch {
	case d.closed:
		return network.Slot{}, closed()
	case !core.IsID(string(id)):
		return network.Slot{}, core.Errorf(core.CodeInvalid, "malformed id of a sandbox")
	case egress != network.EgressDeny:
		return network.Slot{}, core.Errorf(core.CodeUnsupported, "this node can only refuse all egress")
	case d.kernel.slots[id] != nil:
		return network.Slot{}, core.Errorf(core.CodeExists, "the sandbox has a network already")
	}
	d.kernel.last++
	n := d.kernel.last
	s := &slot{
		id: id, addr: netip.AddrFrom4([4]byte{100, 64 + byte(n>>16)&0x3f, byte(n >> 8), byte(n)}),
		netNS: fmt.Sprintf("/fake/netns/%d", n), egress: egress, owner: d,
		listeners: map[uint16]*listener{}, conns: map[*conn]struct{}{},
	}
	if after != nil {
		// On any error nothing is left.
		return network.Slot{}, after
	}
	d.kernel.slots[id] = s
	return s.view(d), nil
}

// Adopt finds a slot.
func (d *Driver) Adopt(ctx context.Context, id core.SandboxID) (network.Slot, error) {
	before, after := d.enter(ctx, OpAdopt, id)
	if before != nil {
		return network.Slot{}, before
	}
	d.kernel.mu.Lock()
	defer d.kernel.mu.Unlock()
	s := d.kernel.slots[id]
	switch {
	case d.closed:
		return network.Slot{}, closed()
	case s == nil:
		return network.Slot{}, notFound()
	case after != nil:
		return network.Slot{}, after
	}
	return s.view(d), nil
}

// Detach removes a slot.
func (d *Driver) Detach(ctx context.Context, id core.SandboxID) error {
	before, after := d.enter(context.WithoutCancel(ctx), OpDetach, id)
	if before != nil {
		return before
	}
	d.kernel.mu.Lock()
	defer d.kernel.mu.Unlock()
	if d.closed {
		return closed()
	}
	if s := d.kernel.slots[id]; s != nil {
		d.kernel.remove(s)
	}
	return after
}

// Dial connects to a listener in a slot.
func (d *Driver) Dial(ctx context.Context, id core.SandboxID, port uint16) (net.Conn, error) {
	before, after := d.enter(ctx, OpDial, id)
	if before != nil {
		return nil, before
	}
	d.kernel.mu.Lock()
	defer d.kernel.mu.Unlock()
	s := d.kernel.slots[id]
	switch {
	case d.closed:
		return nil, closed()
	case port == 0:
		return nil, core.Errorf(core.CodeInvalid, "port 0 can't be dialed")
	case s == nil:
		return nil, notFound()
	case after != nil:
		return nil, after
	}
	l := s.listeners[port]
	if l == nil {
		return nil, core.Errorf(core.CodeUnavailable, "nothing listens on that port in the sandbox")
	}
	host, guest := net.Pipe()
	select {
	case l.queue <- guest:
	default:
		return nil, core.Errorf(core.CodeUnavailable, "too many connections wait on that port in the sandbox")
	}
	c := &conn{Conn: host, kernel: d.kernel, slot: s, guest: guest}
	s.conns[c] = struct{}{}
	return c, nil
}

// List returns all slots.
func (d *Driver) List(ctx context.Context) ([]network.Slot, error) {
	before, after := d.enter(ctx, OpList, "")
	if before != nil {
		return nil, before
	}
	d.kernel.mu.Lock()
	defer d.kernel.mu.Unlock()
	if d.closed {
		return nil, closed()
	}
	if after != nil {
		return nil, after
	}
	slots := []network.Slot{}
	for _, s := range d.kernel.slots {
		slots = append(slots, s.view(d))
	}
	return slots, nil
}

// Close lets go of the driver's slots; those that nothing holds vanish.
func (d *Driver) Close() error {
	d.kernel.mu.Lock()
	defer d.kernel.mu.Unlock()
	d.closed = true
	for _, s := range d.kernel.slots {
		if s.owner == d {
			s.owner = nil
			d.kernel.collect(s)
		}
	}
	return nil
}

// Destroy removes every slot of the kernel and closes the driver.
func (d *Driver) Destroy(context.Context) error {
	d.kernel.mu.Lock()
	defer d.kernel.mu.Unlock()
	if d.closed {
		return closed()
	}
	d.closed = true
	for _, s := range d.kernel.slots {
		d.kernel.remove(s)
	}
	return nil
}

func notFound() error { return core.Errorf(core.CodeNotFound, "the sandbox has no network") }

func closed() error { return core.Errorf(core.CodeUnavailable, "the network driver has been closed") }

func ended(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return core.Wrap(core.CodeTimeout, err, "the call has not ended in time")
	}
	return core.Wrap(core.CodeCanceled, err, "the call was canceled")
}
