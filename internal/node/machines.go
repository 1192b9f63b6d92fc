package node

import (
	"sync"

	"shoal/internal/core"
	"shoal/internal/runtime"
)

// machines is the table of those that are reachable, and of the creates under way. mu guards all of it and is never held while
// anything else is locked.
type machines struct {
	mu       sync.Mutex
	live     map[core.SandboxID]*machine
	starting map[core.SandboxID]*start
}

// start is a create under way.
type start struct {
	incarnation int64
	// ended says that its machine has ended before it became reachable.
	ended bool
}

func newMachines() *machines {
	return &machines{live: map[core.SandboxID]*machine{}, starting: map[core.SandboxID]*start{}}
}

// beginStart announces a create, so that the end of its machine is noticed before it is reachable.
func (t *machines) beginStart(id core.SandboxID, incarnation int64) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starting[id] = &start{incarnation: incarnation}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.starting, id)
	}
}

// hasEnded reports whether the machine of a create under way has ended.
func (t *machines) hasEnded(id core.SandboxID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.starting[id]
	return s != nil && s.ended
}

// put makes a machine reachable, unless it has ended in the meantime.
func (t *machines) put(m *machine) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.starting[m.id]; s != nil && s.ended {
		return false
	}
	t.live[m.id] = m
	return true
}

// markEnded makes a machine that ended by itself unreachable. It reports whether it was reachable; if not, a create may be
// about to make it so, which put then refuses.
func (t *machines) markEnded(e runtime.Exit) bool {
	if t.drop(e.ID, e.Incarnation) {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.starting[e.ID]; s != nil && s.incarnation == e.Incarnation {
		s.ended = true
	}
	return false
}

// drop makes a machine unreachable and ends its connections. With an incarnation other than zero only that one is
// dropped. It reports whether there was one.
func (t *machines) drop(id core.SandboxID, incarnation int64) bool {
	t.mu.Lock()
	m := t.live[id]
	if m == nil || (incarnation != 0 && m.incarnation != incarnation) {
		t.mu.Unlock()
		return false
	}
	delete(t.live, id)
	t.mu.Unlock()
	m.guest.Close()
	return true
}

// get returns the sandbox's machine if it is reachable.
func (t *machines) get(id core.SandboxID) (*machine, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.live[id]
	if m == nil {
		return nil, core.Errorf(core.CodeUnavailable, "the sandbox does not run")
	}
	return m, nil
}

// running reports whether this incarnation is reachable.
func (t *machines) running(id core.SandboxID, incarnation int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.live[id]
	return m != nil && m.incarnation == incarnation
}

// close lets go of all machines and leaves them running.
func (t *machines) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.live {
		m.guest.Close()
	}
	clear(t.live)
}
