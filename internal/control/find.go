package control

import (
	"context"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// finder finds the sandbox, or the exec, that a call is about, for as much of it as the caller may see (scope.go).
type finder struct {
	*deps
}

// sandbox finds a sandbox by id or name.
func (f *finder) sandbox(ctx context.Context, p Principal, ref string) (sb core.Sandbox, err error) {
	err = f.store.View(ctx, func(r store.Reader) error {
		sb, err = p.find(r, ref)
		return err
	})
	f.activity.show(&sb)
	return sb, err
}

// used finds a sandbox that is used now.
func (f *finder) used(ctx context.Context, p Principal, ref string) (core.Sandbox, error) {
	sb, err := f.sandbox(ctx, p, ref)
	if err != nil {
		return sb, err
	}
	return sb, f.activity.touch(ctx, sb.ID)
}

// changed finds a sandbox that is to be stopped or woken, which is a use of it, unless a rule is just stopping it.
func (f *finder) changed(ctx context.Context, p Principal, ref string) (sb core.Sandbox, err error) {
	err = f.store.View(ctx, func(r store.Reader) error {
		sb, err = p.findToChange(r, ref)
		return err
	})
	if err != nil {
		return sb, err
	}
	if err = f.activity.touch(ctx, sb.ID); core.IsCode(err, core.CodeConflict) {
		err = nil
	}
	return sb, err
}

// exec finds the record of an exec of the caller's, and counts that as use of its sandbox.
func (f *finder) exec(ctx context.Context, p Principal, ref string, id core.ExecID) (sb core.Sandbox, e core.Exec, err error) {
	err = f.store.View(ctx, func(r store.Reader) error {
		if sb, err = p.find(r, ref); err != nil {
			return err
		}
		e, err = r.Exec(sb.ID, id)
		return err
	})
	if err == nil {
		err = f.activity.touch(ctx, sb.ID)
	}
	return sb, e, err
}

// settleMost bounds how long a call waits for a create, a stop, a wake or a restore that is under way.
const settleMost = 10 * time.Second

// unsettled reports whether a sandbox is on its way to another state, and there in a moment.
func unsettled(sb core.Sandbox) bool {
	switch sb.Operation {
	case core.OpStop, core.OpWake, core.OpRestore:
		return true
	default:
		return sb.State == core.StateCreating
	}
}

// settled finds a sandbox. One that is unsettled is waited for, until settleMost has passed or the server closes.
func (f *finder) settled(ctx context.Context, p Principal, ref string) (core.Sandbox, error) {
	var tooLate <-chan time.Time
	for {
		news := f.waiters.wait(p.Tenant)
		sb, err := f.sandbox(ctx, p, ref)
		if err != nil || !unsettled(sb) {
			return sb, err
		}
		ref = string(sb.ID) // if it is deleted meanwhile, another may get its name
		if tooLate == nil {
			tooLate = f.clock.After(settleMost)
		}
		select {
		case <-news:
		case <-tooLate:
			return sb, nil
		case <-f.tasks.stop.Done():
			return sb, nil
		case <-ctx.Done():
			return sb, core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
		}
	}
}

// usable says why nothing can be done inside a sandbox, unless it runs and stays so.
func usable(sb core.Sandbox) error {
	if sb.State == core.StateRunning && sb.Operation != core.OpStop && sb.Operation != core.OpRestore {
		return nil
	}
	msg := "the sandbox is " + string(sb.State)
	if sb.Failure != "" {
		msg += ": " + sb.Failure
	}
	if sb.Operation != core.OpNone {
		return &core.Error{Code: core.CodeConflict, Message: msg + ", with a " + string(sb.Operation) + " under way", RetryAfter: time.Second}
	}
	if _, ok := core.Next(sb.State, core.OpWake); ok {
		msg += ": wake it first"
	}
	return core.Errorf(core.CodeConflict, "%s", msg)
}

// running finds a sandbox and its guest agent, or says why there is none to talk to.
func (f *finder) running(ctx context.Context, p Principal, ref string) (core.Sandbox, core.Guest, error) {
	sb, err := f.settled(ctx, p, ref)
	if err != nil {
		return sb, nil, err
	}
	if err := usable(sb); err != nil {
		return sb, nil, err
	}
	g, err := f.node.Guest(sb.ID)
	if err != nil {
		// It may have been deleted since it was looked up: that is what the caller should learn then.
		if _, gone := f.sandbox(ctx, p, string(sb.ID)); core.IsCode(gone, core.CodeNotFound) {
			err = gone
		}
	}
	return sb, g, err
}

// everKnown finds a sandbox of the tenant's by id or name, or by id one that is deleted and not yet forgotten: whoever follows
// its events is to see the last one too.
func (f *finder) everKnown(ctx context.Context, p Principal, ref string) (id core.SandboxID, err error) {
	err = f.store.View(ctx, func(r store.Reader) error {
		sb, err := p.find(r, ref)
		if core.IsCode(err, core.CodeNotFound) && core.IsID(ref) {
			if gone, gerr := r.SandboxByID(core.SandboxID(ref)); gerr == nil && p.sees(gone) {
				sb, err = gone, nil
			}
		}
		id = sb.ID
		return err
	})
	return id, err
}
