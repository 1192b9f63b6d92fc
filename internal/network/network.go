// Package network is the contract of a sandbox's way to and from the world.
//
// A slot is one sandbox's network: a namespace that the runtime takes over, known on the host by the interface its
// packets come from, never by an address it chose. Every sandbox sees the same addresses. Drivers live below (linux,
// fake); networktest is the suite that all of them pass.
package network

import (
	"context"
	"net"
	"net/netip"

	"shoal/internal/core"
)

// What every sandbox sees.
var (
	// GuestAddr is the sandbox's own address.
	GuestAddr = netip.MustParseAddr("10.88.0.2")
	// GatewayAddr is the router's: resolver, in-sandbox API, and the source of every dial from the host.
	GatewayAddr = netip.MustParseAddr("10.88.0.1")
)

// AgentPort is the TCP port on GuestAddr at which the guest agent listens for the host.
const AgentPort = 7070

// Egress is what a slot may reach.
type Egress string

// EgressDeny refuses everything: TCP is reset and UDP answered unreachable at once, so that nothing hangs.
const EgressDeny Egress = "deny"

// Slot is one sandbox's network.
type Slot struct {
	Sandbox core.SandboxID
	// NetNS is the path of the namespace for the runtime. It is valid in the process that attached and its children,
	// until Detach: whoever detaches must first have waited for a start that was given the path.
	NetNS string
	// Addr is the host-side address that stands for the slot, for logs and the proxy.
	Addr netip.Addr
}

// Capabilities says what the driver can enforce. What it can't is refused with core.CodeUnsupported, never weakened.
type Capabilities struct {
	// Rules says that policies with rules can be enforced, not only EgressDeny.
	Rules bool
}

// Driver makes slots. All methods may be used from many goroutines.
//
// A slot outlives the process that made it for as long as a runtime keeps its namespace in use. The driver keeps no
// files: after a restart it finds its slots in the kernel. A namespace serves one start: a restart of a sandbox needs
// Detach and a new Attach.
type Driver interface {
	Capabilities() Capabilities
	// Attach makes a slot with its policy in force before the namespace can carry a packet. On any error nothing is
	// left. It fails with exists if the sandbox has one, with unsupported if the policy can't be enforced, with
	// exhausted if the host is out of something.
	Attach(ctx context.Context, id core.SandboxID, egress Egress) (Slot, error)
	// Adopt finds the slot of a sandbox that has run since before a restart, not_found if the kernel has none. Its
	// NetNS is empty unless this driver attached it: only the runtime that has taken the namespace over keeps it.
	Adopt(ctx context.Context, id core.SandboxID) (Slot, error)
	// Detach removes a slot and cuts its connections: those that Dial made are reset. Detaching what is not there
	// succeeds. It waits for an Attach of the sandbox under way, but not for the kernel to take the interfaces down.
	Detach(ctx context.Context, id core.SandboxID) error
	// Dial connects from GatewayAddr to a TCP port on GuestAddr in the slot. It fails fast with unavailable if nothing
	// listens there, with not_found if the sandbox has no slot, with timeout or canceled if ctx ends first. Trying
	// again is the caller's business.
	Dial(ctx context.Context, id core.SandboxID, port uint16) (net.Conn, error)
	// List returns the slots that the kernel has, adopted or not.
	List(ctx context.Context) ([]Slot, error)
	// Close lets go of the driver's own handles. Slots in use go on. Every other method then answers unavailable.
	Close() error
	// Destroy removes the router and everything else the driver has put into the kernel, slots in use too, and closes
	// the driver. It is for uninstalling and tests.
	Destroy(ctx context.Context) error
}
