package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestNotifyReady shows that a service manager which waits for the server hears of it, as sd_notify(3) has it.
func TestNotifyReady(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for socket, want := range map[string]string{path: "READY=1", "relative": "", "": ""} {
		t.Setenv("NOTIFY_SOCKET", socket)
		notifyReady()
		if want == "" {
			continue
		}
		if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 64)
		n, err := conn.Read(got)
		if err != nil || string(got[:n]) != want {
			t.Errorf("%q: %q, %v", socket, got[:n], err)
		}
	}
}

// TestDialable: what the CLI is told can be dialed, also where the server takes every address.
func TestDialable(t *testing.T) {
	for listen, want := range map[string]string{
		"0.0.0.0:8700": "127.0.0.1:8700", "[::]:8700": "[::1]:8700", "127.0.0.1:1": "127.0.0.1:1", "[::1]:2": "[::1]:2",
		"192.0.2.1:8700": "192.0.2.1:8700", "[2001:db8::1%eth0]:3": "[2001:db8::1%eth0]:3",
	} {
		if got := dialable(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
	for _, listen := range []string{"0.0.0.0:0", "[::]:0"} {
		var lc net.ListenConfig
		ln, err := lc.Listen(t.Context(), "tcp", listen)
		if err != nil {
			t.Logf("%s: %v", listen, err) // a host without IPv6
			continue
		}
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", dialable(ln.Addr().String()))
		if err != nil {
			t.Errorf("%s: %v", listen, err)
		} else if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
	}
}
