package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/disk"
)

// Limits are how much a node may promise.
type Limits struct {
	// MemoryBytes is the sum of memory limits that may be promised.
	MemoryBytes int64
	// MaxSandboxes is the greatest number of sandboxes.
	MaxSandboxes int
	// MinDiskFreeBytes refuses new sandboxes while less can be written to the trees.
	MinDiskFreeBytes int64
}

// retryAfterFull is when a refused caller may try again: sandboxes come and go within seconds.
const retryAfterFull = 5 * time.Second

// admission promises the node's resources, all of a request or nothing.
type admission struct {
	limits Limits
	disk   disk.Driver

	mu       sync.Mutex
	reserved map[core.SandboxID]core.Resources
	memory   int64
}

func newAdmission(limits Limits, d disk.Driver) *admission {
	return &admission{limits: limits, disk: d, reserved: map[core.SandboxID]core.Resources{}}
}

// Reserve promises resources to a sandbox.
func (a *admission) Reserve(ctx context.Context, id core.SandboxID, r core.Resources) error {
	if a.again(id, r) {
		return nil
	}
	// One that has its files here brings no new ones: woken, it may be the one that makes room.
	if _, err := a.disk.Path(sandboxTree(id)); err != nil {
		if err := a.room(ctx); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old, again := a.reserved[id]
	if !again && len(a.reserved) >= a.limits.MaxSandboxes {
		return exhausted("the node runs as many sandboxes as it may")
	}
	if a.memory-old.MemoryBytes+r.MemoryBytes > a.limits.MemoryBytes {
		return exhausted("the node has promised all of its memory")
	}
	a.put(id, r)
	return nil
}

// room refuses new sandboxes while the disk is full.
func (a *admission) room(ctx context.Context) error {
	space, err := a.disk.Space(ctx)
	if ctx.Err() != nil {
		return interrupted(ctx, ctx.Err(), "the reservation")
	}
	if err != nil {
		return core.Wrap(core.CodeUnavailable, err, "the node can't tell how much disk space it has")
	}
	if space.FreeBytes < a.limits.MinDiskFreeBytes {
		return exhausted("the node's disk is full")
	}
	return nil
}

// ReserveAll promises the same resources to each of several sandboxes, or nothing.
func (a *admission) ReserveAll(ctx context.Context, ids []core.SandboxID, each core.Resources) error {
	if err := a.room(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	places := max(0, a.limits.MaxSandboxes-len(a.reserved))
	fit := int64(places)
	if each.MemoryBytes > 0 {
		fit = min(fit, max(0, a.limits.MemoryBytes-a.memory)/each.MemoryBytes)
	}
	if n := int64(len(ids)); n > fit {
		what := "the node has not enough memory left"
		if fit == int64(places) {
			what = "the node runs almost as many sandboxes as it may"
		}
		return exhausted(fmt.Sprintf("%s for %d sandboxes: %d of them would fit", what, n, fit))
	}
	for _, id := range ids {
		a.put(id, each)
	}
	return nil
}

// again replaces a reservation by one that asks for no more. That is never refused.
func (a *admission) again(id core.SandboxID, r core.Resources) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, ok := a.reserved[id]
	if !ok || r.MemoryBytes > old.MemoryBytes {
		return false
	}
	a.put(id, r)
	return true
}

// force reserves for a sandbox that runs already.
func (a *admission) force(id core.SandboxID, r core.Resources) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.put(id, r)
}

func (a *admission) put(id core.SandboxID, r core.Resources) {
	a.memory += r.MemoryBytes - a.reserved[id].MemoryBytes
	a.reserved[id] = r
}

// Release gives a reservation back.
func (a *admission) Release(id core.SandboxID) { a.release(id) }

func (a *admission) release(id core.SandboxID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.memory -= a.reserved[id].MemoryBytes
	delete(a.reserved, id)
}

// of returns what a sandbox was promised, nothing if it was not.
func (a *admission) of(id core.SandboxID) core.Resources {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reserved[id]
}

func (a *admission) has(id core.SandboxID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.reserved[id]
	return ok
}

func (a *admission) capacity() core.NodeCapacity {
	a.mu.Lock()
	defer a.mu.Unlock()
	return core.NodeCapacity{
		MemoryBytes: a.limits.MemoryBytes, MemoryReservedBytes: a.memory,
		Sandboxes: len(a.reserved), MaxSandboxes: a.limits.MaxSandboxes,
	}
}

func exhausted(what string) error {
	return &core.Error{Code: core.CodeExhausted, Message: what + ": delete some sandboxes or try again later", RetryAfter: retryAfterFull}
}
