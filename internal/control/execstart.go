package control

import (
	"context"
	"log/slog"
	"slices"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// starter starts execs, for calls that may have a key.
type starter struct {
	*finder
	once     *once
	records  *execRecords
	watchers *watchers
}

// turn begins a call that starts an exec.
func (s *starter) turn(ctx context.Context, p Principal, ref string, spec core.ExecSpec) (*turn, error) {
	if err := checkExec(spec); err != nil {
		return nil, err
	}
	return s.once.begin(ctx, p, "exec in "+ref, spec.Once)
}

// exec starts an exec, or finds the one that an earlier call started.
func (s *starter) exec(
	ctx context.Context, p Principal, ref string, spec core.ExecSpec, turn *turn,
) (core.Exec, core.ExecStream, error) {
	if turn != nil && turn.found != nil {
		return s.again(ctx, p, spec, turn)
	}
	start := s.clock.Now()
	e, stream, err := s.first(ctx, p, ref, spec, turn)
	s.observer.ExecStart(err, s.clock.Now().Sub(start))
	return e, stream, err
}

// resolved puts what the sandbox's template runs in the place of an exec that asks for it.
func (s *starter) resolved(ctx context.Context, sb core.Sandbox, spec core.ExecSpec) (core.ExecSpec, error) {
	if !spec.Entrypoint {
		return spec, nil
	}
	var config core.TemplateConfig
	var name string
	err := s.store.View(ctx, func(r store.Reader) (err error) {
		config, name, err = namedConfigOf(r, sb)
		return err
	})
	if err != nil {
		return spec, err
	}
	args := spec.Cmd
	if len(args) == 0 {
		args = config.Cmd
	}
	spec.Cmd, spec.Entrypoint = slices.Concat(config.Entrypoint, args), false
	if len(spec.Cmd) == 0 {
		return spec, core.Invalid("entrypoint", "the template %s says nothing of what to run: say a command", name)
	}
	return spec, checkExec(spec)
}

// first starts an exec.
func (s *starter) first(
	ctx context.Context, p Principal, ref string, spec core.ExecSpec, turn *turn,
) (core.Exec, core.ExecStream, error) {
	sb, g, err := s.running(ctx, p, ref)
	if err != nil {
		return core.Exec{}, nil, err
	}
	if spec, err = s.resolved(ctx, sb, spec); err != nil {
		return core.Exec{}, nil, err
	}
	release, err := s.activity.hold(ctx, sb.ID, core.UseExecStream)
	if err != nil {
		return core.Exec{}, nil, err
	}
	e, stream, err := s.launch(ctx, p, sb, g, spec, turn)
	if stream == nil {
		release()
		return e, nil, err
	}
	if turn != nil && turn.asked.Input {
		stream = fedStream{stream, func() { turn.fed(ctx) }}
	}
	return e, heldStream{stream, release}, err
}

// launch starts a process in a sandbox that is held.
func (s *starter) launch(
	ctx context.Context, p Principal, sb core.Sandbox, g core.Guest, spec core.ExecSpec, turn *turn,
) (core.Exec, core.ExecStream, error) {
	e := core.Exec{ID: core.ExecID(core.NewID()), Sandbox: sb.ID, Spec: recordedSpec(spec), StartedAt: s.clock.Now()}
	// The intent comes first: whatever is killed at whatever moment, no process runs that nobody knows of.
	if err := s.records.intend(ctx, e, turn); err != nil {
		return core.Exec{}, nil, err
	}
	err := failpoint.Hit(failpoint.ControlExecRecorded)
	if err == nil && ctx.Err() != nil {
		err = core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
	}
	if err != nil {
		s.records.forget(ctx, sb, e.ID, turn)
		return core.Exec{}, nil, err
	}
	stream, first, err := begin(ctx, g, e.ID, spec)
	if err != nil {
		return core.Exec{}, nil, s.notStarted(ctx, sb, e, turn, err)
	}
	return s.begun(p, sb, e, stream, first)
}

// begun records that an exec has started, and returns what Exec does. The stream is nil if the exec is detached.
func (s *starter) begun(
	p Principal, sb core.Sandbox, e core.Exec, stream core.ExecStream, first core.ExecMessage,
) (core.Exec, core.ExecStream, error) {
	e.PID = first.Exec.PID
	if first.Kind == core.ExecEnded {
		e = s.records.ended(s.tasks.stop, p.Actor, sb, e, *first.Exec)
	} else {
		// Nobody has to wait for it: whoever asks now is told by the guest agent, and so is the next server if this one dies.
		s.records.young.add(e)
		s.tasks.run(func(ctx context.Context) {
			s.records.started(ctx, p.Actor, sb, e)
			s.records.young.remove(e)
		})
	}
	if e.Spec.Detach {
		s.watchers.watch(sb)
		return e, nil, stream.Close()
	}
	return e, s.watchers.follow(sb, p.Actor, e, stream, first), nil
}

// begin has the guest agent start a process, and returns the stream with its first message, which says that it runs.
func begin(ctx context.Context, g core.Guest, id core.ExecID, spec core.ExecSpec) (core.ExecStream, core.ExecMessage, error) {
	var first core.ExecMessage
	stream, err := g.Exec(ctx, id, spec)
	if err != nil {
		return nil, first, err
	}
	if first, err = stream.Recv(); err == nil && first.Exec == nil {
		err = core.Errorf(core.CodeUnavailable, "the sandbox's guest agent broke the protocol")
	}
	if err == nil {
		err = failpoint.Hit(failpoint.ControlExecStarted)
	}
	if err != nil {
		_ = stream.Close()
		return nil, first, err
	}
	return stream, first, nil
}

// notStarted deals with an exec that its caller will not see, and returns why. What the guest agent refused has never been,
// and leaves no record. Where the start is in doubt, what may run is killed, and the watcher records what it learns.
func (s *starter) notStarted(ctx context.Context, sb core.Sandbox, e core.Exec, turn *turn, cause error) error {
	ctx = context.WithoutCancel(ctx)
	if refused(cause) {
		s.records.forget(ctx, sb, e.ID, turn)
		return cause
	}
	if g, err := s.node.Guest(sb.ID); err == nil {
		ctx, cancel := context.WithTimeout(ctx, agentTimeout)
		defer cancel()
		if err := g.Cancel(ctx, e.ID); err != nil && !core.IsCode(err, core.CodeNotFound) {
			s.log.Warn("cancel an exec whose start is in doubt",
				slog.String("sandbox_id", string(sb.ID)), slog.String("exec_id", string(e.ID)), slog.Any("err", err))
		}
	}
	s.watchers.watch(sb)
	return cause
}

// refused reports whether an error is the guest agent's answer that it did not start a process. Any other may come from the
// way to it, with the process running.
func refused(err error) bool {
	switch core.CodeOf(err) {
	case core.CodeInvalid, core.CodeDenied, core.CodeNotFound, core.CodeConflict, core.CodeExhausted, core.CodeQuota, core.CodeUnsupported:
		return true
	default:
		return false
	}
}
