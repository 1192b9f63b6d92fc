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
// held: the record says "perhaps" from before the sentry is told to hold until after it was let go. Only a driver that has no answer from
// it has to look at what the sentry's goroutines do: gVisor has no other way to tell. What was asked without an answer may be done at any
// time later, so one look proves nothing: see settle.

const (
	// holdTimeout bounds how long the guest's tasks take to stop: each ends the system call that it is in first, which may be a write to
	// a disk that is slow.
	holdTimeout = 10 * time.Second
	// lookAgain is how far apart two looks at a sentry are.
	lookAgain = 500 * time.Millisecond
)

// freezer is the driver's part that holds sandboxes.
type freezer struct {
	*Driver
	// patience bounds each thing that is asked of a sentry, and how long it is looked at.
	patience, lookAgain time.Duration
}

func newFreezer(d *Driver) *freezer {
	return &freezer{Driver: d, patience: holdTimeout, lookAgain: lookAgain}
}

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
	switch is, err := d.isHeld(ctx, b); {
	case err != nil:
		return core.Wrap(core.CodeUnavailable, err, "the sandbox does not say whether it is held")
	case is == stateHeld:
		return nil
	case is == stateHolding:
		return core.Errorf(core.CodeUnavailable, "the sandbox is still being held")
	}
	if err := d.update(b, func(r *record) { r.Held = true }); err != nil {
		return core.Wrap(core.CodeUnavailable, err, "the sandbox's runtime record cannot be written")
	}
	if err := d.hold(ctx, b); err != nil {
		err = errors.Join(err, d.letGo(context.WithoutCancel(ctx), b))
		return core.Wrap(core.CodeUnavailable, err, "the sandbox could not be held")
	}
	return nil
}

// hold tells the sentry to hold the guest's tasks. A caller who leaves does not end the wait: the sentry would hold them nevertheless.
func (d *freezer) hold(ctx context.Context, b *box) error {
	b.free = false
	err := d.tell(ctx, b, methodPause)
	b.held = err == nil
	b.pausing = err != nil && !errors.Is(err, errUnreached)
	b.free = errors.Is(err, errUnreached)
	if err == nil && b.current().Overdue > 0 {
		err = d.update(b, func(r *record) { r.Overdue = 0 }) // all have stopped, so nobody waits for that any more
	}
	return err
}

// tell asks the sentry to do something, and waits for the answer whether or not the caller does.
func (d *freezer) tell(ctx context.Context, b *box, method string) error {
	socket := controlSocket(d.cfg.StateDir, b.current().Container)
	return askWithin(context.WithoutCancel(ctx), d.patience, socket, question{method, nil, &struct{}{}})
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
		if err := d.resume(ctx, b); err != nil {
			return err
		}
	}
	return d.update(b, func(r *record) { r.Held = false })
}

// resume tells the sentry to let go if it holds its tasks.
func (d *freezer) resume(ctx context.Context, b *box) error {
	is, err := d.isHeld(ctx, b)
	if err != nil || is == stateFree {
		return err
	}
	if is == stateHolding {
		// What holds them waits until they are held the next time: from here on it is no sign that they are.
		if err := d.update(b, func(r *record) { r.Overdue++ }); err != nil {
			return err
		}
	}
	b.held, b.pausing = false, false
	if err := d.tell(ctx, b, methodResume); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	b.free = true // also if the record can't be written
	return nil
}

// heldState is what is known of whether a sentry holds its tasks.
type heldState int

const (
	// stateUnclear is none of the others, or on the way to one of them.
	stateUnclear heldState = iota
	// stateFree: nothing holds them.
	stateFree
	// stateHolding: the sentry counts them as held, and some have not stopped yet.
	stateHolding
	// stateHeld: all have stopped.
	stateHeld
)

// isHeld finds out whether the guest's tasks are held. It returns no stateUnclear without an error. The caller holds b.op.
func (d *freezer) isHeld(ctx context.Context, b *box) (heldState, error) {
	switch {
	case !b.current().Held || b.free:
		return stateFree, nil
	case b.held:
		return stateHeld, nil
	}
	return d.settle(ctx, b)
}

// settle looks at the sentry until two looks in a row say the same. While it may yet begin to hold what it was told to, it is not free.
func (d *freezer) settle(ctx context.Context, b *box) (heldState, error) {
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	before := stateUnclear
	for {
		is, err := d.look(ctx, b)
		if err != nil {
			return stateUnclear, fmt.Errorf("look at the sentry: %w", err)
		}
		if is == before && is != stateUnclear && (is != stateFree || !b.pausing) {
			return is, nil
		}
		before = is
		select {
		case <-ctx.Done():
			return stateUnclear, fmt.Errorf("it is not clear whether the sentry holds its tasks: %w", ctx.Err())
		case <-time.After(d.lookAgain):
		}
	}
}

// look looks at the sentry once.
func (d *freezer) look(ctx context.Context, b *box) (heldState, error) {
	r := b.current()
	var stacks string
	if err := askWithin(ctx, d.patience, controlSocket(d.cfg.StateDir, r.Container), question{methodStacks, nil, &stacks}); err != nil {
		return stateUnclear, err
	}
	return readStacks(stacks, r.Overdue), nil
}

// What the stacks of a sentry's goroutines tell: one that runs a task of the guest's, one that waits because tasks are held, one that
// holds them, and that it has counted them as held and waits until they stop.
const (
	stackTask    = "pkg/sentry/kernel.(*Task).run("
	stackStopped = "pkg/sentry/kernel.(*Task).doStop("
	stackHolding = "pkg/sentry/kernel.(*Kernel).Pause("
	stackCounted = "sync.(*WaitGroup).Wait("
)

// readStacks reports what a sentry with these stacks does. While it holds all of its tasks, each waits in the same place; a guest can
// stop others of its tasks, but not the one that stops them. Of those that hold them, so many as are overdue are no sign.
func readStacks(stacks string, overdue int) heldState {
	var tasks, stopped, holding, counted int
	for s := range strings.SplitSeq(stacks, "\n\n") {
		switch {
		case strings.Contains(s, stackHolding):
			holding++
			if strings.Contains(s, stackCounted) {
				counted++
			}
		case strings.Contains(s, stackTask):
			tasks++
			if strings.Contains(s, stackStopped) {
				stopped++
			}
		}
	}
	switch {
	case holding != counted:
		return stateUnclear
	case tasks > 0 && stopped == tasks:
		return stateHeld
	case counted > overdue:
		return stateHolding
	case counted > 0 || tasks == 0:
		return stateUnclear
	}
	return stateFree
}
