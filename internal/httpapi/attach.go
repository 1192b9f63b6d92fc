package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// attachExec follows an exec over a WebSocket. It is over when the exec ends, the client goes or the server does; the
// process goes on in each case.
func (a execAPI) attachExec(w http.ResponseWriter, r *request) error {
	ref, id, err := r.exec()
	if err != nil {
		return err
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		if r.ProtoMajor > 1 {
			return core.Invalid("Upgrade", "attach is a WebSocket, which is spoken over HTTP/1.1 here: offer http/1.1 alone in ALPN, and send Upgrade: websocket")
		}
		return core.Invalid("Upgrade", "attach is a WebSocket: send Upgrade: websocket")
	}
	if err := checkOrigin(r.Request); err != nil {
		return err
	}
	ctx, cancel := a.streamContext(r)
	defer cancel()
	stream, err := a.control.AttachExec(ctx, r.principal, ref, id, r.number("from", 0))
	if err != nil {
		return err
	}
	// Before the connection is taken over: until then the http.Server waits for us.
	a.attached.Add(1)
	defer a.attached.Done()
	conn, err := websocket.Accept(w, r.Request, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		// Accept has answered.
		r.err = errors.Join(err, stream.Close())
		return nil
	}
	s := &socket{
		api: a.API, conn: conn, stream: stream, binary: r.query.Get("frames") == "binary", stall: a.options.Stall, tether: r.tether,
	}
	r.err = s.run(ctx)
	if cause := r.tether.Cause(); cause != nil {
		r.code = cause.Code
	}
	return nil
}

// maxInput bounds a frame from a client.
const maxInput = 1 << 20

// socket is one attached client.
type socket struct {
	api    *API
	conn   *websocket.Conn
	stream core.ExecStream
	// binary says that output goes in binary frames.
	binary bool
	// frame is room for the next.
	frame []byte
	stall time.Duration
	// tether ends it from outside.
	tether *httpserve.Tether
	// feeding says that the process is being slow to take input, during which the client's pongs aren't read.
	feeding atomic.Bool
}

// run serves the client until the end and waits for all that it began.
func (s *socket) run(ctx context.Context) error {
	s.conn.SetReadLimit(maxInput)
	// The library cuts the connection when the context of a read ends: that has to wait until the client was told why.
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	var input sync.WaitGroup
	input.Go(func() { cancel(s.receive(reading)) })
	err := s.api.follow(ctx, s.stream, func(m core.ExecMessage) error { return s.send(ctx, m) },
		func() error { return s.ping(ctx) })
	s.end(err)
	cancel(nil)
	stop()
	input.Wait()
	if cause := s.tether.Cause(); cause != nil {
		return cause
	}
	if refused, ok := errors.AsType[*refusal](err); ok || errors.Is(err, httpserve.ErrGone) || errors.Is(err, errClosing) {
		_ = refused // Neither is a fault of ours.
		return nil
	}
	return err
}

// refusal is a message from the client that can't be obeyed.
type refusal struct{ reason string }

// Error returns the reason, which is safe to show.
func (e *refusal) Error() string { return e.reason }

// end closes the connection with the status that says why.
func (s *socket) end(err error) {
	if cause := s.tether.Cause(); cause != nil {
		_ = s.conn.Close(websocket.StatusPolicyViolation, short(cause.Message))
		return
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		_ = s.conn.Close(websocket.StatusPolicyViolation, short(refused.reason))
		return
	}
	switch {
	case err == nil:
		_ = s.conn.Close(websocket.StatusNormalClosure, "ended")
	case errors.Is(err, errClosing):
		_ = s.conn.Close(websocket.StatusGoingAway, "the server is shutting down")
	case errors.Is(err, httpserve.ErrGone):
		_ = s.conn.CloseNow()
	default:
		_ = s.conn.Close(websocket.StatusInternalError, "the stream broke off")
	}
}

