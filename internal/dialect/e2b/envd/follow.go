package envd

import (
	"context"
	"errors"
	"time"

	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd/processpb"
	"shoal/internal/httpserve"
)

// What one event carries at most.
const (
	pipeChunk     = 32 << 10
	terminalChunk = 16 << 10
)

// view is one caller's view of a process.
type view struct {
	exec   core.Exec
	tty    bool
	stream core.ExecStream
	send   func(*processpb.ProcessEvent) error
	// beat is how long the stream may be silent.
	beat time.Duration
	// ended says that the caller has been told how the process ended.
	ended bool
}

// follow tells a caller that the process has started, then its output, and how it ended. It closes the view's stream.
func (h *handler) follow(ctx context.Context, v *view) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.closing, cancel)() //nolint:contextcheck // Two contexts end this call.
	if err := v.send(startEvent(v.exec)); err != nil {
		_ = v.stream.Close() // what could fail has no effect on the process
		return err
	}
	alive := &processpb.ProcessEvent{Event: &processpb.ProcessEvent_Keepalive{Keepalive: &processpb.ProcessEvent_KeepAlive{}}}
	err := httpserve.Follow(ctx, v.stream, v.beat, v.pass, func() error { return v.send(alive) })
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return leave(err)
	}
	if err == nil && !v.ended {
		err = core.Errorf(core.CodeUnavailable, "how the process ended is not known")
	}
	return err
}

// leave says why a call ends before its process: its own deadline has passed, or the caller has gone.
func leave(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return core.Wrap(core.CodeTimeout, err, "the call's deadline has passed; the process goes on")
	}
	return core.Wrap(core.CodeCanceled, err, "the call was canceled; the process goes on")
}

// pass tells the caller of one message.
func (v *view) pass(m core.ExecMessage) error {
	switch m.Kind {
	case core.ExecStarted:
		return nil // told already
	case core.ExecStdout, core.ExecStderr:
		return v.output(m.Kind, m.Data)
	case core.ExecGap:
		// The protocol has no word for it, and what is left out must not look as if it had never been.
		return core.Errorf(core.CodeDataLoss,
			"%d bytes of output were not read in time and are gone; the process goes on: connect to pid %d again", m.Missing, v.exec.PID)
	case core.ExecEnded:
		v.ended = true
		return v.end(*m.Exec)
	}
	return core.Errorf(core.CodeInternal, "a message of an unknown kind: %q", string(m.Kind))
}

// output sends output in pieces of the size that clients are used to.
func (v *view) output(kind core.ExecStreamKind, data []byte) error {
	most := pipeChunk
	if v.tty {
		most = terminalChunk
	}
	for len(data) > 0 {
		piece := data[:min(len(data), most)]
		data = data[len(piece):]
		var d processpb.ProcessEvent_DataEvent
		switch {
		case v.tty:
			d.Output = &processpb.ProcessEvent_DataEvent_Pty{Pty: piece}
		case kind == core.ExecStderr:
			d.Output = &processpb.ProcessEvent_DataEvent_Stderr{Stderr: piece}
		default:
			d.Output = &processpb.ProcessEvent_DataEvent_Stdout{Stdout: piece}
		}
		if err := v.send(&processpb.ProcessEvent{Event: &processpb.ProcessEvent_Data{Data: &d}}); err != nil {
			return err
		}
	}
	return nil
}

func startEvent(e core.Exec) *processpb.ProcessEvent {
	start := &processpb.ProcessEvent_StartEvent{Pid: uint32(max(e.PID, 0))}
	return &processpb.ProcessEvent{Event: &processpb.ProcessEvent_Start{Start: start}}
}
