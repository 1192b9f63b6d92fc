package guest_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
)

// echoPort listens on the loopback and answers each connection with what it got, once that has ended.
func echoPort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				b, _ := io.ReadAll(nc)
				_, _ = nc.Write(b)
				_ = nc.Close()
			}()
		}
	}()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

func TestDialPort(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	nc, err := a.client.DialPort(t.Context(), echoPort(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	if err := nc.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read with nothing to read: %v", err)
	}
	if err := nc.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("abcdefg"), 300_000)
	sent := make(chan error, 1)
	go func() {
		_, err := nc.Write(want)
		sent <- errors.Join(err, nc.(interface{ CloseWrite() error }).CloseWrite())
	}()
	got, err := io.ReadAll(nc)
	if err := errors.Join(err, <-sent); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes back, %v", len(got), err)
	}
}

func TestDialClosedPort(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	_ = l.Close()
	if _, err := a.client.DialPort(t.Context(), port); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("a closed port: %v", err)
	}
	if _, err := a.client.DialPort(t.Context(), 0); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("port 0: %v", err)
	}
}
