// Package bombs has programs that take all that a sandbox can get, and measures what a neighbour notices of them.
//
// It asserts nothing: tests and the benchmark do. Start with All and Field.
package bombs

import (
	_ "embed"
	"strconv"
	"time"

	shoal "shoal/sdk/go"
)

//go:embed bombs.py
var script string

// Bomb is one way to take all there is.
type Bomb struct {
	// Name is short; What says what is taken.
	Name, What string
	// Sandboxes is how many set it off at the same time.
	Sandboxes int
	// Quick says that it is one of those to try at each build.
	Quick bool
	// MayFail says that it may cost the sandbox its life: what the sandbox's kernel holds for itself, nothing inside can see.
	MayFail bool
}

// All lists the bombs.
func All() []Bomb {
	return []Bomb{
		{"forks", "processes, each with its own memory", 1, false, true},
		{"zombies", "children that nobody waits for, and orphans", 1, true, false},
		{"descriptors", "open files, pipes, sockets, event and memory descriptors", 1, false, true},
		{"kernel", "full pipes and sockets, epolls, timers and watches: heap of the sandbox's kernel", 1, true, true},
		{"inodes", "empty files", 1, true, false},
		{"metadata", "mkdir, create, rename, stat, unlink without end", 1, true, false},
		{"writes", "writes and syncs without end", 1, false, false},
		{"memory", "memory of a process", 1, false, false},
		{"output", "output that nobody reads", 1, false, false},
		{"spin", "processor time, from four sandboxes with four processes each", 4, true, false},
		{"signals", "signals", 1, true, false},
		{"packets", "packets and connections to what is refused", 1, false, false},
	}
}

// lifetime is how long a bomb goes on that nobody cancels.
const lifetime = 5 * time.Minute

// exec is the request that sets the bomb off.
func (b Bomb) exec() shoal.ExecRequest {
	limit := lifetime.Seconds()
	return shoal.ExecRequest{Cmd: []string{"python3", "-c", script, b.Name, strconv.Itoa(int(limit))}, TimeoutSeconds: &limit}
}
