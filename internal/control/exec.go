package control

import (
	"context"
	"errors"
	"io"
	"maps"
	"strings"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// The bounds of one exec.
const (
	maxCmdArgs   = 4096
	maxCmdBytes  = 512 << 10
	maxTimeout   = 7 * 24 * time.Hour
	maxPathBytes = 4096
)

// Exec starts a process. It returns its record, and the stream that follows it, which the caller closes; with spec.Detach
// the stream is nil.
func (s *Service) Exec(ctx context.Context, p Principal, ref string, spec core.ExecSpec) (core.Exec, core.ExecStream, error) {
	start := s.clock.Now()
	e, stream, err := s.startExec(ctx, p, ref, spec)
	s.cfg.Observer.ExecStart(err, s.clock.Now().Sub(start))
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
	e := core.Exec{ID: core.ExecID(core.NewID()), Sandbox: sb.ID, Spec: recordedSpec(spec), StartedAt: s.clock.Now()}
	if err := s.recordExec(ctx, p.Actor, sb, e, core.EventExecStarted); err != nil {
		return core.Exec{}, nil, err
	}
	if err := failpoint.Hit(failpoint.ControlExecRecorded); err != nil {
		return core.Exec{}, nil, s.execNotStarted(ctx, p.Actor, sb, e, err)
	}
	stream, err := g.Exec(ctx, e.ID, spec)
	if err != nil {
		return core.Exec{}, nil, s.execNotStarted(ctx, p.Actor, sb, e, err)
	}
	first, err := stream.Recv()
	if err == nil && first.Kind == core.ExecStarted && first.Exec != nil {
		e.PID = first.Exec.PID
		err = failpoint.Hit(failpoint.ControlExecStarted)
	}
	if err != nil {
		_ = stream.Close()
		return core.Exec{}, nil, s.execNotStarted(ctx, p.Actor, sb, e, err)
	}
	if first.Kind == core.ExecEnded && first.Exec != nil {
		e = s.execEnded(context.WithoutCancel(ctx), p.Actor, sb, e, *first.Exec)
	}
	if spec.Detach {
		s.watchers.watch(sb)
		return e, nil, stream.Close()
	}
	return e, s.follow(sb, p.Actor, e, stream, first), nil
}

// recordedSpec is what the record of an exec keeps: never its environment's values, which may hold secrets.
func recordedSpec(spec core.ExecSpec) core.ExecSpec {
	env := maps.Clone(spec.Env)
	for k := range env {
		env[k] = ""
	}
	spec.Env = env
	return spec
}

// RunExec starts a process, waits for its end and returns its output, at most limit bytes of each stream. stdin may be nil.
// If ctx ends first the process goes on and the error is canceled.
func (s *Service) RunExec(ctx context.Context, p Principal, ref string, spec core.ExecSpec, stdin []byte, limit int) (core.ExecResult, error) {
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

func checkExec(spec core.ExecSpec) error {
	switch {
	case len(spec.Cmd) == 0 && spec.Shell == "":
		return core.Invalid("cmd", "say what to run: cmd or shell")
	case len(spec.Cmd) != 0 && spec.Shell != "":
		return core.Invalid("shell", "cmd and shell exclude each other")
	case len(spec.Cmd) > 0 && spec.Cmd[0] == "":
		return core.Invalid("cmd", "the program's name is empty")
	case len(spec.Cmd) > maxCmdArgs:
		return core.Invalid("cmd", "at most %d arguments", maxCmdArgs)
	case spec.Timeout < 0 || spec.Timeout > maxTimeout:
		return core.Invalid("timeout_seconds", "a timeout is 0 (none) to %d seconds", int64(maxTimeout/time.Second))
	case len(spec.Cwd) > maxPathBytes || strings.ContainsRune(spec.Cwd, 0):
		return core.Invalid("cwd", "a path has at most %d bytes and no NUL", maxPathBytes)
	case len(spec.User) > 256 || strings.ContainsRune(spec.User, 0):
		return core.Invalid("user", "a user is a name or a number, optionally with :group")
	}
	total := len(spec.Shell)
	if strings.ContainsRune(spec.Shell, 0) {
		return core.Invalid("shell", "a script can't contain a NUL")
	}
	for _, arg := range spec.Cmd {
		total += len(arg)
		if strings.ContainsRune(arg, 0) {
			return core.Invalid("cmd", "an argument can't contain a NUL")
		}
	}
	if total > maxCmdBytes {
		return core.Invalid("cmd", "a command has at most %d bytes: send a longer script as a file", maxCmdBytes)
	}
	return checkEnv("env", spec.Env)
}

// AttachExec follows an exec's output from an offset.
func (s *Service) AttachExec(ctx context.Context, p Principal, ref string, id core.ExecID, from int64) (core.ExecStream, error) {
	sb, e, err := s.exec(ctx, p, ref, id)
	if err != nil {
		return nil, err
	}
	g, err := s.node.Guest(sb.ID)
	if err != nil {
		if e.Outcome != core.OutcomeRunning {
			return newEndedStream(e), nil
		}
		return nil, err
	}
	stream, err := g.Attach(ctx, id, from)
	if err != nil {
		return nil, err
	}
	return s.follow(sb, p.Actor, e, stream), nil
}

// exec finds the record of an exec of the caller's.
func (s *Service) exec(ctx context.Context, p Principal, ref string, id core.ExecID) (sb core.Sandbox, e core.Exec, err error) {
	err = s.store.View(ctx, func(r store.Reader) error {
		if sb, err = r.Sandbox(p.Tenant, ref); err != nil {
			return err
		}
		e, err = r.Exec(sb.ID, id)
		return err
	})
	return sb, e, err
}

// GetExec returns an exec: its record, with what the guest agent says while it runs.
func (s *Service) GetExec(ctx context.Context, p Principal, ref string, id core.ExecID) (core.Exec, error) {
	sb, e, err := s.exec(ctx, p, ref, id)
	if err != nil {
		return e, err
	}
	g, err := s.node.Guest(sb.ID)
	if err != nil {
		return e, nil //nolint:nilerr // the record is all there is to say of an exec whose sandbox does not run
	}
	live, err := g.GetExec(ctx, id)
	if core.IsCode(err, core.CodeNotFound) || core.IsCode(err, core.CodeUnavailable) {
		return e, nil
	}
	if err != nil {
		return e, err
	}
	return s.merge(ctx, sb, e, live), nil
}

// merge joins a record with what the guest agent says of the exec now.
func (s *Service) merge(ctx context.Context, sb core.Sandbox, e, live core.Exec) core.Exec {
	e.PID, e.OutputBytes, e.OutputFrom, e.Processes = live.PID, live.OutputBytes, live.OutputFrom, live.Processes
	if e.Outcome == core.OutcomeRunning && live.Outcome != core.OutcomeRunning {
		e = s.execEnded(context.WithoutCancel(ctx), system("watch"), sb, e, live)
	}
	return e
}

// ListExecs returns a page of a sandbox's execs, newest first.
func (s *Service) ListExecs(ctx context.Context, p Principal, ref string, page store.Page) (list []core.Exec, next string, err error) {
	var sb core.Sandbox
	err = s.store.View(ctx, func(r store.Reader) error {
		if sb, err = r.Sandbox(p.Tenant, ref); err != nil {
			return err
		}
		list, next, err = r.ListExecs(sb.ID, page)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	g, err := s.node.Guest(sb.ID)
	if err != nil {
		return list, next, nil //nolint:nilerr // the records are all there is to say
	}
	lives, err := g.ListExecs(ctx)
	if err != nil {
		return list, next, nil //nolint:nilerr // an agent that does not answer takes only the live figures away
	}
	byID := map[core.ExecID]core.Exec{}
	for _, l := range lives {
		byID[l.ID] = l
	}
	for i, e := range list {
		if l, ok := byID[e.ID]; ok {
			list[i] = s.merge(ctx, sb, e, l)
		}
	}
	return list, next, nil
}

// SignalExec sends a signal to an exec's whole group.
func (s *Service) SignalExec(ctx context.Context, p Principal, ref string, id core.ExecID, signal string) error {
	g, err := s.execGuest(ctx, p, ref, id)
	if err != nil {
		return err
	}
	return g.Signal(ctx, id, signal)
}

// CancelExec kills an exec's whole group.
func (s *Service) CancelExec(ctx context.Context, p Principal, ref string, id core.ExecID) error {
	g, err := s.execGuest(ctx, p, ref, id)
	if err != nil {
		return err
	}
	return g.Cancel(ctx, id)
}

// ResizeExec changes the size of an exec's terminal.
func (s *Service) ResizeExec(ctx context.Context, p Principal, ref string, id core.ExecID, rows, cols uint16) error {
	g, err := s.execGuest(ctx, p, ref, id)
	if err != nil {
		return err
	}
	return g.Resize(ctx, id, rows, cols)
}

// WriteExecStdin appends to a running exec's input; end closes it afterwards.
func (s *Service) WriteExecStdin(ctx context.Context, p Principal, ref string, id core.ExecID, data []byte, end bool) error {
	g, err := s.execGuest(ctx, p, ref, id)
	if err != nil {
		return err
	}
	return g.WriteStdin(ctx, id, data, end)
}

func (s *Service) execGuest(ctx context.Context, p Principal, ref string, id core.ExecID) (core.Guest, error) {
	sb, _, err := s.exec(ctx, p, ref, id)
	if err != nil {
		return nil, err
	}
	return s.node.Guest(sb.ID)
}
