package gvisor

import (
	"cmp"
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/runtime"
)

// Resize changes the limits of the sandbox's groups. What the guest sees of them, the size of its memory and the number of its
// processors, is what they were when it was started: gVisor reads that once.
func (d *Driver) Resize(ctx context.Context, id core.SandboxID, r core.Resources) error {
	if err := runtime.CheckResources(r); err != nil {
		return err
	}
	b, err := d.known(id)
	if err != nil {
		return err
	}
	b.op.Lock()
	defer b.op.Unlock()
	switch {
	case b.isKilled():
		return core.Errorf(core.CodeCanceled, "the sandbox was deleted")
	case ctx.Err() != nil:
		return core.Wrap(core.CodeCanceled, ctx.Err(), "the change was canceled")
	}
	if now := b.current(); !now.Started || !now.Sentry.alive() {
		return core.Errorf(core.CodeUnavailable, "the sandbox does not run")
	}
	// The record first: whoever adopts the sandbox sets its processor limits again by it.
	err = d.update(b, func(now *record) {
		now.VCPUs, now.CPUWeight = cmp.Or(r.VCPUs, now.VCPUs), cmp.Or(r.CPUWeight, now.CPUWeight)
		now.IOWeight = cmp.Or(r.IOWeight, now.IOWeight)
		now.MemoryBytes = cmp.Or(r.MemoryBytes, now.MemoryBytes)
	})
	if err == nil {
		err = d.cgroups.limitMemory(string(id), hardMemory(r.MemoryBytes))
	}
	if errors.Is(err, unix.EBUSY) {
		return core.Wrap(core.CodeConflict, err, "the sandbox uses more memory now than it would have")
	}
	if err == nil {
		err = d.limitGroups(b.current())
	}
	if err != nil {
		return core.Wrap(core.CodeInternal, err, "the sandbox's limits can't be changed")
	}
	return nil
}
