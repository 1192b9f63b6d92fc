package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// stream follows one exec. Recv is for one goroutine; the other methods are safe beside it.
type stream struct {
	c      *Client
	id     core.ExecID
	ctx    context.Context
	cancel context.CancelFunc

	// The following belong to Recv.
	pos   int64
	queue []core.ExecMessage
	last  core.Exec
	ended bool
	// stale counts resumes since the last byte of progress.
	stale int

	// sent, fault and reused tell how an attempt to open failed: whether the request may have arrived, whether the agent
	// itself answered, and whether the connection was an old one.
	sent, fault, reused bool

	mu      sync.Mutex
	k       *conn
	release func()
}

// maxStale bounds how often a stream is resumed without progress: an agent that breaks it off each time is as good
// as lost.
const maxStale = 5

// open begins an operation that answers with an exec stream and waits for its first frame. The stream is returned
// also with an error, to tell how far it came.
func (c *Client) open(ctx context.Context, id core.ExecID, op wire.Op, args any) (*stream, error) {
	s := &stream{c: c, id: id}
	s.ctx, s.cancel = context.WithCancel(ctx)
	first, cancel := deadline(s.ctx, c)
	defer cancel()
	if err := s.connect(first, op, args, c.take); err != nil { //nolint:contextcheck // The stream outlives its first answer.
		s.cancel()
		return s, err
	}
	e := s.last
	s.queue = []core.ExecMessage{{Kind: core.ExecStarted, Exec: &e}}
	return s, nil
}

// unanswered reports whether an attempt to open failed in a way in which the request may or may not have arrived.
func (s *stream) unanswered(ctx context.Context, err error) bool {
	return s.sent && !s.fault && core.IsCode(err, core.CodeUnavailable) && ctx.Err() == nil && s.c.ctx.Err() == nil
}

