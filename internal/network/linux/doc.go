// Package linux gives sandboxes their network with the kernel's own means: one router namespace for a data directory,
// one veth pair for a slot, one nftables table that lets nothing out.
//
// # Scheme
//
// The router is a network namespace without any link to the world: no uplink, no default route, no forwarding. It holds
// the host's end of each slot's veth pair, named v<n>, and stands for the gateway, 10.88.0.1. Every sandbox sees the
// same addresses and MACs in a namespace of its own; what tells them apart is the interface that a packet comes in by.
// Before anything else looks at a packet, its source is overwritten by 100.64.0.0/10 + n, the address of the slot that
// owns the interface, and on the way back the destination is overwritten by 10.88.0.2. Both are stateless header
// writes: there is no connection tracking, no NAT and nothing that a sandbox could fill up or have to be flushed.
// rules.go has the table.
//
// The host's own namespace, firewall and forwarding switch are not touched. Several drivers may run side by side on one
// host, each with its state directory; one state directory must be used by one process at a time, which the caller's
// lock on the data directory sees to.
//
// # What outlives the process
//
// The router is kept by a bind mount of its namespace file in the state directory, so the server must not run in a
// mount namespace of its own (as systemd's PrivateTmp or ProtectSystem would give it). A slot's namespace is kept by a
// descriptor until Detach, and by the runtime that took it over. When neither is left, the kernel removes the namespace
// and both ends of the pair. A slot is found again from the kernel alone: its number is in the interface's name, its
// sandbox in the interface's alias, and its map element says that it was attached whole and not detached since.
//
// The package must not know what runs in a slot, nor anything of records or policies' meaning. Start reading at
// driver.go, then attach.go, rules.go and dial.go.
package linux
