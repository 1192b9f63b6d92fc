package fake

import (
	"context"
	"net"
	"sync"

	"shoal/internal/core"
)

// gate holds those who pass it while it is shut. It begins open.
type gate struct {
	mu sync.Mutex
	// opened is closed when the gate is opened; nil while it is open.
	opened chan struct{}
}

func newGate() *gate { return &gate{} }

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened != nil
}

// pass waits until the gate is open.
func (g *gate) pass() {
	for {
		g.mu.Lock()
		opened := g.opened
		g.mu.Unlock()
		if opened == nil {
			return
		}
		<-opened
	}
}

// heldConn is an agent's end of a connection: while the agent is held it learns nothing and says nothing.
type heldConn struct {
	net.Conn
	gate *gate
}

// Read returns what has come once the agent is not held.
func (c heldConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.gate.pass()
	return n, err
}

// Write writes once the agent is not held.
func (c heldConn) Write(p []byte) (int, error) {
	c.gate.pass()
	return c.Conn.Write(p)
}

// Freeze holds the sandbox's agent.
func (d *Driver) Freeze(ctx context.Context, id core.SandboxID) error {
	if err := d.begin(ctx, MethodFreeze, id); err != nil {
		return err
	}
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	b := d.world.boxes[id]
	if b == nil {
		return notFound()
	}
	if !b.running || !b.started {
		return core.Errorf(core.CodeUnavailable, "the sandbox does not run")
	}
	b.gate.shut()
	return nil
}

// Thaw lets go of the sandbox's agent.
func (d *Driver) Thaw(ctx context.Context, id core.SandboxID) error {
	if err := d.begin(ctx, MethodThaw, id); err != nil {
		return err
	}
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	b := d.world.boxes[id]
	if b == nil {
		return notFound()
	}
	b.gate.open()
	return nil
}

// Frozen reports whether a sandbox is held.
func (w *World) Frozen(id core.SandboxID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.boxes[id]
	return b != nil && b.gate.isShut()
}
