package httpserve_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/httpserve"
)

// TestServeWaitsForHandlers: what a handler uses may be closed once Serve has returned, however long the handler took to notice the end.
func TestServeWaitsForHandlers(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	var ended atomic.Bool
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		<-time.After(1500 * time.Millisecond) // longer than connections are waited for
		ended.Store(true)
	})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- httpserve.Serve(ctx, ln, httpserve.Options{
			Handler: handler, Logger: slog.New(slog.DiscardHandler), Grace: time.Millisecond,
		})
	}()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+ln.Addr().String(), nil)
		if err != nil {
			t.Error(err)
			return
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	<-begun
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if !ended.Load() {
		t.Error("a handler still runs")
	}
	<-asked
}
