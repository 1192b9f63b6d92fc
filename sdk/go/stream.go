package shoal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"shoal/api"
)

// ExecStream follows one exec and gives it input. One goroutine may receive while another sends.
type ExecStream interface {
	// Recv returns the next message: started, stdout, stderr, gap, or ended, after which it returns io.EOF. A stream that
	// breaks off gives an *Error with code unavailable; the process goes on, and Attach follows it again.
	Recv() (ExecMessage, error)
	// Write gives the process input, if it was started with StdinOpen.
	Write(p []byte) (int, error)
	// CloseStdin ends the input.
	CloseStdin() error
	// Signal sends a signal, such as "SIGINT", to the exec's whole process group.
	Signal(name string) error
	// Resize sets the size of its terminal.
	Resize(rows, cols int) error
	// Close stops following. The process goes on.
	Close() error
}

// silence is how long a stream may be silent before it is taken for dead: the server sends a keepalive every 15 s.
const silence = 60 * time.Second

// Stream starts a process and follows it from its first byte. The server holds the process back while the caller is slow
// to receive, so nothing is lost. The stream lives until ctx ends or it is closed; the process goes on.
func (e Execs) Stream(ctx context.Context, req ExecRequest) (ExecStream, error) {
	req.Detach = false
	p, err := path("v1", "sandboxes", e.sandbox, "execs")
	if err != nil {
		return nil, err
	}
	// A server that doesn't know frames answers with lines.
	lines, err := e.c.lines(ctx, call{
		method: http.MethodPost, path: p, in: req, once: true, key: e.key, header: http.Header{"Accept": {framesType + ", " + linesType + ";q=0.5"}},
	})
	if err != nil {
		return nil, err
	}
	s := &httpStream{execs: e, lines: lines}
	first, err := s.next()
	if err == nil && first.Type != api.ExecMessageTypeStarted {
		err = &Error{Code: CodeInternal, Message: fmt.Sprintf("the stream begins with %q", first.Type)}
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	s.id, s.first = first.Exec.ID, &first
	return s, nil
}

// httpStream receives over one reply of frames or lines and sends by calls of its own.
type httpStream struct {
	execs Execs
	lines *lineReader
	id    string
	first *ExecMessage
	ended bool
}

// Recv returns the next message.
func (s *httpStream) Recv() (ExecMessage, error) {
	if first := s.first; first != nil {
		s.first = nil
		return *first, nil
	}
	return s.next()
}

func (s *httpStream) next() (ExecMessage, error) {
	if s.ended {
		return ExecMessage{}, io.EOF
	}
	for {
		var m ExecMessage
		if err := s.lines.message(&m); err != nil {
			return ExecMessage{}, err
		}
		switch m.Type {
		case api.ExecMessageTypeKeepalive:
			continue
		case api.ExecMessageTypeError:
			return ExecMessage{}, fromAPI(m.Error)
		case api.ExecMessageTypeEnded:
			s.ended = true
		case api.ExecMessageTypeStarted, api.ExecMessageTypeStdout, api.ExecMessageTypeStderr, api.ExecMessageTypeGap:
		}
		return m, nil
	}
}

// Write sends input.
func (s *httpStream) Write(p []byte) (int, error) {
	if err := s.execs.WriteStdin(s.lines.ctx, s.id, p, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// CloseStdin ends the input.
func (s *httpStream) CloseStdin() error { return s.execs.WriteStdin(s.lines.ctx, s.id, nil, true) }

// Signal sends a signal.
func (s *httpStream) Signal(name string) error { return s.execs.Signal(s.lines.ctx, s.id, name) }

// Resize sets the terminal's size.
func (s *httpStream) Resize(rows, cols int) error {
	return s.execs.Resize(s.lines.ctx, s.id, rows, cols)
}

// Close stops following.
func (s *httpStream) Close() error { return s.lines.close() }

// linesType is the media type of a reply of JSON objects, one a line.
const linesType = "application/x-ndjson"

// lineReader reads a reply of lines or frames and ends it when it has been silent for too long. It holds the context of the stream's
// whole life, which is what its reads and the calls beside it are bound to.
type lineReader struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	body   io.ReadCloser
	buf    *bufio.Reader
	timer  *time.Timer
	// framed says that the reply is frames.
	framed bool
}

// lines makes a call that is answered with lines, or with what its header accepts.
func (c *Client) lines(ctx context.Context, cl call) (*lineReader, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	if cl.header == nil {
		cl.header = http.Header{"Accept": {linesType}}
	}
	resp, err := c.send(ctx, cl) //nolint:bodyclose // lineReader.close closes it.
	if err != nil {
		cancel(nil)
		return nil, err
	}
	dead := &Error{Code: CodeUnavailable, Message: fmt.Sprintf("the stream was silent for %v", silence)}
	return &lineReader{
		ctx: ctx, cancel: cancel, body: resp.Body, buf: bufio.NewReaderSize(resp.Body, 64<<10),
		timer: time.AfterFunc(silence, func() { cancel(dead) }), framed: resp.Header.Get("Content-Type") == framesType,
	}, nil
}

// message reads the next message of an exec, in whichever form it comes.
func (l *lineReader) message(out *ExecMessage) error {
	if !l.framed {
		return l.next(out)
	}
	l.timer.Reset(silence)
	m, err := readFrame(l.buf)
	l.timer.Stop() // as in next
	if err != nil {
		return l.failure(err)
	}
	*out = m
	return nil
}

// next decodes the next line.
func (l *lineReader) next(out any) error {
	l.timer.Reset(silence)
	line, err := l.buf.ReadBytes('\n')
	// The time that the caller takes over a message is not the server's silence.
	l.timer.Stop()
	if err != nil {
		return l.failure(err)
	}
	if err := json.Unmarshal(bytes.TrimSpace(line), out); err != nil {
		return &Error{Code: CodeInternal, Message: "a line of the stream is not understood", Err: err}
	}
	return nil
}

// failure explains an error of a read. A reply that ends between two messages was cut off too.
func (l *lineReader) failure(err error) error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return transportError(l.ctx, err)
}

func (l *lineReader) close() error {
	l.timer.Stop()
	l.cancel(context.Canceled)
	return l.body.Close()
}
