package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"shoal/api"
	"shoal/internal/core"
)

const ndjson = "application/x-ndjson"

// accepts reports whether a request asks for a media type by name.
func accepts(r *http.Request, kind string) bool {
	if r.Method == http.MethodHead {
		return false // There is no body, so nothing that could go on.
	}
	for _, value := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(value, ",") {
			name, params, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), kind) && strings.ReplaceAll(params, " ", "") != "q=0" {
				return true
			}
		}
	}
	return false
}

// streamContext returns a context that ends with the request or when the server shuts down.
func (a *API) streamContext(r *request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(a.closing, func() { cancel(errClosing) })
	return ctx, func() { stop(); cancel(nil) }
}

// errClosing ends streams: their clients come back to the next server.
var errClosing = core.Errorf(core.CodeUnavailable, "the server is shutting down; what was started goes on")

// follow hands the messages of an exec to send and calls idle whenever there has been none for the keepalive time. It
// returns nil after the last message. When it returns, the stream is closed and nothing reads from it.
func (a *API) follow(
	ctx context.Context, stream core.ExecStream, send func(core.ExecMessage) error, idle func() error,
) error {
	type received struct {
		message core.ExecMessage
		err     error
	}
	messages := make(chan received)
	done := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			m, err := stream.Recv()
			select {
			case messages <- received{m, err}:
			case <-done:
				return
			}
			if err != nil {
				return
			}
		}
	})
	defer reader.Wait()
	defer func() { _ = stream.Close() }() // Closing only stops following; the process goes on either way.
	defer close(done)

	silent := time.NewTimer(a.options.Keepalive)
	defer silent.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case m := <-messages:
			if errors.Is(m.err, io.EOF) {
				return nil
			}
			if m.err != nil {
				return m.err
			}
			err = send(m.message)
		case <-silent.C:
			err = idle()
		}
		if err != nil {
			return err
		}
		silent.Reset(a.options.Keepalive)
	}
}

// lineWriter sends one JSON object a line, each within the stall time.
type lineWriter struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	stall time.Duration
}

// lines begins an NDJSON reply.
func (a *API) lines(w http.ResponseWriter) *lineWriter {
	w.Header().Set("Content-Type", ndjson)
	// Proxies that gather a reply before they pass it on would silence a stream.
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return &lineWriter{w: w, rc: http.NewResponseController(w), stall: a.options.Stall}
}

// send writes and flushes one line.
func (l *lineWriter) send(v any) error {
	line, err := encodeJSON(v)
	if err != nil {
		return err
	}
	if err := extend(l.rc.SetWriteDeadline, l.stall); err != nil {
		return err
	}
	if _, err := l.w.Write(line); err != nil {
		return errWrite(err)
	}
	if err := l.rc.Flush(); err != nil {
		return errWrite(err)
	}
	return nil
}

// streamExec answers with the exec's messages, from started to ended.
func (a execAPI) streamExec(w http.ResponseWriter, r *request, ref string, spec core.ExecSpec, input []byte) error {
	ctx, cancel := a.streamContext(r)
	defer cancel()
	exec, stream, err := a.control.Exec(ctx, r.principal, ref, spec)
	if err != nil {
		return err
	}
	out := a.lines(w)
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
		return out.send(encodeMessage(m))
	}, func() error {
		return out.send(api.ExecMessage{Type: api.ExecMessageTypeKeepalive})
	})
	return a.endLines(r, out, err, func(e api.Error) any {
		return api.ExecMessage{Type: api.ExecMessageTypeError, Error: e}
	})
}

// endLines ends an NDJSON reply; an error becomes its last line, unless there is nobody to tell.
func (a *API) endLines(r *request, out *lineWriter, err error, encode func(api.Error) any) error {
	if err == nil || r.Context().Err() != nil || errors.Is(err, errGone) {
		return err
	}
	return out.send(encode(a.abort(r, err)))
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
