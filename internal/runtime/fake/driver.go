package fake

import (
	"context"
	"net"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/runtime"
)

// Driver is a runtime driver on a World. All methods may be called from any goroutine.
type Driver struct {
	world   *World
	exits   chan runtime.Exit
	closing chan struct{}
	// senders counts reports under way.
	senders sync.WaitGroup

	// mu guards what follows; World.mu may be taken while it is held, not the other way round.
	mu       sync.Mutex
	closed   bool
	creating map[core.SandboxID]*creation
}

// creation is a Create under way.
type creation struct {
	cancel context.CancelFunc
	killed bool
	done   chan struct{}
}

var _ runtime.Driver = (*Driver)(nil)

// Open returns a driver on a World. A second one after the first's Close finds the sandboxes by List and takes them over by
// Adopt, as after a restart.
func Open(w *World) *Driver {
	return &Driver{
		world: w, exits: make(chan runtime.Exit), closing: make(chan struct{}), creating: map[core.SandboxID]*creation{},
	}
}

// Capabilities returns what the World is configured to advertise.
func (d *Driver) Capabilities() runtime.Capabilities {
	if d.world.cfg.Capabilities != nil {
		return *d.world.cfg.Capabilities
	}
	return DefaultCapabilities()
}

// Exits delivers each end of a started or adopted sandbox that Kill did not ask for.
func (d *Driver) Exits() <-chan runtime.Exit { return d.exits }

// Close stops watching. Sandboxes go on in the World.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	close(d.closing)
	d.world.mu.Lock()
	for _, b := range d.world.boxes {
		if b.owner == d {
			b.owner = nil
		}
	}
	d.world.mu.Unlock()
	d.senders.Wait()
	close(d.exits)
	return nil
}

// report delivers an exit unless the driver closes before anybody takes it.
func (d *Driver) report(e runtime.Exit) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return
	}
	d.senders.Add(1)
	d.mu.Unlock()
	go func() {
		defer d.senders.Done()
		select {
		case d.exits <- e:
		case <-d.closing:
		}
	}()
}

// begin enters a method: it fails if the driver is closed or the method is scripted to fail.
func (d *Driver) begin(ctx context.Context, m Method, id core.SandboxID) error {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		return core.Errorf(core.CodeUnavailable, "the runtime is shutting down")
	}
	return d.world.enter(ctx, m, id)
}

// notFound is the error for a sandbox that isn't there.
func notFound() error { return core.Errorf(core.CodeNotFound, "no such sandbox") }

// Status looks at one sandbox.
func (d *Driver) Status(ctx context.Context, id core.SandboxID) (runtime.Status, error) {
	if err := d.begin(ctx, MethodStatus, id); err != nil {
		return runtime.Status{}, err
	}
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	b := d.world.boxes[id]
	if b == nil {
		return runtime.Status{}, notFound()
	}
	return b.status(), nil
}

// status is a box's. World.mu is held.
func (b *box) status() runtime.Status {
	return runtime.Status{ID: b.spec.ID, Incarnation: b.spec.Incarnation, Digest: b.digest, Running: b.running, PID: 1}
}

// List returns every sandbox of the World.
func (d *Driver) List(ctx context.Context) ([]runtime.Status, error) {
	if err := d.begin(ctx, MethodList, ""); err != nil {
		return nil, err
	}
	var list []runtime.Status
	for _, spec := range d.world.Specs() {
		d.world.mu.Lock()
		if b := d.world.boxes[spec.ID]; b != nil {
			list = append(list, b.status())
		}
		d.world.mu.Unlock()
	}
	return list, nil
}

// Stats returns made-up figures within the sandbox's limits, or what SetStats makes of them.
func (d *Driver) Stats(ctx context.Context, id core.SandboxID) (runtime.Stats, error) {
	if err := d.begin(ctx, MethodStats, id); err != nil {
		return runtime.Stats{}, err
	}
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	b := d.world.boxes[id]
	if b == nil {
		return runtime.Stats{}, notFound()
	}
	if !b.running {
		return runtime.Stats{}, core.Errorf(core.CodeUnavailable, "the sandbox does not answer")
	}
	s := runtime.Stats{
		At: time.Now(), MemoryBytes: 16 << 20, MemoryLimitBytes: b.spec.Resources.MemoryBytes, PSSBytes: -1,
		Processes: 1 + len(b.conns),
	}
	if d.world.stats != nil {
		d.world.stats(id, &s)
	}
	return s, nil
}

// Resize changes a sandbox's limits in the World.
func (d *Driver) Resize(ctx context.Context, id core.SandboxID, r core.Resources) error {
	if err := runtime.CheckResources(r); err != nil {
		return err
	}
	if err := d.begin(ctx, MethodResize, id); err != nil {
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
	if r.VCPUs > 0 {
		b.spec.Resources.VCPUs = r.VCPUs
	}
	if r.MemoryBytes > 0 {
		b.spec.Resources.MemoryBytes = r.MemoryBytes
	}
	if r.IOWeight > 0 {
		b.spec.Resources.IOWeight = r.IOWeight
	}
	if r.CPUWeight > 0 {
		b.spec.Resources.CPUWeight = r.CPUWeight
	}
	return nil
}

// Adopt takes over a running sandbox after a restart.
func (d *Driver) Adopt(ctx context.Context, id core.SandboxID, incarnation int64) error {
	if err := d.begin(ctx, MethodAdopt, id); err != nil {
		return err
	}
	d.world.mu.Lock()
	defer d.world.mu.Unlock()
	b := d.world.boxes[id]
	if b == nil {
		return notFound()
	}
	if !b.running || !b.started || b.spec.Incarnation != incarnation {
		return core.Errorf(core.CodeUnavailable, "this start of the sandbox does not run")
	}
	b.owner = d
	return nil
}

// DialGuest hands one end of a connection to the World's agent and returns the other.
func (d *Driver) DialGuest(ctx context.Context, id core.SandboxID) (net.Conn, error) {
	if err := d.begin(ctx, MethodDial, id); err != nil {
		return nil, err
	}
	w := d.world
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.boxes[id]
	if b == nil {
		return nil, notFound()
	}
	if !b.running || !b.started || w.cfg.Agent == nil {
		return nil, core.Errorf(core.CodeUnavailable, "the guest agent does not answer")
	}
	host, guest, err := connPair()
	if err != nil {
		return nil, core.Wrap(core.CodeExhausted, err, "no connection could be made")
	}
	b.conns[guest] = struct{}{}
	spec := b.spec
	w.agents.Go(func() {
		w.cfg.Agent(b.ctx, spec, heldConn{guest, b.gate})
		_ = guest.Close() // The caller's end tells.
		w.mu.Lock()
		delete(b.conns, guest)
		w.mu.Unlock()
	})
	return host, nil
}
