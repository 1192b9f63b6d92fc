package envd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/dialect/e2b/envd/processpb"
)

// find returns the process that a selector means, running or not.
func (s *processes) find(ctx context.Context, t Target, selector *processpb.ProcessSelector) (core.Exec, error) {
	var by control.ExecSelector
	switch sel := selector.GetSelector().(type) {
	case *processpb.ProcessSelector_Pid:
		by.PID = int(sel.Pid)
	case *processpb.ProcessSelector_Tag:
		by.Tag = sel.Tag
	}
	if by == (control.ExecSelector{}) {
		return core.Exec{}, core.Invalid("process", "say which process: by its pid or its tag")
	}
	e, err := s.control.FindExec(ctx, t.Principal, t.ref(), by)
	if core.IsCode(err, core.CodeNotFound) {
		err = notFound(selector)
	}
	return e, err
}

// running returns the process that a selector means if it runs.
func (s *processes) running(ctx context.Context, t Target, selector *processpb.ProcessSelector) (core.Exec, error) {
	e, err := s.find(ctx, t, selector)
	if err == nil && e.Outcome != core.OutcomeRunning {
		err = notFound(selector)
	}
	return e, err
}

func notFound(selector *processpb.ProcessSelector) error {
	if tag, ok := selector.GetSelector().(*processpb.ProcessSelector_Tag); ok {
		return core.Errorf(core.CodeNotFound, "process with tag %q not found", shown(tag.Tag))
	}
	return core.Errorf(core.CodeNotFound, "process with pid %d not found", selector.GetPid())
}

// SendInput sends one piece of input and returns when the process's pipe or terminal has taken it.
func (s *processes) SendInput(ctx context.Context, r *connect.Request[processpb.SendInputRequest]) (*connect.Response[processpb.SendInputResponse], error) {
	dialect.CallOf(ctx).Quiet = true
	t := target(ctx)
	e, err := s.running(ctx, t, r.Msg.GetProcess())
	if err == nil {
		err = s.write(ctx, t, e, r.Msg.GetInput())
	}
	if err != nil {
		return nil, s.rpcError(ctx, err)
	}
	return connect.NewResponse(&processpb.SendInputResponse{}), nil
}

// write hands input to a process.
func (s *processes) write(ctx context.Context, t Target, e core.Exec, input *processpb.ProcessInput) error {
	var data []byte
	switch in := input.GetInput().(type) {
	case *processpb.ProcessInput_Stdin:
		if e.Spec.TTY {
			return core.Errorf(core.CodeConflict, "process %d has a terminal: send its input as pty", e.PID)
		}
		data = in.Stdin
	case *processpb.ProcessInput_Pty:
		if !e.Spec.TTY {
			return core.Errorf(core.CodeConflict, "process %d has no terminal: send its input as stdin", e.PID)
		}
		data = in.Pty
	default:
		return core.Invalid("input", "say what to send: stdin or pty")
	}
	if len(data) == 0 {
		return nil
	}
	return s.control.WriteExecStdin(ctx, t.Principal, t.ref(), e.ID, data, false)
}

// StreamInput sends input to the process that the first message names.
func (s *processes) StreamInput(ctx context.Context, in *connect.ClientStream[processpb.StreamInputRequest]) (*connect.Response[processpb.StreamInputResponse], error) {
	if err := s.streamInput(ctx, in); err != nil {
		return nil, s.rpcError(ctx, err)
	}
	return connect.NewResponse(&processpb.StreamInputResponse{}), nil
}

func (s *processes) streamInput(ctx context.Context, in *connect.ClientStream[processpb.StreamInputRequest]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)() //nolint:contextcheck // Two contexts end this call.
	t := target(ctx)
	var e core.Exec
	for in.Receive() {
		var err error
		switch event := in.Msg().GetEvent().(type) {
		case *processpb.StreamInputRequest_Start:
			if e.ID != "" {
				return core.Invalid("start", "the stream has a process already")
			}
			e, err = s.running(ctx, t, event.Start.GetProcess())
		case *processpb.StreamInputRequest_Data:
			if e.ID == "" {
				return core.Invalid("start", "the first message says which process: start")
			}
			err = s.write(ctx, t, e, event.Data.GetInput())
		case *processpb.StreamInputRequest_Keepalive:
		default:
			err = core.Invalid("event", "a message is start, data or keepalive")
		}
		if err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil && !errors.Is(err, io.EOF) {
		if ctx.Err() != nil {
			return leave(ctx.Err())
		}
		return fmt.Errorf("receive input: %w", err)
	}
	return nil
}

// CloseStdin ends a process's input.
func (s *processes) CloseStdin(ctx context.Context, r *connect.Request[processpb.CloseStdinRequest]) (*connect.Response[processpb.CloseStdinResponse], error) {
	t := target(ctx)
	e, err := s.running(ctx, t, r.Msg.GetProcess())
	switch {
	case err != nil:
	case e.Spec.TTY:
		err = core.Errorf(core.CodeConflict, "the input of a terminal can't be closed: send the byte 4 as pty")
	default:
		err = s.control.WriteExecStdin(ctx, t.Principal, t.ref(), e.ID, nil, true)
	}
	if err != nil {
		return nil, s.rpcError(ctx, err)
	}
	return connect.NewResponse(&processpb.CloseStdinResponse{}), nil
}

// SendSignal sends a signal to a process and its whole group.
func (s *processes) SendSignal(ctx context.Context, r *connect.Request[processpb.SendSignalRequest]) (*connect.Response[processpb.SendSignalResponse], error) {
	if err := s.signal(ctx, r.Msg); err != nil {
		return nil, s.rpcError(ctx, err)
	}
	return connect.NewResponse(&processpb.SendSignalResponse{}), nil
}

func (s *processes) signal(ctx context.Context, m *processpb.SendSignalRequest) error {
	var name string
	switch m.GetSignal() {
	case processpb.Signal_SIGNAL_SIGTERM:
		name = "SIGTERM"
	case processpb.Signal_SIGNAL_SIGKILL:
		name = "SIGKILL"
	case processpb.Signal_SIGNAL_UNSPECIFIED:
	}
	if name == "" {
		return core.Invalid("signal", "a signal is SIGNAL_SIGTERM or SIGNAL_SIGKILL")
	}
	t := target(ctx)
	e, err := s.running(ctx, t, m.GetProcess())
	if err != nil {
		return err
	}
	err = s.control.SignalExec(ctx, t.Principal, t.ref(), e.ID, name)
	if core.IsCode(err, core.CodeConflict) {
		return notFound(m.GetProcess()) // it has ended meanwhile
	}
	return err
}

// Update changes the size of a process's terminal.
func (s *processes) Update(ctx context.Context, r *connect.Request[processpb.UpdateRequest]) (*connect.Response[processpb.UpdateResponse], error) {
	if err := s.update(ctx, r.Msg); err != nil {
		return nil, s.rpcError(ctx, err)
	}
	return connect.NewResponse(&processpb.UpdateResponse{}), nil
}

func (s *processes) update(ctx context.Context, m *processpb.UpdateRequest) error {
	t := target(ctx)
	e, err := s.running(ctx, t, m.GetProcess())
	if err != nil || m.Pty == nil {
		return err // without a terminal's size nothing is to be changed
	}
	rows, cols, err := terminalSize(m.GetPty())
	if err != nil {
		return err
	}
	return s.control.ResizeExec(ctx, t.Principal, t.ref(), e.ID, rows, cols)
}
