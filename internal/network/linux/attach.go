package linux

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/network"
)

// Attach makes a slot. Its number and address are new; its entry in the map of slots comes last, so that nothing it
// sends is let into the router before all of it stands.
func (d *Driver) Attach(ctx context.Context, id core.SandboxID, egress network.Egress) (network.Slot, error) {
	if !core.IsID(string(id)) {
		return network.Slot{}, core.Errorf(core.CodeInvalid, "malformed id of a sandbox")
	}
	if egress != network.EgressDeny {
		return network.Slot{}, core.Errorf(core.CodeUnsupported, "this node can only refuse all egress")
	}
	if err := d.begin(); err != nil {
		return network.Slot{}, err
	}
	defer d.end()
	s, err := d.reserveSlot(id)
	if err != nil {
		return network.Slot{}, edge(err, "can't attach the network")
	}
	defer s.mu.Unlock()
	if err := d.build(ctx, s); err != nil {
		s.gone = true
		d.drop(s)
		return network.Slot{}, edge(fmt.Errorf("attach network: %w", err), "can't attach the network")
	}
	s.ready.Store(true)
	return s.view(), nil
}

// reserveSlot enters a new slot, locked. It fails with exists if the sandbox has one that is alive.
func (d *Driver) reserveSlot(id core.SandboxID) (*slot, error) {
	for {
		d.mu.Lock()
		old := d.slots[id]
		if old == nil {
			s, err := d.enter(id)
			d.mu.Unlock()
			return s, err
		}
		d.mu.Unlock()
		if err := d.settle(old); err != nil {
			return nil, err
		}
	}
}

// enter makes the entry of a new slot. mu is held.
func (d *Driver) enter(id core.SandboxID) (*slot, error) {
	number, err := d.numbers.take()
	if err != nil {
		return nil, err
	}
	s := &slot{id: id, number: number, addr: slotAddr(number), ns: -1, conns: map[*conn]struct{}{}}
	s.mu.Lock()
	d.slots[id] = s
	return s, nil
}

// settle waits until no other call is at work on the slot. It fails with exists if the slot is alive then, and
// otherwise clears it away.
func (d *Driver) settle(s *slot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil
	}
	live, err := d.router.look(s)
	if err != nil {
		return err
	}
	if live {
		return core.Errorf(core.CodeExists, "the sandbox has a network already")
	}
	return d.take(s)
}

// drop forgets a slot that has nothing in the kernel.
func (d *Driver) drop(s *slot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.slots[s.id] == s {
		delete(d.slots, s.id)
	}
	d.numbers.give(s.number)
}

// build makes everything of a slot. On an error nothing is left of it.
func (d *Driver) build(ctx context.Context, s *slot) (err error) {
	var undo []func() error
	defer func() {
		if err == nil {
			return
		}
		for i := len(undo) - 1; i >= 0; i-- {
			err = errors.Join(err, undo[i]())
		}
		s.ns, s.index = -1, 0
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	var guest *netlink.Handle
	s.ns, err = inNewNetNS(func() (err error) {
		if err = applySysctls(slotSysctls()); err == nil {
			guest, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		}
		return err
	})
	if err != nil {
		return err
	}
	defer guest.Close()
	s.ns = spread(s.ns, s.number)
	ns := s.ns
	undo = append(undo, func() error { return unix.Close(ns) })

	s.index, err = d.router.addPair(linkName(s.number), string(s.id), ns)
	if index := s.index; index != 0 {
		undo = append(undo, func() error { return d.router.removeLink(index) })
	}
	if err != nil {
		return err
	}
	if err := d.router.raise(s); err != nil {
		return err
	}
	if err := raiseGuest(ctx, guest); err != nil {
		return err
	}
	if err := awaitUp(ctx, d.router.links, s.index); err != nil {
		return err
	}
	return d.router.table.add(s.index, s.addr)
}

// Descriptors of namespaces are spread over these numbers.
const (
	firstDescriptor = 1024
	descriptors     = 4096
)

// spread moves a descriptor to a number that is not used again soon. NetNS names a slot's namespace by that number:
// should a runtime come to open it too late, it must not find the namespace of another sandbox there. Where the process
// may not have that many descriptors the number stays as it is.
func spread(fd int, number uint32) int {
	moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, firstDescriptor+int(number%descriptors))
	if err != nil {
		return fd
	}
	_ = unix.Close(fd)
	return moved
}
