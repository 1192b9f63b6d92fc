package fake

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// connPair returns two ends of a buffered stream, like the TCP connection of a real driver: a pipe without a buffer would let
// tests deadlock that work in the world.
func connPair() (host, guest net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	a, b := os.NewFile(uintptr(fds[0]), "host"), os.NewFile(uintptr(fds[1]), "guest")
	defer func() { err = errors.Join(err, a.Close(), b.Close()) }()
	if host, err = net.FileConn(a); err != nil {
		return nil, nil, fmt.Errorf("make connection: %w", err)
	}
	if guest, err = net.FileConn(b); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make connection: %w", err), host.Close())
	}
	return host, guest, nil
}
