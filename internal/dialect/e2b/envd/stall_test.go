package envd_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd"
	"shoal/internal/dialect/e2b/envd/processpb"
)

// TestSilentStreams: the time that a client has for one read doesn't run while there is nothing to read, over HTTP/1.1 as over HTTP/2,
// where many streams share one connection.
func TestSilentStreams(t *testing.T) {
	f := newFake(t)
	h := envd.New(envd.Config{Control: f, Closing: t.Context(), Stall: 1500 * time.Millisecond})
	for _, version := range []int{1, 2} {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != version {
				t.Errorf("HTTP/%d", r.ProtoMajor)
			}
			h.ServeHTTP(w, r.WithContext(envd.WithTarget(r.Context(), envd.Target{Principal: acme, Sandbox: box()})))
		}))
		srv.EnableHTTP2 = version == 2
		srv.StartTLS()
		defer srv.Close()
		c := processpb.NewProcessClient(srv.Client(), srv.URL, connect.WithProtoJSON())
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() {
				s, err := c.Start(t.Context(), connect.NewRequest(shell("sleep 2; echo x; sleep 2; echo y")))
				if err != nil {
					t.Errorf("HTTP/%d: %v", version, err)
					return
				}
				defer func() { _ = s.Close() }()
				var r ran
				if r.drain(s); r.stdout != "x\ny\n" || r.err != nil {
					t.Errorf("HTTP/%d: %+v, %v", version, r, r.err)
				}
			})
		}
		all.Wait()
	}
}

// TestStuckClient: a client that reads nothing is dropped once its time for one read has passed, and its process goes on.
func TestStuckClient(t *testing.T) {
	f := newFake(t)
	h := envd.New(envd.Config{Control: f, Closing: t.Context(), Stall: 50 * time.Millisecond})
	ended := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		h.ServeHTTP(w, r.WithContext(envd.WithTarget(r.Context(), envd.Target{Principal: acme, Sandbox: box()})))
	}))
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := processpb.NewProcessClient(srv.Client(), srv.URL).Start(ctx, connect.NewRequest(shell("exec cat /dev/zero")))
	if err != nil || next(s) == nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the handler waits for a client that doesn't read")
	}
	list, err := f.all(t.Context(), acme, string(boxID))
	if err != nil || len(list) != 1 || list[0].Outcome != core.OutcomeRunning {
		t.Errorf("%+v, %v", list, err)
	}
}

// sendHalf sends a request of which half never comes, and returns what is read until the server hangs up.
func sendHalf(t *testing.T, url, head, half string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST "+head+"\r\nHost: localhost\r\n\r\n"+half); err != nil {
		t.Fatal(err)
	}
	reply, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("%s: %v", head, err)
	}
	return string(reply)
}

// TestHalfARequest: a client that doesn't send what it has begun is dropped; one that follows a process's input, once the server ends.
func TestHalfARequest(t *testing.T) {
	f := newFake(t)
	closing, stop := context.WithCancel(t.Context())
	h := envd.New(envd.Config{Control: f, Closing: closing, Stall: 50 * time.Millisecond})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(envd.WithTarget(r.Context(), envd.Target{Principal: acme, Sandbox: box()})))
	}))
	defer srv.Close()
	for _, head := range []string{
		"/filesystem.Filesystem/Stat HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 99",
		"/process.Process/Start HTTP/1.1\r\nContent-Type: application/connect+json\r\nContent-Length: 99",
	} {
		sendHalf(t, srv.URL, head, "\x00\x00\x00\x00\x50{")
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	sendHalf(t, srv.URL, "/process.Process/StreamInput HTTP/1.1\r\nContent-Type: application/connect+json\r\nTransfer-Encoding: chunked", "")
	<-stopped
}