// short cuts a reason to what a close frame holds.
func short(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

// send writes one message within the stall time.
func (s *socket) send(ctx context.Context, m core.ExecMessage) error {
	kind, data, err := s.encode(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.stall)
	defer cancel()
	if err := s.conn.Write(ctx, kind, data); err != nil {
		return fmt.Errorf("%w: %w", httpserve.ErrGone, err)
	}
	return nil
}

// encode returns a message as the frame that the client asked for.
func (s *socket) encode(m core.ExecMessage) (websocket.MessageType, []byte, error) {
	if s.binary && isOutput(m) {
		s.frame = appendOutput(s.frame[:0], m)
		return websocket.MessageBinary, s.frame, nil
	}
	data, err := encodeJSON(encodeMessage(m))
	return websocket.MessageText, data, err
}

// ping asks the client for a sign of life. While the process is slow to take input the client's answer can't be read, so
// its silence means nothing.
func (s *socket) ping(ctx context.Context) error {
	s.frame = nil // an exec that is quiet keeps no room
	if s.feeding.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.stall)
	defer cancel()
	if err := s.conn.Ping(ctx); err != nil && !s.feeding.Load() {
		return fmt.Errorf("%w: %w", httpserve.ErrGone, err)
	}
	return nil
}

// receive obeys the client until it goes.
func (s *socket) receive(ctx context.Context) error {
	for {
		kind, data, err := s.conn.Read(ctx)
		if err != nil {
			if errors.Is(err, websocket.ErrMessageTooBig) {
				return &refusal{fmt.Sprintf("a frame has at most %d bytes", maxInput)}
			}
			return fmt.Errorf("%w: %w", httpserve.ErrGone, err)
		}
		s.feeding.Store(true)
		err = s.obey(kind, data)
		s.feeding.Store(false)
		if err != nil {
			return err
		}
	}
}

// obey carries out one message. What comes too late for a process that has ended is dropped: its end is on the way.
func (s *socket) obey(kind websocket.MessageType, data []byte) error {
	err := s.apply(kind, data)
	var e *core.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &e):
		return err
	}
	switch e.Code { //nolint:exhaustive // The others are refusals.
	case core.CodeConflict, core.CodeNotFound, core.CodeUnavailable, core.CodeCanceled:
		return nil
	}
	reason := e.Message
	if e.Field != "" {
		reason = e.Field + ": " + reason
	}
	return &refusal{reason}
}

func (s *socket) apply(kind websocket.MessageType, data []byte) error {
	if kind == websocket.MessageBinary {
		return s.stream.SendStdin(data)
	}
	var in api.ExecInput
	if err := decodeJSON(data, &in); err != nil {
		return err
	}
	if err := checkInput(data, in); err != nil {
		return err
	}
	switch in.Type {
	case api.ExecInputTypeStdin:
		return s.stream.SendStdin(api.Join(in.Data, in.DataRaw))
	case api.ExecInputTypeCloseStdin:
		return s.stream.CloseStdin()
	case api.ExecInputTypeSignal:
		name, err := signalName(in.Signal)
		if err != nil {
			return err
		}
		return s.stream.Signal(name)
	case api.ExecInputTypeResize:
		rows, cols, err := terminal(in.Rows, in.Cols)
		if err != nil {
			return err
		}
		return s.stream.Resize(rows, cols)
	}
	return core.Invalid("type", "unknown type %q", printable(string(in.Type)))
}

// checkInput refuses fields that the message's type doesn't use.
func checkInput(data []byte, in api.ExecInput) error {
	used := map[api.ExecInputType][]string{
		api.ExecInputTypeStdin: {"data", "data_raw"}, api.ExecInputTypeSignal: {"signal"},
		api.ExecInputTypeResize: {"rows", "cols"}, api.ExecInputTypeCloseStdin: nil,
	}
	allowed, known := used[in.Type]
	if !known {
		return core.Invalid("type", "unknown type %q", printable(string(in.Type)))
	}
	if in.Data != "" && len(in.DataRaw) > 0 {
		return core.Invalid("data_raw", "give either data or data_raw")
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(data, &given); err != nil {
		return core.Wrap(core.CodeInvalid, err, "the message is not well-formed")
	}
	delete(given, "type")
	for _, name := range allowed {
		delete(given, name)
	}
	for name := range given {
		return core.Invalid(name, "%s has no field %q", in.Type, name)
	}
	return nil
}
