package control

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"shoal/internal/core"
)

// gate bounds how many sandboxes the node makes at once, for single creates and batches together: more at once take the processors away
// from each other, and all of them are there later than if some had waited. Who waits longest is first, but of each tenant only a few wait
// in that line, so that one with a thousand creates delays another's by no more than those few. A create waits with its
// reservation and its record, so that a full node, a quota and a name are answered at once.
type gate struct {
	// what is what waits there, for who is told that it waited in vain.
	what   string
	places chan struct{}
	// perTenant is how many of a tenant's may be in the common line or have a place.
	perTenant int

	mu sync.Mutex
	// lines are where those wait who are not in the common line yet, while there are any.
	lines map[core.TenantID]*tenantLine
}

// tenantLine has a place for each of a tenant's creates that may wait in the common line or be there already.
type tenantLine struct {
	places chan struct{}
	users  int
}

// newGate returns a gate with so many places, of which one tenant takes perTenant at most.
func newGate(what string, places, perTenant int) *gate {
	return &gate{what: what, places: make(chan struct{}, places), perTenant: perTenant, lines: map[core.TenantID]*tenantLine{}}
}

// createPlaces is how many sandboxes are made at once.
func createPlaces() int { return max(4, 2*runtime.GOMAXPROCS(0)) }

// line returns the tenant's line, and what is to be called when it is left.
func (g *gate) line(tenant core.TenantID) (line *tenantLine, leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	line = g.lines[tenant]
	if line == nil {
		line = &tenantLine{places: make(chan struct{}, g.perTenant)}
		g.lines[tenant] = line
	}
	line.users++
	return line, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if line.users--; line.users == 0 {
			delete(g.lines, tenant)
		}
	}
}

// placed marks the context of a create whose caller has a place for it already.
type placed struct{}

// enter waits for a place until ctx ends or quit is closed, and returns what gives it back.
func (g *gate) enter(ctx context.Context, tenant core.TenantID, quit <-chan struct{}) (leave func(), err error) {
	if ctx.Value(placed{}) != nil {
		return func() {}, nil
	}
	line, gone := g.line(tenant)
	for _, places := range []chan struct{}{line.places, g.places} {
		select {
		case places <- struct{}{}:
			continue
		case <-ctx.Done():
		case <-quit:
		}
		if places == g.places {
			<-line.places
		}
		gone()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, core.Wrap(core.CodeTimeout, ctx.Err(), "the %s has waited too long for its turn", g.what)
		}
		return nil, core.Wrap(core.CodeCanceled, context.Cause(ctx), "the %s was canceled while it waited for its turn", g.what)
	}
	return func() {
		<-g.places
		<-line.places
		gone()
	}, nil
}
