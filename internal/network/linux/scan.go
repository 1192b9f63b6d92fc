package linux

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"shoal/internal/core"
)

// dumpTries bounds how often a list is asked for that changed while the kernel wrote it.
const dumpTries = 20

// listLinks returns the router's interfaces.
func (r *router) listLinks() ([]netlink.Link, error) {
	for try := 1; ; try++ {
		links, err := r.links.LinkList()
		if errors.Is(err, netlink.ErrDumpInterrupted) && try < dumpTries {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the router's interfaces: %w", err)
		}
		return links, nil
	}
}

// alive reports whether the namespace at the other end of a pair is still in use. The kernel gives the id of a
// namespace that is being taken down as -1, which the library returns unsigned.
func alive(a *netlink.LinkAttrs) bool { return int32(uint32(a.NetNsID)) >= 0 }

// scan finds the slots that the kernel has, and the interfaces that belong to none: those of a slot that was half made
// or half removed when its process died, or whose namespace is being taken down.
//
// The map of slots tells which are whole: Attach enters a slot last and Detach removes it first. Where there is no map
// at all, every named interface counts as a slot.
func (r *router) scan() (slots map[core.SandboxID]*slot, garbage map[int]uint32, reserved uint32, err error) {
	elements, haveMap, err := r.table.read()
	if err != nil {
		return nil, nil, 0, err
	}
	links, err := r.listLinks()
	if err != nil {
		return nil, nil, 0, err
	}
	slots, garbage = map[core.SandboxID]*slot{}, map[int]uint32{}
	var highest uint32
	for _, link := range links {
		a := link.Attrs()
		if a.Index == loIndex {
			reserved = parseRouterAlias(a.Alias)
			continue
		}
		number, ok := parseLinkName(a.Name)
		if !ok || link.Type() != "veth" {
			continue
		}
		highest = max(highest, number)
		s := &slot{id: core.SandboxID(a.Alias), number: number, addr: slotAddr(number), index: a.Index, ns: -1}
		s.ready.Store(true)
		if !core.IsID(a.Alias) || !alive(a) || haveMap && elements[a.Index] != s.addr {
			garbage[a.Index] = number
			continue
		}
		// Detach returns before the interface is gone, so a sandbox may have been attached again meanwhile: the newer
		// one counts.
		if other := slots[s.id]; other != nil {
			if other.number > s.number {
				s, other = other, s
			}
			garbage[other.index] = other.number
		}
		slots[s.id] = s
	}
	if reserved == 0 {
		reserved = highest
	}
	return slots, garbage, reserved, nil
}

// addrs is the content that the map of slots must have.
func addrs(slots map[core.SandboxID]*slot) map[int]netip.Addr {
	m := make(map[int]netip.Addr, len(slots))
	for _, s := range slots {
		m[s.index] = s.addr
	}
	return m
}

// look returns whether the kernel still has the slot's interface with a live namespace behind it.
func (r *router) look(s *slot) (bool, error) {
	link, err := r.links.LinkByIndex(s.index)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at the slot's interface: %w", err)
	}
	return alive(link.Attrs()), nil
}
