package control

import (
	"context"
	"errors"
	"io"
	"sync"

	"shoal/internal/core"
)

// Exec starts a process. It returns its record, and the stream that follows it, which the caller closes; with spec.Detach
// the stream is nil. With spec.Once a repeat finds the exec that the first call started, and follows it from its first byte.
func (s *Service) Exec(ctx context.Context, p Principal, ref string, spec core.ExecSpec) (core.Exec, core.ExecStream, error) {
	if err := p.may("Exec"); err != nil {
		return core.Exec{}, nil, err
	}
	turn, err := s.starter.turn(ctx, p, ref, spec)
	if err != nil {
		return core.Exec{}, nil, err
	}
	defer turn.over()
	return s.starter.exec(ctx, p, ref, spec, turn)
}

// RunExec starts a process, waits for its end and returns its output, at most limit bytes of each stream. stdin may be nil.
// If ctx ends first the process goes on and the error is canceled. With spec.Once a repeat returns what the first call did, or
// waits for the process that it started.
func (s *Service) RunExec(ctx context.Context, p Principal, ref string, spec core.ExecSpec, stdin []byte, limit int) (core.ExecResult, error) {
	if err := p.may("RunExec"); err != nil {
		return core.ExecResult{}, err
	}
	spec.Detach = false
	spec.Stdin = stdin != nil
	if spec.Once != nil {
		spec.Once.Input = spec.Stdin
	}
	turn, err := s.starter.turn(ctx, p, ref, spec)
	if err != nil {
		return core.ExecResult{}, err
	}
	defer turn.over()
	var res core.ExecResult
	if turn.kept(&res) {
		return res, nil
	}
	e, stream, err := s.starter.exec(ctx, p, ref, spec, turn)
	if err != nil {
		return core.ExecResult{}, err
	}
	if spec.Once != nil && spec.Once.Repeated {
		stdin = nil // the process has had it
	}
	if res, err = collect(ctx, e, stream, stdin, limit); err == nil {
		turn.keep(ctx, res)
	}
	return res, err
}

// collect gives a process its input, waits for its end, and closes its stream.
func collect(ctx context.Context, e core.Exec, stream core.ExecStream, stdin []byte, limit int) (core.ExecResult, error) {
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
