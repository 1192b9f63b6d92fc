package envd_test

import (
	"context"
	"net/http"
	"net/http/httptest"
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
