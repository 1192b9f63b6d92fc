package httpapi

import (
	"net/http"
	"sync"

	"shoal/api"
	"shoal/internal/core"
)

// execReply is a streamed reply to the start of an exec, as lines or as frames.
type execReply struct {
	*lineWriter
	framed bool
	// frame is room for the next.
	frame []byte
}

// message sends one message of the exec.
func (e *execReply) message(m core.ExecMessage) error {
	if e.framed && isOutput(m) {
		e.frame = appendOutput(lengthRoom(e.frame), m)
		return e.put(withLength(e.frame))
	}
	return e.send(encodeMessage(m))
}

// send sends a message that is not output.
func (e *execReply) send(m api.ExecMessage) error {
	if !e.framed {
		return e.lineWriter.send(m)
	}
	data, err := encodeJSON(m)
	if err != nil {
		return err
	}
	e.frame = nil // an exec that is quiet keeps no room
	return e.put(withLength(append(append(lengthRoom(nil), frameMessage), data...)))
}

// streamExec answers with the exec's messages, from started to ended.
func (a execAPI) streamExec(w http.ResponseWriter, r *request, ref string, spec core.ExecSpec, input []byte) error {
	ctx, cancel := a.streamContext(r)
	defer cancel()
	if spec.Once != nil {
		spec.Once.Input = len(input) > 0
	}
	exec, stream, err := a.control.Exec(ctx, r.principal, ref, spec)
	if err != nil {
		return err
	}
	if tellRepeated(w, spec.Once) {
		input = nil // the process has had it
	}
	out := &execReply{framed: accepts(r.Request, frames)}
	if out.framed {
		out.lineWriter = a.stream(w, frames)
	} else {
		out.lineWriter = a.lines(w)
	}
	var feeder sync.WaitGroup
	if len(input) > 0 {
		// Beside the output, so that a process that writes before it reads is not stuck. What the process doesn't read
		// before it ends is not wanted, so the error says nothing that the end doesn't.
		feeder.Go(func() {
			if stream.SendStdin(input) == nil {
				_ = stream.CloseStdin()
			}
		})
	}
	defer feeder.Wait() // follow has closed the stream by then.
	started := encodeExec(exec)
	first := out.send(api.ExecMessage{Type: api.ExecMessageTypeStarted, Exec: started})
	err = a.follow(ctx, stream, func(m core.ExecMessage) error {
		if first != nil || m.Kind == core.ExecStarted {
			return first
		}
		return out.message(m)
	}, func() error {
		return out.send(api.ExecMessage{Type: api.ExecMessageTypeKeepalive})
	})
	return a.endStream(r, err, func(e api.Error) error {
		return out.send(api.ExecMessage{Type: api.ExecMessageTypeError, Error: e})
	})
}

// encodeMessage turns a message into the API's form.
func encodeMessage(m core.ExecMessage) api.ExecMessage {
	out := api.ExecMessage{Type: api.ExecMessageType(m.Kind), Missing: m.Missing}
	switch m.Kind {
	case core.ExecStdout, core.ExecStderr, core.ExecGap:
		out.Offset = &m.Offset
		out.Data, out.DataRaw = api.Text(m.Data)
	case core.ExecStarted, core.ExecEnded:
		if m.Exec != nil {
			out.Exec = encodeExec(*m.Exec)
		}
	}
	return out
}
