package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// conn is one connection to the agent; it belongs to one operation at a time.
type conn struct {
	nc net.Conn
	r  *wire.Reader
	w  *wire.Writer
	// since is when it became idle.
	since time.Time
	// reused says that it served an operation before: the agent may have closed it meanwhile.
	reused bool
	// spoiled says that it can't be used again.
	spoiled bool
}

func (k *conn) close() { _ = k.nc.Close() }

// alive reports whether an idle connection still seems to be open. Between operations the agent sends nothing, so any
// byte, and the end, mean that it is of no use. A connection that can't be asked is trusted.
func (k *conn) alive() bool {
	sc, ok := k.nc.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	alive := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		alive = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOTSOCK)
		return true
	})
	return err == nil && alive
}

// bind makes the connection fail when ctx or the client ends, and sends heartbeats on it, until the returned function
// is called.
func (c *Client) bind(ctx context.Context, k *conn) (release func()) {
	stop := func() { _ = k.nc.SetDeadline(time.Unix(1, 0)) }
	one := context.AfterFunc(ctx, stop)
	two := context.AfterFunc(c.ctx, stop) //nolint:contextcheck // The client's end ends this call too.
	endBeat := c.beat(k)
	return func() {
		endBeat()
		// A stop that has begun may set its deadline at any moment from now on.
		first, second := one(), two()
		if !first || !second {
			k.spoiled = true
		}
	}
}

// beat sends heartbeats until the returned function is called. A beat that comes late, even between operations, is
// ignored by the agent; one that can't be written ends the connection.
func (c *Client) beat(k *conn) (stop func()) {
	var mu sync.Mutex
	stopped := false
	var t *time.Timer
	mu.Lock()
	defer mu.Unlock()
	t = time.AfterFunc(c.cfg.Heartbeat, func() {
		if k.w.Write(wire.FrameHeartbeat) != nil {
			k.close()
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			t.Reset(c.cfg.Heartbeat)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		t.Stop()
	}
}

// deadline bounds a call whose context has no deadline of its own.
func deadline(ctx context.Context, c *Client) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.cfg.CallTimeout)
}

// broken says what it means that a connection failed: the caller's own context comes first, then the client's end.
func (c *Client) broken(ctx context.Context, err error) error {
	if e := contextError(ctx); e != nil {
		return e
	}
	if c.ctx.Err() != nil {
		return errClosed()
	}
	return unreachable(ctx, err)
}

func contextError(ctx context.Context) error {
	switch err := ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return core.Wrap(core.CodeTimeout, err, "the sandbox did not answer in time")
	default:
		return core.Wrap(core.CodeCanceled, err, "the call was canceled")
	}
}

func unreachable(ctx context.Context, err error) error {
	if e := contextError(ctx); e != nil {
		return e
	}
	var known *core.Error
	if errors.As(err, &known) && !errors.Is(err, wire.ErrMalformed) {
		return err
	}
	switch {
	case errors.Is(err, wire.ErrMalformed):
		return core.Wrap(core.CodeUnavailable, err, "the sandbox's guest agent broke the protocol")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return core.Wrap(core.CodeUnavailable, err, "the sandbox's guest agent does not answer")
	}
	return core.Wrap(core.CodeUnavailable, err, "the sandbox's guest agent can't be reached")
}

// next returns the next frame that is not a heartbeat. A peer that is silent for too long has failed.
func (c *Client) next(ctx context.Context, k *conn) (wire.Frame, error) {
	for {
		err := k.nc.SetReadDeadline(time.Now().Add(3 * c.cfg.Heartbeat))
		if err != nil {
			return wire.Frame{}, fmt.Errorf("set deadline: %w", err)
		}
		// The line above may have undone what bind did.
		if ctx.Err() != nil || c.ctx.Err() != nil {
			return wire.Frame{}, os.ErrDeadlineExceeded
		}
		f, err := k.r.Next()
		if err != nil || f.Type != wire.FrameHeartbeat {
			return f, err
		}
	}
}

// expect reads one frame of the type, or the fault that came instead. A fault ends the operation cleanly: the
// connection can be kept.
func (c *Client) expect(ctx context.Context, k *conn, t wire.FrameType) (payload []byte, fault *core.Error, err error) {
	f, err := c.next(ctx, k)
	if err != nil {
		return nil, nil, fmt.Errorf("read reply: %w", err)
	}
	if f.Type == t {
		return f.Payload, nil, nil
	}
	if f.Type == wire.FrameError {
		fault, err := parseFault(f.Payload)
		return nil, fault, err
	}
	return nil, nil, fmt.Errorf("%w: type %d where %d belongs", wire.ErrMalformed, f.Type, t)
}

func parseFault(payload []byte) (*core.Error, error) {
	var f wire.Fault
	if err := wire.DecodeReply(payload, &f); err != nil {
		return nil, err
	}
	return f.Err(), nil
}
