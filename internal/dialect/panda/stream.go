package panda

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/httpserve"
)

// streamExec answers with a command's output as it comes, as events of text/event-stream. The last event is exit or error, whatever
// happens: a client takes a stream without one for an exit code of 0. The command goes on if the client goes away.
func (a *adapter) streamExec(w http.ResponseWriter, r *request) error {
	spec, err := execSpec(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(a.cfg.Closing, func() { cancel(errClosing) })
	defer stop()
	stream, err := withoutHome(spec, func(spec core.ExecSpec) (core.ExecStream, error) {
		_, stream, err := a.cfg.Control.Exec(ctx, r.Principal, r.sandbox(), spec)
		return stream, err
	})
	if err != nil {
		return renamed(err)
	}
	e := newEvents(w)
	if err := e.begin(); err != nil {
		return errors.Join(err, stream.Close())
	}
	ended := false
	err = httpserve.Follow(ctx, stream, a.keepalive, func(m core.ExecMessage) error {
		ended = ended || m.Kind == core.ExecEnded
		return e.message(m)
	}, e.ping)
	switch {
	case !r.Ended() && (errors.Is(err, httpserve.ErrGone) || r.Context().Err() != nil):
		return err // there is nobody to tell
	case err == nil && !ended:
		err = core.Errorf(core.CodeUnavailable, "lost: the output ended before the command's end was known; it may still be running")
	}
	if err != nil {
		return e.failed(harmless(r.Failed(dialect.AtTheEnd(a.cfg.Closing.Err() != nil, err)).Message, true))
	}
	return nil
}

// errClosing ends streams when the server does.
var errClosing = core.Errorf(core.CodeUnavailable, "the server is shutting down; the command goes on, and its end can't be learned by this call any more")

// events writes a text/event-stream. Lines end with LF only: the SDK for JavaScript looks for an empty line of that kind.
type events struct {
	w              http.ResponseWriter
	rc             *http.ResponseController
	stdout, stderr decoder
	buf            []byte
}

func newEvents(w http.ResponseWriter) *events {
	return &events{w: w, rc: http.NewResponseController(w)}
}

// begin sends the head of the reply, so that the client knows that the command runs.
func (e *events) begin() error {
	e.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	// Proxies that gather a reply before they pass it on would silence a stream.
	e.w.Header().Set("X-Accel-Buffering", "no")
	e.w.WriteHeader(http.StatusOK)
	return e.flush()
}

// message sends one message of the exec.
func (e *events) message(m core.ExecMessage) error {
	switch m.Kind {
	case core.ExecStdout:
		return e.chunk("stdout", e.stdout.next(m.Data))
	case core.ExecStderr:
		return e.chunk("stderr", e.stderr.next(m.Data))
	case core.ExecGap:
		return core.Errorf(core.CodeDataLoss, "lost: %d bytes of output are missing; the command goes on", m.Missing)
	case core.ExecEnded:
		return e.end(m.Exec)
	case core.ExecStarted:
	}
	return nil
}

// chunk sends a piece of output, unless there is nothing to show yet. What was gathered can be long, and its JSON six times as long: it
// goes out in events of a bounded size, so that a client that is slow doesn't make the server keep more.
func (e *events) chunk(name string, text []byte) error {
	for len(text) > 0 {
		n := wholePiece(text)
		e.buf = append(append(append(e.buf[:0], "event: "...), name...), "\ndata: {\"chunk\":\""...)
		e.buf = append(appendText(e.buf, text[:n]), "\"}\n\n"...)
		if err := e.put(e.buf); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// end sends what is held back of the output, then the outcome.
func (e *events) end(exec *core.Exec) error {
	if err := e.chunk("stdout", e.stdout.rest()); err != nil {
		return err
	}
	if err := e.chunk("stderr", e.stderr.rest()); err != nil {
		return err
	}
	if exec == nil {
		exec = &core.Exec{Outcome: core.OutcomeLost}
	}
	code, problem := exitOf(*exec)
	if p, ok := errors.AsType[*core.Error](problem); ok {
		return e.failed(p.Message)
	}
	line := `event: exit` + "\n" + `data: {"exit_code":` + strconv.Itoa(code)
	if exec.Signal != "" {
		line += `,"signal":"` + string(appendText(nil, []byte(exec.Signal))) + `"`
	}
	if exec.OutOfMemory {
		line += `,"out_of_memory":true`
	}
	return e.put([]byte(line + "}\n\n"))
}

// failed sends an end that has no exit code. The SDKs raise SandboxTimeout if the text speaks of a timeout.
func (e *events) failed(message string) error {
	line := append([]byte("event: error\ndata: {\"error\":\""), appendText(nil, []byte(message))...)
	return e.put(append(line, "\"}\n\n"...))
}

// ping says that the stream lives.
func (e *events) ping() error {
	e.buf = nil // a command that is quiet keeps no room
	return e.put([]byte(": ping\n\n"))
}

// put sends what is complete, within the stall time.
func (e *events) put(data []byte) error {
	if err := httpserve.Extend(e.rc.SetWriteDeadline, stall); err != nil {
		return err
	}
	if _, err := e.w.Write(data); err != nil {
		return httpserve.Gone(err)
	}
	return e.flush()
}

func (e *events) flush() error {
	if err := e.rc.Flush(); err != nil {
		return httpserve.Gone(err)
	}
	return nil
}
