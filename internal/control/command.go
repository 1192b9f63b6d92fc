package control

import (
	"context"
	"sync"

	"shoal/internal/core"
)

// commands serialises what is done to one sandbox, and lets a delete cut in: it cancels the command under way.
// Different sandboxes never wait for each other.
type commands struct {
	mu sync.Mutex
	by map[core.SandboxID]*queue
}

// queue is one sandbox's line of commands. refs counts who holds or waits, under commands.mu.
type queue struct {
	turn    chan struct{}
	refs    int
	cancel  context.CancelFunc
	deleted bool
}

func newCommands() *commands { return &commands{by: map[core.SandboxID]*queue{}} }

// begin waits for the sandbox's turn and returns a context that a delete cancels, and what ends the turn.
func (c *commands) begin(ctx context.Context, id core.SandboxID) (context.Context, func(), error) {
	return c.beginWhole(ctx, ctx, id)
}

// beginWhole is begin for what is not cut short when its caller goes away: until waiting ends he waits for the turn, and the context that
// is returned is one of ctx.
func (c *commands) beginWhole(ctx, waiting context.Context, id core.SandboxID) (context.Context, func(), error) {
	c.mu.Lock()
	q := c.by[id]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1)}
		c.by[id] = q
	}
	q.refs++
	c.mu.Unlock()
	select {
	case q.turn <- struct{}{}:
	case <-waiting.Done():
		c.unref(id, q)
		return nil, nil, core.Wrap(core.CodeCanceled, waiting.Err(), "the call was canceled")
	}
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	q.cancel = cancel
	if q.deleted {
		cancel()
	}
	c.mu.Unlock()
	return ctx, func() {
		c.mu.Lock()
		q.cancel = nil
		c.mu.Unlock()
		cancel()
		<-q.turn
		c.unref(id, q)
	}, nil
}

// interrupt cancels the command under way and every later one of the queue that stands now.
func (c *commands) interrupt(id core.SandboxID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.by[id]
	if q == nil {
		return
	}
	q.deleted = true
	if q.cancel != nil {
		q.cancel()
	}
}

// beginDelete waits for the turn of a delete, whose context nothing cancels but ctx itself.
func (c *commands) beginDelete(ctx context.Context, id core.SandboxID) (func(), error) {
	_, done, err := c.begin(ctx, id)
	return done, err
}

func (c *commands) unref(id core.SandboxID, q *queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q.refs--
	if q.refs == 0 && c.by[id] == q {
		delete(c.by, id)
	}
}
