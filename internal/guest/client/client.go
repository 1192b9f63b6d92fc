// Package client is the host's side of the guest protocol: it implements core.Guest over connections that a driver
// opens.
//
// Everything that comes from the guest is hostile: sizes are bounded, a peer that falls silent is given up, and bytes
// that are no frame end the connection with an error. The package must not know how a sandbox is reached or what
// recorded it. Start reading here, then call.go, exec.go and file.go.
package client

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// Config says how to reach one sandbox's guest agent. Zero durations take the defaults.
type Config struct {
	// Dial opens one more connection to the agent.
	Dial func(ctx context.Context) (net.Conn, error)
	// Logger hears of connections that were given up; nil is silent.
	Logger *slog.Logger
	// Heartbeat is how often an open stream tells the agent that the host lives; the default is 15 s. A peer that was
	// silent for three of them is given up.
	Heartbeat time.Duration
	// CallTimeout bounds a call whose context has no deadline; the default is 30 s.
	CallTimeout time.Duration
	// LostAfter is how long a broken exec stream tries to reach an agent that does not answer, before the exec counts
	// as lost; the default is 15 s. An agent that refuses to be dialed is given up after a tenth of it.
	LostAfter time.Duration
}

// Client talks to one guest agent. It is safe for use by many goroutines: each operation has a connection of its own,
// of which a few are kept for the next.
type Client struct {
	fileCalls
	cfg Config
	// ctx ends with Close, and with it everything that is under way.
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	idle   []*conn // newest last
	closed bool
}

var _ core.Guest = (*Client)(nil)

const maxIdle = 8

// New returns a Client. It dials nothing yet.
func New(cfg Config) *Client {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = 15 * time.Second
	}
	if cfg.CallTimeout <= 0 {
		cfg.CallTimeout = 30 * time.Second
	}
	if cfg.LostAfter <= 0 {
		cfg.LostAfter = 15 * time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{cfg: cfg, ctx: ctx, cancel: cancel}
	c.fileCalls = fileCalls{c}
	return c
}

// Close makes every operation that is under way fail with unavailable and closes idle connections. Processes in the
// sandbox go on: an open exec stream answers unavailable, not lost.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	idle := c.idle
	c.idle = nil
	c.mu.Unlock()
	c.cancel()
	for _, k := range idle {
		k.close()
	}
}

// take returns a connection: an idle one that still seems to be open, else a new one.
func (c *Client) take(ctx context.Context) (*conn, error) {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return nil, errClosed()
		}
		n := len(c.idle)
		if n == 0 {
			c.mu.Unlock()
			break
		}
		k := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		if time.Since(k.since) < 2*c.cfg.Heartbeat && // the agent closes it after three
			k.alive() {
			k.reused = true
			return k, nil
		}
		k.close()
	}
	return c.dial(ctx)
}

// dial opens a new connection.
func (c *Client) dial(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)() //nolint:contextcheck // The client's end ends this call too.
	nc, err := c.cfg.Dial(ctx)
	if err != nil {
		if c.ctx.Err() != nil {
			return nil, errClosed()
		}
		return nil, unreachable(ctx, err)
	}
	return &conn{nc: nc, r: wire.NewReader(nc), w: wire.NewWriter(nc)}, nil
}

// give keeps a connection whose operation has ended cleanly.
func (c *Client) give(k *conn) {
	if k.spoiled || k.r.Buffered() || k.nc.SetDeadline(time.Time{}) != nil {
		k.close()
		return
	}
	k.since = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= maxIdle {
		k.close()
		return
	}
	c.idle = append(c.idle, k)
}

func errClosed() error {
	return core.Errorf(core.CodeUnavailable, "the connection to the sandbox was closed by the server")
}
