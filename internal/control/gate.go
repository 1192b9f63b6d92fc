package control

import (
	"context"
	"runtime"

	"shoal/internal/core"
)

// gate bounds how many sandboxes the node makes at once, for single creates and batches together: more at once take the processors away
// from each other, and all of them are there later than if some had waited. Who waits longest is first. A create waits with its
// reservation and its record, so that a full node, a quota and a name are answered at once.
type gate struct{ places chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}, max(4, 2*runtime.GOMAXPROCS(0)))} }

// placed marks the context of a create whose caller has a place for it already.
type placed struct{}

// enter waits for a place until ctx ends, and returns what gives it back.
func (g *gate) enter(ctx context.Context) (leave func(), err error) {
	if ctx.Value(placed{}) != nil {
		return func() {}, nil
	}
	select {
	case g.places <- struct{}{}:
		return func() { <-g.places }, nil
	case <-ctx.Done():
		return nil, core.Wrap(core.CodeCanceled, context.Cause(ctx), "the create was canceled while it waited for its turn")
	}
}
