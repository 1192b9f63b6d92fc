package node

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// heardConn is a connection to a guest agent that notes each sign of life, and each wait for one that was in vain. It sees
// every operation of the client, also those that nobody thought of as a test of the agent's health.
type heardConn struct {
	net.Conn
	m *machine
	// vain is called when a read has ended without an answer.
	vain func(*machine)
}

// hear wraps a connection. One that can be asked whether it is still open stays so.
func hear(nc net.Conn, m *machine, vain func(*machine)) net.Conn {
	c := &heardConn{Conn: nc, m: m, vain: vain}
	if sc, ok := nc.(syscall.Conn); ok {
		return &struct {
			*heardConn
			syscall.Conn
		}{c, sc}
	}
	return c
}

// Read reads what the agent has sent. A deadline may also be the end of its caller's patience: that is a suspicion and no proof.
func (c *heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch {
	case n > 0:
		c.m.heard.Add(1)
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.vain(c.m)
	}
	return n, err
}
