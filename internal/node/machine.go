package node

import (
	"context"
	"net"
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
}

func (n *Node) newMachine(id core.SandboxID, incarnation int64) *machine {
	return &machine{id: id, incarnation: incarnation, guest: client.New(client.Config{
		Dial:   func(ctx context.Context) (net.Conn, error) { return n.cfg.Runtime.DialGuest(ctx, id) },
		Logger: n.log.With("sandbox_id", string(id)),
	})}
}

// putLive makes a machine reachable, unless it has ended in the meantime.
func (n *Node) putLive(m *machine) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended[m.id] == m.incarnation {
		return false
	}
	n.live[m.id] = m
	return true
}

// hasEnded reports whether a machine that is not yet reachable has ended.
func (n *Node) hasEnded(m *machine) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended[m.id] == m.incarnation
}

// markEnded makes a machine that ended by itself unreachable. It reports whether it was reachable; if not, a create may be
// about to make it so, which putLive then refuses.
func (n *Node) markEnded(e runtime.Exit) bool {
	if n.dropLive(e.ID, e.Incarnation) {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended[e.ID] = e.Incarnation
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

// Waiting for a guest agent that has just been started: it listens some 25 ms after Start, so ask often and cheaply.
const (
	guestReadyTimeout = 30 * time.Second
	guestReadyPoll    = 2 * time.Millisecond
)

// configureWhenReady gives the agent its identity as soon as it answers.
func (n *Node) configureWhenReady(ctx context.Context, m *machine, identity wire.Identity) error {
	ctx, cancel := context.WithTimeout(ctx, guestReadyTimeout)
	defer cancel()
	for {
		err := m.guest.Configure(ctx, identity)
		if err == nil || !core.IsCode(err, core.CodeUnavailable) {
			return err
		}
		if n.hasEnded(m) {
			return core.Wrap(core.CodeUnavailable, err, "the sandbox ended right after it was started")
		}
		select {
		case <-ctx.Done():
			return core.Wrap(core.CodeUnavailable, err, "the guest agent did not answer in time")
		case <-n.cfg.Clock.After(guestReadyPoll):
		}
	}
}
