package node

import (
	"context"
	"errors"
	"sync"

	"shoal/internal/core"
)

// turns lets one command of a sandbox go on at a time. Callers serialise commands themselves; the end of a machine, which
// comes by itself, is what they can't serialise.
type turns = turnsOf[core.SandboxID]

// turnsOf is the same for whatever has an id.
type turnsOf[ID ~string] struct {
	mu   sync.Mutex
	held map[ID]*turn
}

type turn struct {
	// taken holds a token while somebody has the turn.
	taken chan struct{}
	// users counts those that have it or wait for it.
	users int
}

func newTurns() *turns { return newTurnsOf[core.SandboxID]() }

func newTurnsOf[ID ~string]() *turnsOf[ID] { return &turnsOf[ID]{held: map[ID]*turn{}} }

// take waits for the turn until ctx ends.
func (t *turnsOf[ID]) take(ctx context.Context, id ID) (done func(), err error) {
	t.mu.Lock()
	u := t.held[id]
	if u == nil {
		u = &turn{taken: make(chan struct{}, 1)}
		t.held[id] = u
	}
	u.users++
	t.mu.Unlock()
	select {
	case u.taken <- struct{}{}:
		return func() {
			<-u.taken
			t.leave(id, u)
		}, nil
	case <-ctx.Done():
		t.leave(id, u)
		return nil, interrupted(ctx, ctx.Err(), "the command before this one")
	}
}

func (t *turnsOf[ID]) leave(id ID, u *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u.users--; u.users == 0 {
		delete(t.held, id)
	}
}

// interrupted says how ctx has ended what was being done.
func interrupted(ctx context.Context, cause error, what string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return core.Wrap(core.CodeTimeout, cause, "%s took too long", what)
	}
	return core.Wrap(core.CodeCanceled, cause, "%s was canceled", what)
}
