package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"shoal/internal/guest/wire"
)

// DialPort connects to a TCP port on the sandbox's own loopback, 127.0.0.1 first, then ::1. ctx bounds the dialing
// only. The connection has CloseWrite.
func (c *Client) DialPort(ctx context.Context, port uint16) (net.Conn, error) {
	request, err := frames(wire.OpDial, wire.DialRequest{Port: port})
	if err != nil {
		return nil, err
	}
	first, cancel := deadline(ctx, c)
	defer cancel()
	k, _, release, err := c.begin(first, request, true)
	if err != nil {
		return nil, err
	}
	release()
	if k.spoiled {
		k.close()
		return nil, c.broken(first, context.Cause(first))
	}
	// From now on the deadlines are the caller's.
	_ = k.nc.SetDeadline(time.Time{})
	return &portConn{
		k: k, port: port, silence: 3 * c.cfg.Heartbeat, endBeat: c.beat(k),
		unbind: context.AfterFunc(c.ctx, k.close), //nolint:contextcheck // The client's end ends this call too.
	}, nil
}

// portConn is a TCP connection to a port inside, carried in data frames. As with net.Conn, one goroutine may read
// while another writes.
type portConn struct {
	k       *conn
	port    uint16
	silence time.Duration
	endBeat func()
	unbind  func() bool
	once    sync.Once

	readMu sync.Mutex
	rest   []byte
	eof    error

	// deadlineMu guards the caller's read deadline, which is kept apart from the one that notices a silent agent.
	deadlineMu sync.Mutex
	deadline   time.Time

	writeMu sync.Mutex
	ended   bool
}

var _ net.Conn = (*portConn)(nil)

// Read returns bytes that the port has sent.
func (p *portConn) Read(b []byte) (int, error) {
	p.readMu.Lock()
	defer p.readMu.Unlock()
	for len(p.rest) == 0 {
		if p.eof != nil {
			return 0, p.eof
		}
		if len(b) == 0 {
			return 0, nil
		}
		if err := p.more(); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// more reads one frame. A deadline leaves the connection as it is; everything else that fails ends it.
func (p *portConn) more() error {
	silent := time.Now().Add(p.silence)
	p.deadlineMu.Lock()
	mine := p.deadline.IsZero() || silent.Before(p.deadline)
	if mine {
		_ = p.k.nc.SetReadDeadline(silent)
	} else {
		_ = p.k.nc.SetReadDeadline(p.deadline)
	}
	p.deadlineMu.Unlock()
	f, err := p.k.r.Next()
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) && (!mine || time.Now().Before(silent)) {
			return p.fail("read", os.ErrDeadlineExceeded)
		}
		p.eof = p.fail("read", err)
		return p.eof
	}
	switch f.Type {
	case wire.FrameData:
		p.rest = f.Payload
	case wire.FrameEnd:
		p.eof = io.EOF
	case wire.FrameHeartbeat:
	case wire.FrameError:
		fault, err := parseFault(f.Payload)
		if err == nil {
			err = fault
		}
		p.eof = p.fail("read", err)
	case wire.FrameRequest, wire.FrameReply, wire.FrameStarted, wire.FrameStdout, wire.FrameStderr, wire.FrameGap,
		wire.FrameEnded, wire.FrameChanges:
		p.eof = p.fail("read", fmt.Errorf("%w: type %d on a port", wire.ErrMalformed, f.Type))
	}
	return nil
}

func (p *portConn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "sandbox", Addr: p.RemoteAddr(), Err: err}
}

// Write sends bytes to the port. A write deadline that passes ends the connection.
func (p *portConn) Write(b []byte) (int, error) {
	p.writeMu.Lock()
	defer p.writeMu.Unlock()
	if p.ended {
		return 0, p.fail("write", net.ErrClosed)
	}
	sent := 0
	for sent < len(b) {
		n := min(len(b)-sent, wire.DataChunk)
		if err := p.k.w.Write(wire.FrameData, b[sent:sent+n]); err != nil {
			p.ended = true
			_ = p.Close()
			return sent, p.fail("write", err)
		}
		sent += n
	}
	return sent, nil
}

// CloseWrite tells the port that no more comes; reading goes on.
func (p *portConn) CloseWrite() error {
	p.writeMu.Lock()
	defer p.writeMu.Unlock()
	if p.ended {
		return nil
	}
	p.ended = true
	return p.k.w.Write(wire.FrameEnd)
}

// Close ends the connection.
func (p *portConn) Close() error {
	p.once.Do(func() {
		p.endBeat()
		p.unbind()
		p.k.close()
	})
	return nil
}

// LocalAddr returns the host's end.
func (p *portConn) LocalAddr() net.Addr { return p.k.nc.LocalAddr() }

// RemoteAddr returns the port's address as the sandbox sees it.
func (p *portConn) RemoteAddr() net.Addr { return portAddr(p.port) }

// SetDeadline sets both deadlines.
func (p *portConn) SetDeadline(t time.Time) error {
	return errors.Join(p.SetReadDeadline(t), p.SetWriteDeadline(t))
}

// SetReadDeadline bounds reads, also one under way.
func (p *portConn) SetReadDeadline(t time.Time) error {
	p.deadlineMu.Lock()
	defer p.deadlineMu.Unlock()
	p.deadline = t
	return p.k.nc.SetReadDeadline(t)
}

// SetWriteDeadline bounds writes.
func (p *portConn) SetWriteDeadline(t time.Time) error { return p.k.nc.SetWriteDeadline(t) }

type portAddr uint16

func (portAddr) Network() string  { return "sandbox" }
func (a portAddr) String() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(a))) }
