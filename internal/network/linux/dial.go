package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// Dial connects to a port on the guest's address. The socket is made by the thread that lives in the router, and
// belongs to the router from then on; all the rest is done where the caller is.
//
// While a runtime is taking the namespace over, nobody answers and the kernel repeats its request only after a second:
// a caller that waits for a guest to come up should bound each try by ctx and try again.
func (d *Driver) Dial(ctx context.Context, id core.SandboxID, port uint16) (net.Conn, error) {
	if port == 0 {
		return nil, core.Errorf(core.CodeInvalid, "port 0 can't be dialed")
	}
	s := d.find(id)
	if s == nil {
		return nil, notFound()
	}
	c, err := d.dialAddr(ctx, netip.AddrPortFrom(s.addr, port))
	if err != nil {
		return nil, dialError(fmt.Errorf("dial slot %d: %w", s.number, err))
	}
	return s.own(c)
}

// dialAddr connects from the router.
func (d *Driver) dialAddr(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fd, err := d.socket()
	if err != nil {
		return nil, err
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
	// The descriptor goes to Go's poller only now: it would report one that isn't connecting as hung up.
	f := os.NewFile(uintptr(fd), "slot")
	defer func() { _ = f.Close() }()
	if errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EINTR) {
		err = awaitConnect(ctx, f)
	}
	if err != nil {
		return nil, err
	}
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a TCP socket became a %T", c), c.Close())
	}
	return tcp, nil
}

// socket makes a TCP socket in the router.
func (d *Driver) socket() (fd int, err error) {
	if err := d.begin(); err != nil {
		return -1, err
	}
	defer d.end()
	err = d.router.thread.do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		return err
	})
	return fd, err
}

// awaitConnect waits until a connect under way has ended, or ctx has.
func awaitConnect(ctx context.Context, f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	// A deadline in the past wakes the waiter.
	stop := context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	var result error
	err = raw.Write(func(fd uintptr) bool {
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		switch {
		case err != nil:
			result = err
		case code != 0:
			result = unix.Errno(code)
		default:
			// Without an error it is connected or still trying.
			_, err = unix.Getpeername(int(fd))
			return !errors.Is(err, unix.ENOTCONN)
		}
		return true
	})
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(err, result)
}

// dialError tells that nothing listens from everything else.
func dialError(err error) error {
	for _, errno := range []error{
		unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.ECONNRESET, unix.ETIMEDOUT,
	} {
		if errors.Is(err, errno) {
			return core.Wrap(core.CodeUnavailable, err, "nothing listens on that port in the sandbox")
		}
	}
	return edge(err, "can't connect to the sandbox")
}

// own makes the slot's end the connection's end.
func (s *slot) own(tcp *net.TCPConn) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		_ = tcp.Close()
		return nil, notFound()
	}
	if s.conns == nil {
		s.conns = map[*conn]struct{}{}
	}
	c := &conn{TCPConn: tcp, slot: s}
	s.conns[c] = struct{}{}
	return c, nil
}

// conn is a TCP connection to a guest that Detach resets. All but Close is the embedded connection's, so that copying
// to and from it still goes through the kernel's splice.
type conn struct {
	*net.TCPConn
	slot *slot
}

// Close closes the connection. After the slot has been detached it succeeds.
func (c *conn) Close() error {
	c.slot.mu.Lock()
	delete(c.slot.conns, c)
	gone := c.slot.gone
	c.slot.mu.Unlock()
	err := c.TCPConn.Close()
	if gone && errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// reset ends the connection at once on both sides: the guest sees a reset, and whoever reads or writes here an error.
func (c *conn) reset() {
	_ = c.SetLinger(0)
	_ = c.TCPConn.Close()
}
