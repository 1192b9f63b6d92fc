// Package fake is a runtime driver in memory: no root, no kernel, scriptable faults.
//
// It passes the same suite as the real drivers, so that node, control and API are tested without a host. It knows nothing of
// what a guest agent speaks: a test hands it a function that plays the agent on one end of a connection. Start with World,
// which stands for the host and outlives drivers, then Driver.
package fake

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"

	"shoal/internal/core"
	"shoal/internal/runtime"
)

// Method names one of the driver's methods, for faults.
type Method string

// The methods that can be made to fail.
const (
	MethodCreate Method = "create"
	MethodStart  Method = "start"
	MethodDial   Method = "dial"
	MethodKill   Method = "kill"
	MethodStats  Method = "stats"
	MethodStatus Method = "status"
	MethodList   Method = "list"
	MethodAdopt  Method = "adopt"
	MethodResize Method = "resize"
	MethodFreeze Method = "freeze"
	MethodThaw   Method = "thaw"
)

// Fault is called at the begin of a method, with the sandbox it is about (none for list). It may block, until ctx ends if it is
// wise, and fail the method with an error. While it blocks in Create or Start, Kill ends its ctx.
type Fault func(ctx context.Context, id core.SandboxID) error

// AgentFunc plays the guest agent on one connection until the connection or ctx ends. ctx ends with the sandbox.
type AgentFunc func(ctx context.Context, spec runtime.Spec, conn net.Conn)

// Config is what a World is like.
type Config struct {
	// Agent plays the guest agent; nil lets every dial fail with unavailable.
	Agent AgentFunc
	// Capabilities are what drivers advertise; nil means DefaultCapabilities.
	Capabilities *runtime.Capabilities
	// Digest names the binary of new sandboxes; empty means "fake".
	Digest string
}

// DefaultCapabilities are those of a host that enforces no limits and whose sandboxes survive the driver.
func DefaultCapabilities() runtime.Capabilities {
	return runtime.Capabilities{Survives: true, OwnerUID: 1_000_000, OwnerCount: 65_536}
}

// World stands for the host: sandboxes in it go on while no driver is open. All methods may be called from any goroutine.
type World struct {
	cfg Config

	mu     sync.Mutex
	boxes  map[core.SandboxID]*box
	faults map[Method]Fault
	calls  map[Method]int
	stats  func(id core.SandboxID, s *runtime.Stats)
	agents sync.WaitGroup
}

// box is one sandbox of a World. Its fields are guarded by World.mu.
type box struct {
	spec    runtime.Spec
	digest  string
	started bool
	running bool
	// gate holds the agents while it is shut.
	gate *gate
	// ctx ends with the sandbox, and agents with it.
	ctx    context.Context
	cancel context.CancelFunc
	// owner is the driver that reports the exit; nil between a restart and Adopt.
	owner *Driver
	// conns are the agents' ends of open connections.
	conns map[net.Conn]struct{}
}

// end ends what runs in the sandbox: when it returns, nothing in it answers any more. World.mu is held.
func (b *box) end() {
	b.running = false
	b.cancel()
	b.gate.open()
	for conn := range b.conns {
		_ = conn.Close() // Nobody is left to tell.
	}
}

// NewWorld returns a host without sandboxes.
func NewWorld(cfg Config) *World {
	if cfg.Digest == "" {
		cfg.Digest = "fake"
	}
	return &World{cfg: cfg, boxes: map[core.SandboxID]*box{}, faults: map[Method]Fault{}, calls: map[Method]int{}}
}

// SetFault scripts a method; nil takes the script away.
func (w *World) SetFault(m Method, f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[m] = f
}

// SetStats scripts what Stats says: f changes the figures of a sandbox and must not call the World. nil takes the script away.
func (w *World) SetStats(f func(id core.SandboxID, s *runtime.Stats)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats = f
}

// Calls returns how often a method has been called.
func (w *World) Calls(m Method) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[m]
}

// Specs returns the specs of all sandboxes, by id.
func (w *World) Specs() []runtime.Spec {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]runtime.Spec, 0, len(w.boxes))
	for _, b := range w.boxes {
		list = append(list, b.spec)
	}
	slices.SortFunc(list, func(a, b runtime.Spec) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return list
}

// Crash ends a running sandbox as a fault would: its traces stay, and its driver reports an exit. It fails if the sandbox does
// not run.
func (w *World) Crash(id core.SandboxID, reason string) error {
	w.mu.Lock()
	b := w.boxes[id]
	if b == nil || !b.running {
		w.mu.Unlock()
		return fmt.Errorf("sandbox %s does not run", id)
	}
	b.end()
	owner, started := b.owner, b.started
	exit := runtime.Exit{ID: id, Incarnation: b.spec.Incarnation, Reason: reason}
	w.mu.Unlock()
	if owner != nil && started {
		owner.report(exit)
	}
	return nil
}

// Close ends all sandboxes and waits for their agents. Drivers are to be closed first.
func (w *World) Close() {
	w.mu.Lock()
	for _, b := range w.boxes {
		b.end()
	}
	clear(w.boxes)
	w.mu.Unlock()
	w.agents.Wait()
}

// enter counts a call and runs its fault.
func (w *World) enter(ctx context.Context, m Method, id core.SandboxID) error {
	w.mu.Lock()
	w.calls[m]++
	f := w.faults[m]
	w.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(ctx, id)
}
