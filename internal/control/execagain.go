package control

import (
	"context"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// again answers the repeat of a call that started an exec: with the record, and a stream that begins at the exec's first byte. An
// exec that a killed server recorded and did not come to start is started now.
func (s *starter) again(ctx context.Context, p Principal, spec core.ExecSpec, turn *turn) (core.Exec, core.ExecStream, error) {
	sb, e, err := s.recorded(ctx, p, turn)
	if err != nil {
		return e, nil, err
	}
	g, err := s.node.Guest(sb.ID)
	if err != nil {
		if e.Outcome == core.OutcomeRunning {
			return e, nil, err
		}
		turn.repeated()
		return outlived(e)
	}
	release, err := s.activity.hold(ctx, sb.ID, core.UseExecStream)
	if err != nil {
		return e, nil, err
	}
	e, stream, err := s.rejoin(ctx, p, sb, g, spec, turn)
	if err != nil || stream == nil {
		release()
		return e, nil, err
	}
	return e, heldStream{stream, release}, nil
}

// recorded returns the records of what the call made.
func (s *starter) recorded(ctx context.Context, p Principal, turn *turn) (sb core.Sandbox, e core.Exec, err error) {
	err = s.store.View(ctx, func(r store.Reader) error {
		if sb, err = r.SandboxByID(turn.found.Sandbox); err == nil {
			e, err = r.Exec(sb.ID, turn.found.Exec)
		}
		return err
	})
	if core.IsCode(err, core.CodeNotFound) || err == nil && !p.sees(sb) {
		err = errForgotten
	}
	return sb, e, err
}

// outlived answers with the record of an exec that nobody else remembers.
func outlived(e core.Exec) (core.Exec, core.ExecStream, error) {
	if e.Spec.Detach {
		return e, nil, nil
	}
	return e, newEndedStream(e), nil
}

// admitting is how long an exec may be known to the guest agent without having started, and admittingTries how often to look.
const (
	admitting      = 50 * time.Millisecond
	admittingTries = 40
)

// rejoin joins what an earlier call started, or starts it in its place.
func (s *starter) rejoin(
	ctx context.Context, p Principal, sb core.Sandbox, g core.Guest, spec core.ExecSpec, turn *turn,
) (core.Exec, core.ExecStream, error) {
	for range admittingTries {
		// A record that was read before the guest agent was asked may be out of date.
		_, e, err := s.recorded(ctx, p, turn)
		if err != nil {
			return e, nil, err
		}
		live, err := g.GetExec(ctx, e.ID)
		if err == nil {
			if turn.asked.Input && !turn.found.Fed && live.Outcome == core.OutcomeRunning {
				// It would wait for ever for what it was not given.
				return e, nil, core.Errorf(core.CodeConflict, "exec %s was started by this call, and it is not known how much of its "+
					"input it was given before that broke off: cancel it, or wait for its end and repeat this call", e.ID)
			}
			turn.repeated()
			return s.follow(ctx, p.Actor, sb, g, e, live)
		}
		if !core.IsCode(err, core.CodeNotFound) {
			return e, nil, err
		}
		if e.Outcome != core.OutcomeRunning {
			turn.repeated()
			return outlived(e)
		}
		if e.PID != 0 {
			return e, nil, core.Errorf(core.CodeUnavailable, "the sandbox's guest agent doesn't remember exec %s: what became of it is being found out", e.ID)
		}
		if e, err = s.records.restart(ctx, sb, e.ID); err != nil {
			return e, nil, err
		}
		stream, first, err := begin(ctx, g, e.ID, spec)
		if err == nil {
			return s.begun(p, sb, e, stream, first)
		}
		if !core.IsCode(err, core.CodeExists) {
			return e, nil, s.notStarted(ctx, sb, e, turn, err)
		}
		// The server that was killed had sent its request after all, and the guest agent is busy with it.
		if !pause(ctx, s.clock, admitting) {
			return e, nil, core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
		}
	}
	return core.Exec{}, nil, core.Errorf(core.CodeUnavailable, "the sandbox's guest agent is still starting this exec")
}

// follow follows an exec from its first byte; live is what the guest agent says of it.
func (s *starter) follow(
	ctx context.Context, actor core.Actor, sb core.Sandbox, g core.Guest, e, live core.Exec,
) (core.Exec, core.ExecStream, error) {
	e.PID = live.PID
	if live.Outcome != core.OutcomeRunning && e.Outcome == core.OutcomeRunning {
		e = s.records.ended(ctx, actor, sb, e, live)
	}
	if e.Spec.Detach {
		s.watchers.watch(sb)
		return e, nil, nil
	}
	stream, err := g.Attach(ctx, e.ID, 0)
	if core.IsCode(err, core.CodeNotFound) && e.Outcome != core.OutcomeRunning {
		return outlived(e)
	}
	if err != nil {
		return e, nil, err
	}
	return e, s.watchers.follow(sb, actor, e, stream), nil
}

// fedStream records that a process has been given all of its input, so that a repeat of the call may wait for it.
type fedStream struct {
	core.ExecStream
	fed func()
}

// CloseStdin ends the input.
func (f fedStream) CloseStdin() error {
	err := f.ExecStream.CloseStdin()
	if err == nil {
		f.fed()
	}
	return err
}
