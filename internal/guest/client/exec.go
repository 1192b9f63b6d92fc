package client

import (
	"context"
	"fmt"
	"regexp"
	"sync"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

const (
	// maxExecs bounds what ListExecs takes from a guest; an agent remembers fewer.
	maxExecs = 20_000
	listPage = 1000
	// stdinChunk is how much input goes into one call.
	stdinChunk = 512 << 10
)

// Exec starts a process and follows it from its first byte. ctx bounds the stream, not the process: when it ends Recv
// fails and the process goes on.
//
// A program that can't be started is an error and no outcome: invalid with field "cmd" if there is no such program (a
// shell would say 127), denied with field "cmd" if it may not or can't be executed (126). The start is safe to repeat:
// if the connection breaks before the agent has answered, the same id is asked for again.
func (c *Client) Exec(ctx context.Context, id core.ExecID, spec core.ExecSpec) (core.ExecStream, error) {
	if (len(spec.Cmd) > 0) == (spec.Shell != "") {
		return nil, core.Invalid("cmd", "give either cmd or shell")
	}
	req := wire.ExecRequest{
		ID: string(id), Shell: wire.Bytes(spec.Shell), Cwd: wire.Bytes(spec.Cwd), Env: spec.Env, User: spec.User,
		Stdin: spec.Stdin, TimeoutMS: spec.Timeout.Milliseconds(), Detach: spec.Detach,
		TTY: spec.TTY, Rows: spec.Rows, Cols: spec.Cols,
	}
	if spec.Timeout > 0 && req.TimeoutMS == 0 {
		req.TimeoutMS = 1
	}
	for _, arg := range spec.Cmd {
		req.Cmd = append(req.Cmd, wire.Bytes(arg))
	}
	for again := false; ; again = true {
		s, err := c.open(ctx, id, wire.OpExec, req)
		if again && core.IsCode(err, core.CodeExists) {
			// The first request had arrived.
			s, err = c.open(ctx, id, wire.OpAttach, wire.AttachRequest{ID: string(id)})
		}
		if err == nil || !s.unanswered(ctx, err) || again && !s.reused {
			return s.orNil(err)
		}
	}
}

// Attach follows an exec's output from an offset. An offset after the end of an ended exec's output is invalid.
func (c *Client) Attach(ctx context.Context, id core.ExecID, from int64) (core.ExecStream, error) {
	if from < 0 {
		return nil, core.Invalid("from", "an offset is not negative")
	}
	for {
		s, err := c.open(ctx, id, wire.OpAttach, wire.AttachRequest{ID: string(id), From: from})
		if err == nil {
			s.pos = from
			s.queue = nil
		} else if s.unanswered(ctx, err) && s.reused {
			continue
		}
		return s.orNil(err)
	}
}

// GetExec returns what the agent knows of an exec. Its Spec is empty: the agent does not repeat it.
func (c *Client) GetExec(ctx context.Context, id core.ExecID) (core.Exec, error) {
	var info wire.ExecInfo
	if err := c.do(ctx, call{op: wire.OpGet, args: wire.ExecRef{ID: string(id)}, reply: &info, again: true}); err != nil {
		return core.Exec{}, err
	}
	return knownExec(ctx, info, id)
}

// ListExecs returns the execs that the agent remembers, in the order in which they started.
func (c *Client) ListExecs(ctx context.Context) ([]core.Exec, error) {
	var list []core.Exec
	after := ""
	for {
		var page wire.ListReply
		req := wire.ListRequest{After: after, Limit: listPage}
		if err := c.do(ctx, call{op: wire.OpList, args: req, reply: &page, again: true}); err != nil {
			return nil, err
		}
		for _, info := range page.Execs {
			e, err := knownExec(ctx, info, core.ExecID(info.ID))
			if err != nil {
				return nil, err
			}
			list = append(list, e)
			after = info.ID
		}
		if !page.More {
			return list, nil
		}
		if len(page.Execs) == 0 || len(list) > maxExecs {
			return nil, unreachable(ctx, fmt.Errorf("%w: an endless list of execs", wire.ErrMalformed))
		}
	}
}

// Signal sends a signal to an exec's whole group.
func (c *Client) Signal(ctx context.Context, id core.ExecID, signal string) error {
	return c.do(ctx, call{op: wire.OpSignal, args: wire.SignalRequest{ID: string(id), Signal: signal}, reply: &wire.Empty{}})
}

// Cancel kills an exec's whole group and waits until its outcome is known.
func (c *Client) Cancel(ctx context.Context, id core.ExecID) error {
	return c.do(ctx, call{op: wire.OpCancel, args: wire.ExecRef{ID: string(id)}, reply: &wire.Empty{}, again: true})
}

// Resize changes the size of an exec's terminal.
func (c *Client) Resize(ctx context.Context, id core.ExecID, rows, cols uint16) error {
	req := wire.ResizeRequest{ID: string(id), Rows: rows, Cols: cols}
	return c.do(ctx, call{op: wire.OpResize, args: req, reply: &wire.Empty{}, again: true})
}

// WriteStdin appends to an exec's input and returns when the process's pipe has taken it. It waits for a process that
// does not read, until ctx ends; how much was taken is not known then.
func (c *Client) WriteStdin(ctx context.Context, id core.ExecID, data []byte, end bool) error {
	for {
		n := min(len(data), stdinChunk)
		last := n == len(data)
		req := wire.StdinRequest{ID: string(id), End: end && last}
		if err := c.do(ctx, call{op: wire.OpStdin, args: req, reply: &wire.Empty{}, data: data[:n]}); err != nil {
			return err
		}
		if last {
			return nil
		}
		data = data[n:]
	}
}

// Acknowledge lets the agent forget ended execs when it needs the room.
func (c *Client) Acknowledge(ctx context.Context, ids []core.ExecID) error {
	for len(ids) > 0 {
		n := min(len(ids), listPage)
		req := wire.AckRequest{}
		for _, id := range ids[:n] {
			req.IDs = append(req.IDs, string(id))
		}
		if err := c.do(ctx, call{op: wire.OpAck, args: req, reply: &wire.Empty{}, again: true}); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

func knownExec(ctx context.Context, info wire.ExecInfo, id core.ExecID) (core.Exec, error) {
	e, err := execOf(info, id)
	if err != nil {
		return core.Exec{}, unreachable(ctx, err)
	}
	return e, nil
}

var (
	execIDPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9-]{1,64}$`) })
	signalPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^SIG[A-Z0-9+]{1,12}$`) })
)

