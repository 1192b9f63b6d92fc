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
)

// machine is a sandbox that runs, as this process sees it.
type machine struct {
	id          core.SandboxID
	incarnation int64
	guest       *client.Client
	// answers says that the guest agent has answered once. Until then each attempt to reach it is a short one.
	answers atomic.Bool
	// heard counts the agent's signs of life; suspected says that somebody waits for the next one.
	heard     atomic.Uint64
	suspected atomic.Bool
	// held says that this node holds it, so that it can't answer; wasHeld that it has been let go since somebody last looked.
	held, wasHeld atomic.Bool
}

// hold notes that the machine is held. letGo notes the end of it.
func (m *machine) hold() (letGo func()) {
	m.held.Store(true)
	return func() {
		m.wasHeld.Store(true) // first: whoever finds it not held sees this
		m.held.Store(false)
	}
}

// heldLately reports whether the machine is held, or was since the last call.
func (m *machine) heldLately() bool {
	held := m.held.Load()
	return m.wasHeld.Swap(false) || held
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

// unreachedError says that a guest agent which has answered before could not be connected to.
type unreachedError struct{ err error }

// Error returns the cause's text.
func (e *unreachedError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *unreachedError) Unwrap() error { return e.err }

func (n *Node) dialGuest(ctx context.Context, m *machine) (net.Conn, error) {
	if m.answers.Load() {
		nc, err := n.cfg.Runtime.DialGuest(ctx, m.id)
		if err != nil {
			n.suspects.add(m)
			return nil, &unreachedError{err}
		}
		return hear(nc, m, n.suspects.add), nil
	}
	try, cancel := context.WithTimeout(ctx, guestReadyDial)
	defer cancel()
	nc, err := n.cfg.Runtime.DialGuest(try, m.id)
	if err != nil && try.Err() != nil && ctx.Err() == nil {
		return nil, core.Wrap(core.CodeUnavailable, err, "the guest agent does not answer yet")
	}
	if err != nil {
		return nil, err
	}
	return hear(nc, m, n.suspects.add), nil
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
		if n.machines.hasEnded(m.id) {
			return core.Wrap(core.CodeUnavailable, err, "the sandbox ended right after it was started")
		}
		select {
		case <-ctx.Done():
			return core.Wrap(core.CodeUnavailable, err, "the guest agent did not answer in time")
		case <-n.cfg.Clock.After(guestReadyPoll):
		}
	}
}
