package fake

import (
	"net"
	"sync"

	"shoal/internal/network"
)

// backlog is how many connections may wait for Accept.
const backlog = 128

// listener is a port of a slot.
type listener struct {
	kernel *Kernel
	slot   *slot
	port   uint16
	queue  chan net.Conn
	done   chan struct{}
	once   sync.Once
}

func newListener(k *Kernel, s *slot, port uint16) *listener {
	return &listener{kernel: k, slot: s, port: port, queue: make(chan net.Conn, backlog), done: make(chan struct{})}
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends the listener, and connections that nobody has accepted. Others go on.
func (l *listener) Close() error {
	l.kernel.mu.Lock()
	defer l.kernel.mu.Unlock()
	if l.slot.listeners[l.port] == l {
		delete(l.slot.listeners, l.port)
	}
	l.end()
	return nil
}

// Addr returns the address as the sandbox sees it.
func (l *listener) Addr() net.Addr {
	return &net.TCPAddr{IP: network.GuestAddr.AsSlice(), Port: int(l.port)}
}

// end wakes Accept and drops the queue. Kernel.mu is held, so nothing is queued meanwhile.
func (l *listener) end() {
	l.once.Do(func() { close(l.done) })
	for {
		select {
		case c := <-l.queue:
			_ = c.Close()
		default:
			return
		}
	}
}

// conn is the host's end of a connection into a slot.
type conn struct {
	net.Conn
	kernel *Kernel
	slot   *slot
	guest  net.Conn
}

// Close closes the connection.
func (c *conn) Close() error {
	c.kernel.mu.Lock()
	delete(c.slot.conns, c)
	c.kernel.mu.Unlock()
	return c.Conn.Close()
}

// cut ends the connection on both sides.
func (c *conn) cut() {
	_ = c.Conn.Close()
	_ = c.guest.Close()
}