// execOf checks what a guest says of an exec: no figure that can't be, and no outcome without its evidence.
func execOf(info wire.ExecInfo, id core.ExecID) (core.Exec, error) {
	bad := func(what string) (core.Exec, error) {
		return core.Exec{}, fmt.Errorf("%w: an exec with %s", wire.ErrMalformed, what)
	}
	if info.ID != string(id) || !execIDPattern().MatchString(info.ID) {
		return bad("another id")
	}
	if info.PID < 0 || info.Processes < 0 || info.OutputFrom < 0 || info.OutputFrom > info.OutputBytes {
		return bad("impossible figures")
	}
	e := core.Exec{
		ID: id, PID: info.PID, Outcome: core.Outcome(info.Outcome), StartedAt: info.StartedAt.UTC(),
		OutputBytes: info.OutputBytes, OutputFrom: info.OutputFrom, Processes: info.Processes,
		OutOfMemory: info.OutOfMemory,
	}
	if s := info.Shortage; s != nil {
		if s.Used < 0 || s.Held < 0 || s.Limit < 0 {
			return bad("impossible memory")
		}
		e.Shortage = core.Shortage{UsedBytes: s.Used, HeldBytes: s.Held, LimitBytes: s.Limit}
	}
	if e.Outcome != core.OutcomeRunning {
		e.EndedAt = info.EndedAt.UTC()
	}
	switch e.Outcome {
	case core.OutcomeExited:
		if info.ExitCode == nil || *info.ExitCode < 0 || *info.ExitCode > 255 {
			return bad("no exit code")
		}
		e.ExitCode = info.ExitCode
	case core.OutcomeSignaled:
		if !signalPattern().MatchString(info.Signal) {
			return bad("no signal")
		}
		e.Signal = info.Signal
	case core.OutcomeRunning, core.OutcomeTimeout, core.OutcomeCanceled, core.OutcomeLost:
	default:
		return bad("an unknown outcome")
	}
	return e, nil
}
