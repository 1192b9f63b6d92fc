package gvisor

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"shoal/internal/core"
)

// box is what the driver keeps in memory of one sandbox.
type box struct {
	id core.SandboxID
	// op serialises Create, Start, Resize, Freeze, Thaw, Adopt and the removing half of Kill.
	op sync.Mutex
	// killed is closed by the first Kill: operations under way give up.
	killed   chan struct{}
	killOnce sync.Once

	mu     sync.Mutex
	record record
	watch  *watch
	// dying are processes that have been killed and may be ours to reap.
	dying []process

	// What this driver knows of whether the guest's tasks are held, see freeze.go: the sentry has answered that they are, or that they are
	// not; or it was told to hold them, has not answered, and may do so yet. op guards these.
	held, free, pausing bool
}

// newBox returns a box for a record.
func newBox(r record) *box {
	return &box{id: r.ID, record: r, killed: make(chan struct{})}
}

// kill marks the box, so that operations under way give up and no exit is reported.
func (b *box) kill() { b.killOnce.Do(func() { close(b.killed) }) }

// isKilled reports whether Kill has been asked for.
func (b *box) isKilled() bool {
	select {
	case <-b.killed:
		return true
	default:
		return false
	}
}

// current returns the box's record.
func (b *box) current() record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.record
}

// known returns the box of a sandbox, read back from its record if this driver has not touched it yet.
func (d *Driver) known(id core.SandboxID) (*box, error) {
	if !core.IsID(string(id)) {
		return nil, core.Errorf(core.CodeNotFound, "no such sandbox")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, core.Errorf(core.CodeUnavailable, "the runtime is shutting down")
	}
	if b := d.boxes[id]; b != nil {
		return b, nil
	}
	r, err := readRecord(d.cfg.StateDir, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, core.Errorf(core.CodeNotFound, "no such sandbox")
	}
	if err != nil {
		return nil, core.Wrap(core.CodeUnavailable, err, "the sandbox's runtime record cannot be read")
	}
	b := newBox(r)
	d.boxes[id] = b
	return b, nil
}

// claim registers a new box and its first record, or fails: with exists, or with canceled while a Kill is under way.
func (d *Driver) claim(r record) (*box, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, core.Errorf(core.CodeUnavailable, "the runtime is shutting down")
	}
	if b := d.boxes[r.ID]; b != nil {
		if b.isKilled() {
			// Kill came first, found nothing or a leftover, and is not through.
			return nil, core.Errorf(core.CodeCanceled, "the sandbox is being deleted")
		}
		return nil, core.Errorf(core.CodeExists, "the sandbox exists")
	}
	if _, err := os.Lstat(recordPath(d.cfg.StateDir, r.ID)); err == nil {
		return nil, core.Errorf(core.CodeExists, "the sandbox exists")
	}
	// Processes without a record are a leftover that Kill must end first: they would share the new sandbox's limits.
	if pids, err := d.cgroups.processes(string(r.ID)); err != nil || len(pids) > 0 {
		return nil, core.Wrap(core.CodeExists, err, "the sandbox exists")
	}
	if err := writeRecord(d.cfg.StateDir, r); err != nil {
		return nil, core.Wrap(core.CodeUnavailable, err, "the sandbox's runtime record cannot be written")
	}
	b := newBox(r)
	d.boxes[r.ID] = b
	return b, nil
}

// forget drops a box from memory.
func (d *Driver) forget(b *box) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.boxes[b.id] == b {
		delete(d.boxes, b.id)
	}
}

// update changes a box's record in memory and on disk.
func (d *Driver) update(b *box, change func(*record)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.record
	change(&r)
	if err := writeRecord(d.cfg.StateDir, r); err != nil {
		return err
	}
	b.record = r
	return nil
}
