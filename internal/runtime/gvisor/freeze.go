package gvisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"shoal/internal/core"
)

// The sentry counts how often its tasks are held, and ends when it is let go more often than that. So it must be known whether it is
// held: the record says "perhaps" from before the sentry is told to hold until after it was let go. Only a driver that has not itself
// held it has to ask, by looking at what the sentry's goroutines do: gVisor has no other way to tell.

// holdTimeout bounds how long the guest's tasks take to stop: each ends the system call that it is in first, which may be a write to a
// disk that is slow.
const holdTimeout = 10 * time.Second

// freezer is the driver's part that holds sandboxes.
type freezer struct{ *Driver }

// Freeze holds all of the guest's tasks.
func (d *freezer) Freeze(ctx context.Context, id core.SandboxID) error {
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
		return core.Wrap(core.CodeCanceled, ctx.Err(), "the sandbox was not held")
	}
	r := b.current()
	if !r.Started || !r.Sentry.alive() {
		return core.Errorf(core.CodeUnavailable, "the sandbox does not run")
	}
	switch held, err := d.isHeld(ctx, b); {
	case err != nil:
		return core.Wrap(core.CodeUnavailable, err, "the sandbox does not say whether it is held")
	case held:
		return nil
	}
	if err := d.update(b, func(r *record) { r.Held = true }); err != nil {
		return core.Wrap(core.CodeUnavailable, err, "the sandbox's runtime record cannot be written")
	}
	if err := askWithin(ctx, holdTimeout, controlSocket(d.cfg.StateDir, r.Container), question{methodPause, nil, &struct{}{}}); err != nil {
		err = errors.Join(err, d.letGo(context.WithoutCancel(ctx), b))
		return core.Wrap(core.CodeUnavailable, err, "the sandbox could not be held")
	}
	b.held = true
	return nil
}

// Thaw lets go of the guest's tasks.
func (d *freezer) Thaw(ctx context.Context, id core.SandboxID) error {
	b, err := d.known(id)
	if err != nil {
		return err
	}
	b.op.Lock()
	defer b.op.Unlock()
	if err := d.letGo(ctx, b); err != nil {
		return core.Wrap(core.CodeUnavailable, err, "the sandbox could not be let go")
	}
	return nil
}

// letGo lets go of the guest's tasks if they are held. The caller holds b.op.
func (d *freezer) letGo(ctx context.Context, b *box) error {
	r := b.current()
	if !r.Held {
		return nil
	}
	if r.Boot == bootID() && r.Sentry.alive() {
		held, err := d.isHeld(ctx, b)
		if err != nil {
			return err
		}
		b.held = false // until it is known again
		if held {
			if err := d.ask(ctx, r.Container, methodResume, nil, &struct{}{}); err != nil {
				return fmt.Errorf("resume: %w", err)
			}
		}
	}
	if err := d.update(b, func(r *record) { r.Held = false }); err != nil {
		return err
	}
	return nil
}

// isHeld reports whether the guest's tasks are held, or are just being held. The caller holds b.op.
func (d *freezer) isHeld(ctx context.Context, b *box) (bool, error) {
	r := b.current()
	if !r.Held || b.held {
		return b.held, nil
	}
	var stacks string
	if err := askWithin(ctx, holdTimeout, controlSocket(d.cfg.StateDir, r.Container), question{methodStacks, nil, &stacks}); err != nil {
		return false, fmt.Errorf("look at the sentry: %w", err)
	}
	return showHeld(stacks), nil
}

// What the stacks of a sentry's goroutines tell: one that runs a task of the guest's, one that waits because tasks are held, and one
// that is about to hold them.
const (
	stackTask    = "pkg/sentry/kernel.(*Task).run("
	stackStopped = "pkg/sentry/kernel.(*Task).doStop("
	stackHolding = "pkg/sentry/kernel.(*Kernel).Pause("
)

// showHeld reports whether a sentry with these stacks holds all of its tasks. While it does, each waits in the same place; a guest can
// stop others of its tasks, but not the one that stops them.
func showHeld(stacks string) bool {
	if strings.Contains(stacks, stackHolding) {
		return true
	}
	tasks := 0
	for s := range strings.SplitSeq(stacks, "\n\n") {
		if !strings.Contains(s, stackTask) {
			continue
		}
		if !strings.Contains(s, stackStopped) {
			return false
		}
		tasks++
	}
	return tasks > 0
}
