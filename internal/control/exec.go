package control

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"

	"shoal/internal/core"
	"shoal/internal/failpoint"
)

// Exec starts a process. It returns its record, and the stream that follows it, which the caller closes; with spec.Detach
// the stream is nil.
func (s *Service) Exec(ctx context.Context, p Principal, ref string, spec core.ExecSpec) (core.Exec, core.ExecStream, error) {
	if err := p.may("Exec"); err != nil {
		return core.Exec{}, nil, err
	}
	start := s.clock.Now()
	e, stream, err := s.startExec(ctx, p, ref, spec)
	s.observer.ExecStart(err, s.clock.Now().Sub(start))
	return e, stream, err
}

func (s *Service) startExec(ctx context.Context, p Principal, ref string, spec core.ExecSpec) (core.Exec, core.ExecStream, error) {
	if err := checkExec(spec); err != nil {
		return core.Exec{}, nil, err
	}
	sb, g, err := s.running(ctx, p, ref)
	if err != nil {
		return core.Exec{}, nil, err
	}
	release, err := s.activity.hold(ctx, sb.ID)
	if err != nil {
		return core.Exec{}, nil, err
	}
	e, stream, err := s.launch(ctx, p, sb, g, spec)
	if stream == nil {
		release()
		return e, nil, err
	}
	return e, heldStream{stream, release}, err
}

// launch starts a process in a sandbox that is held.
func (s *Service) launch(
	ctx context.Context, p Principal, sb core.Sandbox, g core.Guest, spec core.ExecSpec,
) (core.Exec, core.ExecStream, error) {
	e := core.Exec{ID: core.ExecID(core.NewID()), Sandbox: sb.ID, Spec: recordedSpec(spec), StartedAt: s.clock.Now()}
	// The intent comes first: whatever is killed at whatever moment, no process runs that nobody knows of.
	if err := s.records.intend(ctx, e); err != nil {
		return core.Exec{}, nil, err
	}
	err := failpoint.Hit(failpoint.ControlExecRecorded)
	if err == nil && ctx.Err() != nil {
		err = core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
	}
	if err != nil {
		s.records.forget(ctx, sb, e.ID)
		return core.Exec{}, nil, err
	}
	stream, first, err := begin(ctx, g, e.ID, spec)
	if err != nil {
		return core.Exec{}, nil, s.notStarted(ctx, sb, e, err)
	}
	e.PID = first.Exec.PID
	if first.Kind == core.ExecEnded {
		e = s.records.ended(ctx, p.Actor, sb, e, *first.Exec)
	} else {
		// Nobody has to wait for it: whoever asks now is told by the guest agent, and so is the next server if this one dies.
		s.records.young.add(e)
		s.tasks.run(func(ctx context.Context) {
			s.records.started(ctx, p.Actor, sb, e)
			s.records.young.remove(e)
		})
	}
	if spec.Detach {
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
func (s *Service) notStarted(ctx context.Context, sb core.Sandbox, e core.Exec, cause error) error {
	ctx = context.WithoutCancel(ctx)
	if refused(cause) {
		s.records.forget(ctx, sb, e.ID)
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

// RunExec starts a process, waits for its end and returns its output, at most limit bytes of each stream. stdin may be nil.
// If ctx ends first the process goes on and the error is canceled.
func (s *Service) RunExec(ctx context.Context, p Principal, ref string, spec core.ExecSpec, stdin []byte, limit int) (core.ExecResult, error) {
	if err := p.may("RunExec"); err != nil {
		return core.ExecResult{}, err
	}
	spec.Detach = false
	spec.Stdin = stdin != nil
	e, stream, err := s.Exec(ctx, p, ref, spec)
	if err != nil {
		return core.ExecResult{}, err
	}
	feeding := feedStdin(stream, stdin)
	defer feeding.Wait()
	defer func() { _ = stream.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	defer stop()
	res := core.ExecResult{Exec: e}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) && res.Outcome != core.OutcomeRunning {
			res.Duration = res.EndedAt.Sub(res.StartedAt)
			return res, nil
		}
		if err != nil {
			if ctx.Err() != nil {
				return res, core.Wrap(core.CodeCanceled, ctx.Err(), "the call ended first: the process goes on as exec %s", e.ID)
			}
			return res, err
		}
		switch m.Kind {
		case core.ExecStdout:
			res.Stdout = appendLimited(res.Stdout, m.Data, limit, &res.Truncated)
		case core.ExecStderr:
			res.Stderr = appendLimited(res.Stderr, m.Data, limit, &res.Truncated)
		case core.ExecGap:
			res.Truncated = true
		case core.ExecEnded:
			res.Exec = *m.Exec
		case core.ExecStarted:
		}
	}
}

// feedStdin sends all of a process's input beside the reading of its output, so that neither can block the other.
func feedStdin(stream core.ExecStream, stdin []byte) *sync.WaitGroup {
	var wg sync.WaitGroup
	if stdin == nil {
		return &wg
	}
	wg.Go(func() {
		// A process may end, or close its input, before it has read everything: that is its own business.
		if stream.SendStdin(stdin) == nil {
			_ = stream.CloseStdin()
		}
	})
	return &wg
}

func appendLimited(dst, src []byte, limit int, truncated *bool) []byte {
	room := limit - len(dst)
	if len(src) > room {
		*truncated = true
		src = src[:max(room, 0)]
	}
	return append(dst, src...)
}
