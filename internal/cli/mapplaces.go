package cli

import (
	"context"
	"sync"
)

// mostPlaces is how many items run at once unless it is said.
const mostPlaces = 32

// places bounds how many items run at once. Unless a number is given, it begins with a few, grows with every sandbox that was made, and
// shrinks to what runs when the server has no room.
type places struct {
	mu     sync.Mutex
	fixed  bool
	limit  int
	inUse  int
	change chan struct{}
}

func newPlaces(fixed int) *places {
	p := &places{fixed: fixed > 0, limit: fixed, change: make(chan struct{})}
	if !p.fixed {
		p.limit = 4
	}
	return p
}

// take waits for a place.
func (p *places) take(ctx context.Context) error {
	for {
		p.mu.Lock()
		if p.inUse < p.limit {
			p.inUse++
			p.mu.Unlock()
			return ctx.Err()
		}
		wait := p.change
		p.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *places) give() { p.update(func() { p.inUse-- }) }

// made says that the server had room.
func (p *places) made() {
	p.update(func() {
		if !p.fixed {
			p.limit = min(p.limit+1, mostPlaces)
		}
	})
}

// full says that it had none for one more, and reports whether others of ours still run.
func (p *places) full() (others bool) {
	p.update(func() {
		if !p.fixed {
			p.limit = max(1, min(p.limit, p.inUse-1))
		}
		others = p.inUse > 1
	})
	return others
}

func (p *places) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.change)
	p.change = make(chan struct{})
}
