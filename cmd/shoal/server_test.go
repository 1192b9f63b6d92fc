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
