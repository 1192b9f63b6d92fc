package fake

import (
	"context"
	"slices"

	"shoal/internal/core"
)

// Op names a method of the driver that can be made to fail.
type Op string

// The methods.
const (
	OpAttach Op = "attach"
	OpAdopt  Op = "adopt"
	OpDetach Op = "detach"
	OpDial   Op = "dial"
	OpList   Op = "list"
)

// Fault is what happens to calls of one method.
type Fault struct {
	Op Op
	// Sandbox limits the fault to one sandbox; empty means any.
	Sandbox core.SandboxID
	// Times is how many calls it happens to; 0 means every one.
	Times int
	// Wait, if not nil, holds the call until it is closed or the call's context ends.
	Wait <-chan struct{}
	// Err, if not nil, is what the call returns.
	Err error
	// After lets the call have its effect before Err is returned, as when the process is cut off in between.
	After bool
}

// Inject adds a fault. Of several that fit a call, the one added first happens.
func (d *Driver) Inject(f Fault) {
	d.kernel.mu.Lock()
	defer d.kernel.mu.Unlock()
	d.faults = append(d.faults, &f)
}

// Calls returns how often a method has been called, including calls that failed.
func (d *Driver) Calls(op Op) int {
	d.kernel.mu.Lock()
	defer d.kernel.mu.Unlock()
	return d.calls[op]
}

// enter counts a call, waits where a fault says so, and returns the errors to return before and after its effect.
func (d *Driver) enter(ctx context.Context, op Op, id core.SandboxID) (before, after error) {
	d.kernel.mu.Lock()
	d.calls[op]++
	f := d.match(op, id)
	d.kernel.mu.Unlock()
	if f.Wait != nil {
		select {
		case <-f.Wait:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return ended(err), nil
	}
	if f.After {
		return nil, f.Err
	}
	return f.Err, nil
}

// match returns the fault of a call, the zero value if there is none. kernel.mu is held.
func (d *Driver) match(op Op, id core.SandboxID) Fault {
	for i, f := range d.faults {
		if f.Op != op || f.Sandbox != "" && f.Sandbox != id {
			continue
		}
		found := *f
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				d.faults = slices.Delete(d.faults, i, i+1)
			}
		}
		return found
	}
	return Fault{}
}
