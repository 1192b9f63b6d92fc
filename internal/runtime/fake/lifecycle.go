package fake

import (
	"context"
	"errors"
	"net"

	"shoal/internal/core"
	"shoal/internal/runtime"
)

// Create makes a sandbox in the World.
func (d *Driver) Create(ctx context.Context, spec runtime.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := d.claim(spec.ID, cancel)
	if err != nil {
		return err
	}
	defer d.release(spec.ID, c)
	err = d.begin(ctx, MethodCreate, spec.ID)
	if err == nil {
		spec, err = spec.WithParts(ctx)
	}
	if err != nil {
		return d.interrupted(ctx, c, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.killed || ctx.Err() != nil {
		return core.Wrap(core.CodeCanceled, ctx.Err(), "creating the sandbox was canceled")
	}
	life, end := context.WithCancel(context.Background())
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	d.world.boxes[spec.ID] = &box{
		spec: spec, digest: d.world.cfg.Digest, running: true, ctx: life, cancel: end, owner: d, conns: map[net.Conn]struct{}{},
		gate: newGate(),
	}
	return nil
}

// claim reserves an id for a Create, or fails with exists.
func (d *Driver) claim(id core.SandboxID, cancel context.CancelFunc) (*creation, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	if d.creating[id] != nil || d.world.boxes[id] != nil {
		return nil, core.Errorf(core.CodeExists, "the sandbox exists")
	}
	c := &creation{cancel: cancel, done: make(chan struct{})}
	d.creating[id] = c
	return c, nil
}

// release ends a reservation.
func (d *Driver) release(id core.SandboxID, c *creation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.creating, id)
	close(c.done)
}

// interrupted says why a Create failed: killed and canceled come before the scripted error.
func (d *Driver) interrupted(ctx context.Context, c *creation, err error) error {
	d.mu.Lock()
	killed := c.killed
	d.mu.Unlock()
	if killed || errors.Is(ctx.Err(), context.Canceled) {
		return core.Wrap(core.CodeCanceled, err, "creating the sandbox was canceled")
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return core.Wrap(core.CodeTimeout, err, "creating the sandbox took too long")
	}
	return err
}

// Start lets the sandbox's agent answer.
func (d *Driver) Start(ctx context.Context, id core.SandboxID) error {
	life := d.lifeOf(id)
	if life == nil {
		return notFound()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(life, cancel)() //nolint:contextcheck // Two contexts end this call.
	if err := d.begin(ctx, MethodStart, id); err != nil {
		if life.Err() != nil {
			return core.Wrap(core.CodeUnavailable, err, "the sandbox ended while it started")
		}
		return err
	}
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	b := d.world.boxes[id]
	if b == nil || !b.running {
		return core.Errorf(core.CodeUnavailable, "the sandbox ended while it started")
	}
	b.started = true
	b.owner = d
	return nil
}

// lifeOf returns the context that ends with a sandbox; nil if there is none.
func (d *Driver) lifeOf(id core.SandboxID) context.Context {
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	if b := d.world.boxes[id]; b != nil {
		return b.ctx
	}
	return nil
}

// Kill removes a sandbox in any condition, also one that is being created.
func (d *Driver) Kill(ctx context.Context, id core.SandboxID) error {
	d.mu.Lock()
	c := d.creating[id]
	if c != nil {
		c.killed = true
		c.cancel()
	}
	d.mu.Unlock()
	if err := d.begin(ctx, MethodKill, id); err != nil {
		return err
	}
	if c != nil {
		select {
		case <-c.done:
		case <-ctx.Done():
			return core.Wrap(core.CodeUnavailable, ctx.Err(), "the sandbox could not be removed completely")
		}
	}
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	if b := d.world.boxes[id]; b != nil {
		b.end()
		delete(d.world.boxes, id)
	}
	return nil
}
