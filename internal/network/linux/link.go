package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"shoal/internal/network"
)

// guestLink is the name of the interface that a sandbox sees.
const guestLink = "eth0"

// guestPrefix is the length of the network that gateway and guest share.
const guestPrefix = 30

// routerMAC and guestMAC are the same for every pair: a sandbox that is restored or forked into another slot meets the
// same neighbours. No two pairs share a link.
func routerMAC() net.HardwareAddr { return net.HardwareAddr{0x02, 0x53, 0x48, 0, 0, 1} }
func guestMAC() net.HardwareAddr  { return net.HardwareAddr{0x02, 0x53, 0x48, 0, 0, 2} }

// addPair makes a slot's pair of interfaces, one end in the router, the other in the namespace ns. Both are down.
func (r *router) addPair(name, alias string, ns int) (index int, err error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	attrs.HardwareAddr = routerMAC()
	pair := &netlink.Veth{
		LinkAttrs: attrs, PeerName: guestLink, PeerHardwareAddr: guestMAC(), PeerNamespace: netlink.NsFd(ns),
	}
	if err := r.links.LinkAdd(pair); err != nil {
		return 0, fmt.Errorf("make the pair of interfaces: %w", err)
	}
	if pair.Index == 0 {
		return 0, errors.New("the pair of interfaces vanished at once")
	}
	if err := r.links.LinkSetAlias(pair, alias); err != nil {
		return pair.Index, fmt.Errorf("name the interface's sandbox: %w", err)
	}
	return pair.Index, nil
}

// raise brings the router's end into the state that it must have: no ARP, so that nothing a guest says can make an
// entry; its own route; and a neighbour that never has to be asked for.
func (r *router) raise(s *slot) error {
	link := linkAt(s.index)
	if err := r.links.LinkSetARPOff(link); err != nil {
		return fmt.Errorf("switch off ARP: %w", err)
	}
	if err := r.links.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring up the router's end: %w", err)
	}
	err := r.links.RouteReplace(&netlink.Route{
		Dst: hostNet(s.addr.AsSlice()), LinkIndex: s.index,
		Scope: netlink.SCOPE_LINK, Src: network.GatewayAddr.AsSlice(),
	})
	if err != nil {
		return fmt.Errorf("route the slot's address: %w", err)
	}
	// The kernel looks for the neighbour after the destination has been rewritten. An entry for the slot's address
	// would never be found, and on an interface without ARP the kernel would then make one up with its own MAC.
	err = r.links.NeighSet(permanent(s.index, network.GuestAddr.AsSlice(), guestMAC()))
	if err != nil {
		return fmt.Errorf("name the guest's MAC: %w", err)
	}
	return nil
}

// raiseGuest brings up the guest's end through a handle in the slot's namespace.
func raiseGuest(ctx context.Context, h *netlink.Handle) error {
	// The runtime skips interfaces that are down: without this the sandbox would have no loopback.
	if err := h.LinkSetUp(linkAt(loIndex)); err != nil {
		return fmt.Errorf("bring up the guest's loopback: %w", err)
	}
	link, err := h.LinkByName(guestLink)
	if err != nil {
		return fmt.Errorf("find the guest's end: %w", err)
	}
	own := &net.IPNet{IP: network.GuestAddr.AsSlice(), Mask: net.CIDRMask(guestPrefix, 32)}
	if err := h.AddrAdd(link, &netlink.Addr{IPNet: own}); err != nil {
		return fmt.Errorf("give the guest its address: %w", err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring up the guest's end: %w", err)
	}
	gateway := network.GatewayAddr.AsSlice()
	if err := h.RouteAdd(&netlink.Route{Gw: gateway, LinkIndex: link.Attrs().Index}); err != nil {
		return fmt.Errorf("give the guest its route: %w", err)
	}
	if err := h.NeighSet(permanent(link.Attrs().Index, gateway, routerMAC())); err != nil {
		return fmt.Errorf("name the gateway's MAC: %w", err)
	}
	return awaitUp(ctx, h, link.Attrs().Index)
}

// removeLink removes an interface and its peer. It waits for the kernel, which takes some ten milliseconds.
func (r *router) removeLink(index int) error {
	if err := r.remover.LinkDel(linkAt(index)); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove an interface: %w", err)
	}
	return nil
}

func permanent(index int, ip net.IP, mac net.HardwareAddr) *netlink.Neigh {
	return &netlink.Neigh{
		LinkIndex: index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT, IP: ip, HardwareAddr: mac,
	}
}

func hostNet(ip net.IP) *net.IPNet { return &net.IPNet{IP: ip, Mask: net.CIDRMask(32, 32)} }

// Bounds of the wait for an interface that has been brought up.
const (
	upTries = 200
	upPause = 5 * time.Millisecond
)

// awaitUp waits until the interface carries packets. The end that is brought up first gets its carrier with the second,
// and the kernel acts on that in the background: what is sent before is lost, and a lost SYN costs a second. Recent
// kernels catch up when they are asked about the interface.
func awaitUp(ctx context.Context, h *netlink.Handle, index int) error {
	pause := time.NewTicker(upPause)
	defer pause.Stop()
	for range upTries {
		link, err := h.LinkByIndex(index)
		if err != nil {
			return fmt.Errorf("look whether the interface is up: %w", err)
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pause.C:
		}
	}
	return errors.New("the interface has not come up")
}
