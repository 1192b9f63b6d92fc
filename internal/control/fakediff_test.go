package control_test

import (
	"context"
	"slices"
	"sync"

	"shoal/internal/core"
)

// diffs is what a node was asked to compare, and what it answers.
type diffs struct {
	mu    sync.Mutex
	asked []core.TreeDiffQuery
	// onDiff, if it is set, runs inside Diff.
	onDiff func(ctx context.Context, q core.TreeDiffQuery) (core.TreeDiff, error)
}

func (d *diffs) Diff(ctx context.Context, q core.TreeDiffQuery) (core.TreeDiff, error) {
	d.mu.Lock()
	d.asked = append(d.asked, q)
	on := d.onDiff
	d.mu.Unlock()
	if on != nil {
		return on(ctx, q)
	}
	return core.TreeDiff{}, nil
}

// last returns the newest query.
func (d *diffs) last() core.TreeDiffQuery {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.asked)[len(d.asked)-1]
}

// Processes tells what was scripted.
func (g *guest) Processes(context.Context) (core.ProcessList, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := g.processes
	list.Processes = slices.Clone(list.Processes)
	return list, g.processesErr
}
