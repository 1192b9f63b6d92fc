package httpserve_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/httpserve"
)

// TestThousandStreams: a client follows a thousand processes through one HTTP/2 connection.
func TestThousandStreams(t *testing.T) {
	const streams = 1000
	certificate := httptest.NewTLSServer(http.NotFoundHandler())
	defer certificate.Close()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running, dials atomic.Int64
	all := make(chan struct{})
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			return
		}
		if running.Add(1) == streams {
			close(all)
		}
		select {
		case <-all:
		case <-r.Context().Done():
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	config := certificate.TLS.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	go func() {
		served <- httpserve.Serve(ctx, tls.NewListener(ln, config), httpserve.Options{Handler: handler, Logger: slog.New(slog.DiscardHandler), Grace: time.Second})
	}()
	transport, ok := certificate.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatal("the test client's transport has changed its type")
	}
	transport.ForceAttemptHTTP2 = true
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		dials.Add(1)
		var d net.Dialer
		return d.DialContext(ctx, network, ln.Addr().String())
	}
	get := func(path string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com"+path, nil)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
	}
	get("/first") // From then on the client knows how many streams it may have.
	var clients sync.WaitGroup
	for range streams {
		clients.Go(func() { get("/") })
	}
	clients.Wait()
	if dials.Load() != 1 {
		t.Errorf("it took %d connections", dials.Load())
	}
	transport.CloseIdleConnections()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
