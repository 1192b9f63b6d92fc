package guest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// dial connects to a port on the loopback and carries data both ways until both have ended.
func (c *session) dial(q wire.DialRequest) error {
	if q.Port == 0 {
		return core.Invalid("port", "a port is 1 to 65535")
	}
	nc, err := dialLoopback(c.ctx, q.Port)
	if err != nil {
		return core.Wrap(core.CodeUnavailable, err, "nothing answers on port %d of the sandbox", q.Port)
	}
	defer func() { _ = nc.Close() }()
	defer context.AfterFunc(c.ctx, func() { _ = nc.Close() })()
	if err := c.reply(wire.Empty{}); err != nil {
		return err
	}
	up := make(chan error, 1)
	go func() { up <- c.fromPort(nc) }()
	err = c.toPort(nc)
	if err != nil {
		_ = nc.Close()
	}
	if upErr := <-up; err == nil {
		err = broken(upErr)
	}
	return err
}

func dialLoopback(ctx context.Context, port uint16) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	p := strconv.Itoa(int(port))
	nc, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", p))
	if err != nil {
		var err6 error
		if nc, err6 = d.DialContext(ctx, "tcp", net.JoinHostPort("::1", p)); err6 == nil {
			return nc, nil
		}
	}
	return nc, err
}

// toPort copies the peer's data to the port. A port that takes no more makes the rest be thrown away.
func (c *session) toPort(nc net.Conn) error {
	for {
		b, end, err := c.data()
		if err != nil {
			return err
		}
		if end {
			if h, ok := nc.(interface{ CloseWrite() error }); ok {
				_ = h.CloseWrite()
			}
			return nil
		}
		if _, err := nc.Write(b); err != nil {
			return c.discard()
		}
	}
}

// fromPort copies the port's data to the peer.
func (c *session) fromPort(nc net.Conn) error {
	buf := make([]byte, maxChunk)
	for {
		n, err := nc.Read(buf)
		if n > 0 {
			if err := c.w.Write(wire.FrameData, buf[:n]); err != nil {
				_ = nc.Close()
				return err
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.srv.log.Debug("read from port", slog.Any("err", err))
			}
			return c.w.Write(wire.FrameEnd)
		}
	}
}