// orNil keeps a failed stream from becoming a non-nil interface.
func (s *stream) orNil(err error) (core.ExecStream, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// connect sends the request on a connection and waits for the started frame.
func (s *stream) connect(ctx context.Context, op wire.Op, args any, get func(context.Context) (*conn, error)) error {
	request, err := frames(op, args)
	if err != nil {
		return err
	}
	k, err := get(ctx)
	if err != nil {
		return err
	}
	s.sent, s.reused = true, k.reused
	release := s.c.bind(ctx, k)
	payload, fault, err := s.greet(ctx, k, request)
	release()
	switch {
	case fault != nil:
		s.fault = true
		s.c.give(k)
		return fault
	case err == nil && k.spoiled:
		err = context.Cause(ctx)
		fallthrough
	case err != nil:
		k.close()
		return s.c.broken(ctx, err)
	}
	var info wire.ExecInfo
	if err = wire.DecodeReply(payload, &info); err == nil {
		s.last, err = execOf(info, s.id)
	}
	if err != nil {
		k.close()
		return unreachable(ctx, err)
	}
	s.adopt(k)
	return nil
}

func (s *stream) greet(ctx context.Context, k *conn, request []byte) ([]byte, *core.Error, error) {
	if err := k.w.Write(wire.FrameRequest, request); err != nil {
		return nil, nil, err
	}
	return s.c.expect(ctx, k, wire.FrameStarted)
}

// adopt makes k the stream's connection.
func (s *stream) adopt(k *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.k = k
	s.release = s.c.bind(s.ctx, k)
}

// drop gives the connection up, or keeps it for the next operation if it ended cleanly.
func (s *stream) drop(clean bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.k
	if k == nil {
		return
	}
	s.k = nil
	s.release()
	if clean {
		s.c.give(k)
	} else {
		k.close()
	}
}

// Recv returns the next message; see core.ExecStream. An error other than io.EOF is the caller's own doing: its
// context or the client ended, or the stream was closed.
func (s *stream) Recv() (core.ExecMessage, error) {
	for {
		if len(s.queue) > 0 {
			m := s.queue[0]
			s.queue = s.queue[1:]
			return m, nil
		}
		if s.ended {
			return core.ExecMessage{}, io.EOF
		}
		m, err := s.read()
		if err == nil {
			return m, nil
		}
		s.drop(false)
		if e := s.over(); e != nil {
			return core.ExecMessage{}, e
		}
		s.c.cfg.Logger.Debug("exec stream broke off", slog.Any("exec_id", s.id), slog.Int64("offset", s.pos), slog.Any("err", err))
		if m, err := s.resume(); err != nil || m.Kind != "" {
			return m, err
		}
	}
}

// over says whether the caller or the client has ended the stream.
func (s *stream) over() error {
	if e := contextError(s.ctx); e != nil {
		return e
	}
	if s.c.ctx.Err() != nil {
		return errClosed()
	}
	return nil
}

func (s *stream) read() (core.ExecMessage, error) {
	s.mu.Lock()
	k := s.k
	s.mu.Unlock()
	if k == nil {
		return core.ExecMessage{}, errors.New("the stream has no connection")
	}
	f, err := s.c.next(s.ctx, k)
	if err != nil {
		return core.ExecMessage{}, err
	}
	m, err := s.parse(f)
	if err != nil {
		return core.ExecMessage{}, err
	}
	s.stale = 0
	if m.Kind == core.ExecEnded {
		s.ended = true
		s.drop(true)
		s.cancel()
	}
	return m, nil
}

// parse reads one frame of the stream. Offsets have to fit without a hole or a repetition.
func (s *stream) parse(f wire.Frame) (core.ExecMessage, error) {
	switch f.Type {
	case wire.FrameStdout, wire.FrameStderr:
		offset, data, err := wire.ParseOutput(f.Payload)
		if err != nil {
			return core.ExecMessage{}, err
		}
		if offset != s.pos || len(data) == 0 {
			return core.ExecMessage{}, fmt.Errorf("%w: output at %d, expected %d", wire.ErrMalformed, offset, s.pos)
		}
		s.pos += int64(len(data))
		kind := core.ExecStdout
		if f.Type == wire.FrameStderr {
			kind = core.ExecStderr
		}
		return core.ExecMessage{Kind: kind, Offset: offset, Data: append([]byte(nil), data...)}, nil
	case wire.FrameGap:
		offset, missing, err := wire.ParseGap(f.Payload)
		if err != nil {
			return core.ExecMessage{}, err
		}
		if offset != s.pos {
			return core.ExecMessage{}, fmt.Errorf("%w: gap at %d, expected %d", wire.ErrMalformed, offset, s.pos)
		}
		s.pos += missing
		return core.ExecMessage{Kind: core.ExecGap, Offset: offset, Missing: missing}, nil
	case wire.FrameEnded:
		var info wire.ExecInfo
		if err := wire.DecodeReply(f.Payload, &info); err != nil {
			return core.ExecMessage{}, err
		}
		e, err := execOf(info, s.id)
		if err != nil {
			return core.ExecMessage{}, err
		}
		if e.Outcome == core.OutcomeRunning {
			return core.ExecMessage{}, fmt.Errorf("%w: an end without an outcome", wire.ErrMalformed)
		}
		return core.ExecMessage{Kind: core.ExecEnded, Offset: s.pos, Exec: &e}, nil
	case wire.FrameRequest, wire.FrameReply, wire.FrameError, wire.FrameData, wire.FrameEnd, wire.FrameStarted,
		wire.FrameHeartbeat, wire.FrameChanges:
	}
	return core.ExecMessage{}, fmt.Errorf("%w: type %d in an exec stream", wire.ErrMalformed, f.Type)
}

// SendStdin appends to the process's input and returns when its pipe has taken it.
func (s *stream) SendStdin(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return s.c.WriteStdin(s.ctx, s.id, data, false)
}

// CloseStdin ends the process's input.
func (s *stream) CloseStdin() error { return s.c.WriteStdin(s.ctx, s.id, nil, true) }

// Signal sends a signal to the whole group.
func (s *stream) Signal(name string) error { return s.c.Signal(s.ctx, s.id, name) }

// Resize changes the terminal's size.
func (s *stream) Resize(rows, cols uint16) error { return s.c.Resize(s.ctx, s.id, rows, cols) }

// Close stops following. The process goes on.
func (s *stream) Close() error {
	s.cancel()
	s.drop(false)
	return nil
}
