package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// session is one connection: it carries one operation after the other.
type session struct {
	srv *Server
	nc  net.Conn
	w   *wire.Writer
	// in delivers the peer's frames but heartbeats. It is closed when the connection is of no more use.
	in chan wire.Frame
	// ctx ends when the peer goes away, so that an operation that waits hears of it.
	ctx context.Context
}

// serve runs a connection until it ends.
func (s *Server) serve(ctx context.Context, nc net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)() //nolint:contextcheck // Two contexts end this call.
	defer context.AfterFunc(ctx, func() { _ = nc.Close() })()
	c := &session{srv: s, nc: nc, w: wire.NewWriter(nc), in: make(chan wire.Frame), ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.read()
		cancel()
	}()
	if err := c.loop(); err != nil && ctx.Err() == nil {
		s.log.Warn("connection given up", slog.Any("err", err))
	}
	cancel()
	_ = nc.Close()
	<-done
}

// read passes on frames until the connection fails or is silent for too long.
func (c *session) read() {
	defer close(c.in)
	r := wire.NewReader(c.nc)
	for {
		if c.nc.SetReadDeadline(time.Now().Add(3*c.srv.cfg.Heartbeat)) != nil {
			return
		}
		f, err := r.Next()
		if err != nil {
			return
		}
		if f.Type == wire.FrameHeartbeat {
			continue
		}
		select {
		case c.in <- f:
		case <-c.ctx.Done():
			return
		}
	}
}

// loop carries out operations. An error means that the connection can't go on.
func (c *session) loop() (err error) {
	defer func() {
		// A fault of ours in one operation must not end the sandbox's init.
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	for f := range c.in {
		if f.Type != wire.FrameRequest {
			return fmt.Errorf("%w: type %d where a request belongs", wire.ErrMalformed, f.Type)
		}
		if err := c.one(f.Payload); err != nil {
			return err
		}
	}
	return nil
}

// one carries out an operation, with heartbeats while it lasts.
func (c *session) one(payload []byte) error {
	beat := time.NewTicker(c.srv.cfg.Heartbeat)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-beat.C:
				if c.w.Write(wire.FrameHeartbeat) != nil {
					_ = c.nc.Close()
					return
				}
			case <-stop:
				return
			}
		}
	}()
	defer func() {
		beat.Stop()
		close(stop)
		<-stopped
	}()
	var env wire.Envelope
	err := wire.DecodeRequest(payload, &env)
	if err == nil {
		err = c.dispatch(env)
	}
	var broken *brokenError
	if asBroken(err, &broken) {
		return broken.err
	}
	if err != nil {
		c.srv.log.Debug("operation", slog.String("op", string(env.Op)), slog.Any("err", err))
		return c.send(wire.FrameError, wire.FaultOf(err))
	}
	return nil
}

// send writes a message as JSON.
func (c *session) send(t wire.FrameType, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %T: %w", v, err)
	}
	return c.w.Write(t, b)
}

// reply answers an operation. Its error is a broken connection.
func (c *session) reply(v any) error { return broken(c.send(wire.FrameReply, v)) }

// brokenError is an error after which the connection can't go on, as opposed to one that is told to the peer.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

func broken(err error) error {
	if err == nil {
		return nil
	}
	return &brokenError{err}
}

func asBroken(err error, to **brokenError) bool {
	b, ok := err.(*brokenError) //nolint:errorlint // it is only ever returned unwrapped, and must not hide in a join
	*to = b
	return ok
}

// data returns the next data frame's bytes, or end. The bytes are valid until the call after the next.
func (c *session) data() (b []byte, end bool, err error) {
	f, ok := <-c.in
	switch {
	case !ok:
		return nil, false, broken(net.ErrClosed)
	case f.Type == wire.FrameData:
		return f.Payload, false, nil
	case f.Type == wire.FrameEnd:
		return nil, true, nil
	}
	return nil, false, broken(fmt.Errorf("%w: type %d where data belongs", wire.ErrMalformed, f.Type))
}

// discard reads data up to its end.
func (c *session) discard() error {
	for {
		if _, end, err := c.data(); end || err != nil {
			return err
		}
	}
}

// dispatch decodes an operation's arguments and carries it out.
func (c *session) dispatch(env wire.Envelope) error {
	h, ok := c.srv.ops[env.Op]
	if !ok {
		return core.Errorf(core.CodeUnsupported, "the sandbox's guest agent does not know the operation %q", string(env.Op))
	}
	return h(c, env.Args)
}

// handler carries out one operation from its arguments to its last frame.
type handler func(c *session, args json.RawMessage) error

// unary makes a handler of a function from request to reply.
func unary[Q, R any](f func(c *session, q Q) (R, error)) handler {
	return func(c *session, args json.RawMessage) error {
		var q Q
		if err := wire.DecodeRequest(args, &q); err != nil {
			return err
		}
		r, err := f(c, q)
		if err != nil {
			return err
		}
		return c.reply(r)
	}
}

// streaming makes a handler of a function that writes its own frames.
func streaming[Q any](f func(c *session, q Q) error) handler {
	return func(c *session, args json.RawMessage) error {
		var q Q
		if err := wire.DecodeRequest(args, &q); err != nil {
			return err
		}
		return f(c, q)
	}
}

// handlers is the table of operations.
func handlers() map[wire.Op]handler {
	return map[wire.Op]handler{
		wire.OpPing:      unary((*session).ping),
		wire.OpConfigure: unary((*session).configure),
		wire.OpLimit:     unary((*session).limit),
		wire.OpMetrics:   unary((*session).metrics),
		wire.OpExec:      streaming((*session).exec),
		wire.OpAttach:    streaming((*session).attach),
		wire.OpGet:       unary((*session).get),
		wire.OpList:      unary((*session).list),
		wire.OpSignal:    unary((*session).signal),
		wire.OpCancel:    unary((*session).cancelExec),
		wire.OpResize:    unary((*session).resize),
		wire.OpStdin:     streaming((*session).stdin),
		wire.OpAck:       unary((*session).acknowledge),
		wire.OpStat:      unary((*session).stat),
		wire.OpListFiles: unary((*session).listFiles),
		wire.OpResolve:   unary((*session).resolve),
		wire.OpWalk:      unary((*session).walk),
		wire.OpRead:      streaming((*session).readFile),
		wire.OpWrite:     streaming((*session).writeFile),
		wire.OpPack:      streaming((*session).pack),
		wire.OpUnpack:    streaming((*session).unpack),
		wire.OpMkdir:     unary((*session).mkdir),
		wire.OpMove:      unary((*session).move),
		wire.OpRemove:    unary((*session).remove),
		wire.OpDial:      streaming((*session).dial),
		wire.OpChange:    unary(changeFile),
		wire.OpLink:      unary(linkFile),
		wire.OpXattrs:    unary(xattrsOf),
		wire.OpChecksum:  unary(checksumOf),
		wire.OpWatch:     streaming(watchFiles),
		wire.OpSync:      unary(syncFiles),

		wire.OpWritePart:   streaming(writePart),
		wire.OpPartial:     unary(partialOf),
		wire.OpDropPartial: unary(dropPartial),

		wire.OpProcesses: unary(processes),
	}
}
