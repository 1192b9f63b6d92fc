package envd

import (
	"context"
	"errors"
	"maps"
	"math"
	"strings"
	"time"

	"connectrpc.com/connect"

	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd/processpb"
)

// endKept is how long after its end a process can still be asked how it ended.
const endKept = 30 * time.Second

// processes is the service process.Process.
type processes struct{ *handler }

var _ processpb.ProcessHandler = (*processes)(nil)

// Start starts a process and follows it until it ends, its deadline passes, or the caller leaves, which it survives.
func (s *processes) Start(ctx context.Context, r *connect.Request[processpb.StartRequest], out *connect.ServerStream[processpb.StartResponse]) error {
	err := s.start(ctx, r, func(e *processpb.ProcessEvent) error { return out.Send(&processpb.StartResponse{Event: e}) })
	return s.rpcError(ctx, err)
}

func (s *processes) start(ctx context.Context, r *connect.Request[processpb.StartRequest], send func(*processpb.ProcessEvent) error) error {
	beat, err := keepAlive(r.Header())
	if err != nil {
		return err
	}
	t := target(ctx)
	spec, err := s.spec(ctx, t, r)
	if err != nil {
		return err
	}
	e, stream, err := s.control.Exec(ctx, t.Principal, t.ref(), spec)
	if err != nil {
		return startError(err, spec.User)
	}
	return s.follow(ctx, &view{exec: e, tty: spec.TTY, stream: stream, send: send, beat: beat})
}

// spec is what a start asks to have run.
func (s *processes) spec(ctx context.Context, t Target, r *connect.Request[processpb.StartRequest]) (core.ExecSpec, error) {
	process := r.Msg.GetProcess()
	if process.GetCmd() == "" {
		return core.ExecSpec{}, core.Invalid("cmd", "say what to run: process.cmd")
	}
	user, err := basicUser(r.Header())
	if err != nil {
		return core.ExecSpec{}, err
	}
	timeout, err := heldDeadline(ctx)
	if err != nil {
		return core.ExecSpec{}, err
	}
	env := t.environment()
	for k := range t.Sandbox.Env {
		delete(env, k) // the guest agent has these
	}
	maps.Copy(env, process.GetEnvs())
	spec := core.ExecSpec{
		Cmd: append([]string{process.GetCmd()}, process.GetArgs()...), Env: env, User: user, Timeout: timeout, Tag: r.Msg.GetTag(),
		// Clients that know the field always send it.
		Stdin: r.Msg.Stdin == nil || r.Msg.GetStdin(),
	}
	if spec.Cwd, err = s.workdir(ctx, t, process.GetCwd(), user); err != nil {
		return core.ExecSpec{}, err
	}
	if r.Msg.Pty != nil {
		spec.TTY, spec.Stdin = true, true
		if spec.Rows, spec.Cols, err = terminalSize(r.Msg.GetPty()); err != nil {
			return core.ExecSpec{}, err
		}
	}
	return spec, nil
}

// workdir returns a working directory as the guest agent takes it.
func (s *processes) workdir(ctx context.Context, t Target, dir, user string) (string, error) {
	if dir == "" || strings.HasPrefix(dir, "/") {
		return dir, nil
	}
	guest, err := s.control.Files(ctx, t.Principal, t.ref())
	if err != nil {
		return "", outside(err)
	}
	place, err := guest.Resolve(ctx, dir, user)
	if err != nil {
		return "", aboutUser(err, user)
	}
	return place.Path, nil
}

// terminalSize returns the size that a terminal is to have; none means that of the guest agent's choice.
func terminalSize(pty *processpb.PTY) (rows, cols uint16, err error) {
	size := pty.GetSize()
	if size.GetRows() > math.MaxUint16 || size.GetCols() > math.MaxUint16 {
		return 0, 0, core.Invalid("pty", "a terminal has at most %d rows and columns", math.MaxUint16)
	}
	return uint16(size.GetRows()), uint16(size.GetCols()), nil
}

// startError says why a process could not be started, in the codes that clients know.
func startError(err error, user string) error {
	var e *core.Error
	if errors.As(err, &e) && e.Code == core.CodeDenied && (e.Field == "cmd" || e.Field == "cwd") {
		return &core.Error{Code: core.CodeInvalid, Field: e.Field, Message: e.Message, Err: e.Err}
	}
	return aboutUser(outside(err), user)
}

// Connect follows a process from now on. One that has ended not long ago tells how.
func (s *processes) Connect(ctx context.Context, r *connect.Request[processpb.ConnectRequest], out *connect.ServerStream[processpb.ConnectResponse]) error {
	err := s.connect(ctx, r, func(e *processpb.ProcessEvent) error { return out.Send(&processpb.ConnectResponse{Event: e}) })
	return s.rpcError(ctx, err)
}

func (s *processes) connect(ctx context.Context, r *connect.Request[processpb.ConnectRequest], send func(*processpb.ProcessEvent) error) error {
	beat, err := keepAlive(r.Header())
	if err != nil {
		return err
	}
	t := target(ctx)
	e, err := s.find(ctx, t, r.Msg.GetProcess())
	if err != nil {
		return err
	}
	if e.Outcome == core.OutcomeRunning {
		// The record does not say how much it has written.
		if e, err = s.control.GetExec(ctx, t.Principal, t.ref(), e.ID); err != nil {
			return err
		}
	}
	v := &view{exec: e, tty: e.Spec.TTY, send: send, beat: beat}
	if e.Outcome != core.OutcomeRunning {
		if time.Since(e.EndedAt) > endKept {
			return notFound(r.Msg.GetProcess())
		}
		if err := send(startEvent(e)); err != nil {
			return err
		}
		return v.end(e)
	}
	if v.stream, err = s.control.AttachExec(ctx, t.Principal, t.ref(), e.ID, e.OutputBytes); err != nil {
		return err
	}
	return s.follow(ctx, v)
}
