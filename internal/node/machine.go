package node

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest/client"
	"shoal/internal/guest/wire"
	"shoal/internal/runtime"
)

// machine is a sandbox that runs, as this process sees it.
type machine struct {
	id          core.SandboxID
	incarnation int64
	guest       *client.Client
	// answers says that the guest agent has answered once. Until then each attempt to reach it is a short one.
	answers atomic.Bool
}

// start is a create under way.
type start struct {
	incarnation int64
	// ended says that its machine has ended before it became reachable.
	ended bool
}

// Waiting for a guest agent that has just been started: it listens some 25 ms after Start, so ask often and cheaply. While
// the machine takes its network over, nobody answers a connection attempt and the kernel repeats it only after a second.
const (
	guestReadyTimeout = 30 * time.Second
	guestReadyPoll    = 2 * time.Millisecond
	guestReadyDial    = 50 * time.Millisecond
)

func (n *Node) newMachine(id core.SandboxID, incarnation int64) *machine {
	m := &machine{id: id, incarnation: incarnation}
	m.guest = client.New(client.Config{
		Dial:   func(ctx context.Context) (net.Conn, error) { return n.dialGuest(ctx, m) },
		Logger: n.log.With(slog.String("sandbox_id", string(id))),
	})
	return m
}

func (n *Node) dialGuest(ctx context.Context, m *machine) (net.Conn, error) {
	if m.answers.Load() {
		return n.cfg.Runtime.DialGuest(ctx, m.id)
	}
	try, cancel := context.WithTimeout(ctx, guestReadyDial)
	defer cancel()
	nc, err := n.cfg.Runtime.DialGuest(try, m.id)
	if err != nil && try.Err() != nil && ctx.Err() == nil {
		return nil, core.Wrap(core.CodeUnavailable, err, "the guest agent does not answer yet")
	}
	return nc, err
}

// configureWhenReady gives the agent its identity as soon as it answers.
func (n *Node) configureWhenReady(ctx context.Context, m *machine, identity wire.Identity) error {
	ctx, cancel := context.WithTimeout(ctx, guestReadyTimeout)
	defer cancel()
	for {
		err := m.guest.Configure(ctx, identity)
		if err == nil {
			m.answers.Store(true)
			return nil
		}
		if !core.IsCode(err, core.CodeUnavailable) {
			return err
		}
		if n.hasEnded(m.id) {
			return core.Wrap(core.CodeUnavailable, err, "the sandbox ended right after it was started")
		}
		select {
		case <-ctx.Done():
			return core.Wrap(core.CodeUnavailable, err, "the guest agent did not answer in time")
		case <-n.cfg.Clock.After(guestReadyPoll):
		}
	}
}

// beginStart announces a create, so that the end of its machine is noticed before it is reachable.
func (n *Node) beginStart(id core.SandboxID, incarnation int64) (done func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.starting[id] = &start{incarnation: incarnation}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.starting, id)
	}
}

// hasEnded reports whether the machine of a create under way has ended.
func (n *Node) hasEnded(id core.SandboxID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.starting[id]
	return s != nil && s.ended
}

// putLive makes a machine reachable, unless it has ended in the meantime.
func (n *Node) putLive(m *machine) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.starting[m.id]; s != nil && s.ended {
		return false
	}
	n.live[m.id] = m
	return true
}

// markEnded makes a machine that ended by itself unreachable. It reports whether it was reachable; if not, a create may be
// about to make it so, which putLive then refuses.
func (n *Node) markEnded(e runtime.Exit) bool {
	if n.dropLive(e.ID, e.Incarnation) {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.starting[e.ID]; s != nil && s.incarnation == e.Incarnation {
		s.ended = true
	}
	return false
}

// dropLive makes a machine unreachable and ends its connections. With an incarnation other than zero only that one is
// dropped. It reports whether there was one.
func (n *Node) dropLive(id core.SandboxID, incarnation int64) bool {
	n.mu.Lock()
	m := n.live[id]
	if m == nil || (incarnation != 0 && m.incarnation != incarnation) {
		n.mu.Unlock()
		return false
	}
	delete(n.live, id)
	n.mu.Unlock()
	m.guest.Close()
	return true
}

// machine returns the sandbox's machine if it is reachable.
func (n *Node) machine(id core.SandboxID) (*machine, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.live[id]
	if m == nil {
		return nil, core.Errorf(core.CodeUnavailable, "the sandbox does not run")
	}
	return m, nil
}
