package shoal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/coder/websocket"

	"shoal/api"
)

// Attach follows an exec over a WebSocket from an offset of its output: 0 for all that is kept, or the end of the last
// message received. Output that is no longer kept comes as gap. The stream lives until ctx ends or it is closed.
func (e Execs) Attach(ctx context.Context, id string, from int64) (ExecStream, error) {
	p, err := path("v1", "sandboxes", e.sandbox, "execs", id, "attach")
	if err != nil {
		return nil, err
	}
	target, err := e.c.url(call{path: p, query: url.Values{
		"from": {strconv.FormatInt(from, 10)}, "frames": {"binary"},
	}})
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	e.c.authorize(header)
	conn, resp, err := websocket.Dial(ctx, target, &websocket.DialOptions{HTTPClient: e.c.httpClient(), HTTPHeader: header}) //nolint:bodyclose // The library closes it or makes it a buffer.
	if err != nil {
		if resp != nil && resp.StatusCode >= http.StatusBadRequest {
			return nil, replyError(resp)
		}
		return nil, transportError(ctx, err)
	}
	conn.SetReadLimit(maxFrame)
	return &socketStream{ctx: ctx, conn: conn}, nil
}

// maxInput is how much input one message or call carries.
const maxInput = 512 << 10

// socketStream sends and receives over one WebSocket. It holds the context of the stream's whole life.
type socketStream struct {
	ctx   context.Context
	conn  *websocket.Conn
	ended bool
}

// Recv returns the next message.
func (s *socketStream) Recv() (ExecMessage, error) {
	if s.ended {
		return ExecMessage{}, io.EOF
	}
	kind, data, err := s.conn.Read(s.ctx)
	if err != nil {
		return ExecMessage{}, s.failure(err)
	}
	if kind == websocket.MessageBinary {
		return outputFrame(data)
	}
	var m ExecMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return ExecMessage{}, &Error{Code: CodeInternal, Message: "a message of the stream is not understood", Err: err}
	}
	if m.Type == api.ExecMessageTypeError {
		return ExecMessage{}, fromAPI(m.Error)
	}
	s.ended = m.Type == api.ExecMessageTypeEnded
	return m, nil
}

// failure explains why the connection ended.
func (s *socketStream) failure(err error) error {
	var closed websocket.CloseError
	if !errors.As(err, &closed) {
		return transportError(s.ctx, err)
	}
	if closed.Code == websocket.StatusPolicyViolation {
		return &Error{Code: CodeInvalid, Message: closed.Reason}
	}
	return &Error{Code: CodeUnavailable, Message: "the server ended the connection", Err: err}
}

// Write sends input.
func (s *socketStream) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		part := p[sent:min(len(p), sent+maxInput)]
		if err := s.conn.Write(s.ctx, websocket.MessageBinary, part); err != nil {
			return sent, s.failure(err)
		}
		sent += len(part)
	}
	return len(p), nil
}

// CloseStdin ends the input.
func (s *socketStream) CloseStdin() error {
	return s.send(api.ExecInput{Type: api.ExecInputTypeCloseStdin})
}

// Signal sends a signal.
func (s *socketStream) Signal(name string) error {
	return s.send(api.ExecInput{Type: api.ExecInputTypeSignal, Signal: name})
}

// Resize sets the terminal's size.
func (s *socketStream) Resize(rows, cols int) error {
	return s.send(api.ExecInput{Type: api.ExecInputTypeResize, Rows: rows, Cols: cols})
}

func (s *socketStream) send(in api.ExecInput) error {
	data, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode input: %w", err)
	}
	if err := s.conn.Write(s.ctx, websocket.MessageText, data); err != nil {
		return s.failure(err)
	}
	return nil
}

// Close stops following.
func (s *socketStream) Close() error {
	_ = s.conn.CloseNow() // Nothing more is to be said to a server that goes on without us.
	return nil
}
