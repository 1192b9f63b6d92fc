package httpserve_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"shoal/internal/httpserve"
)

// TestUnreadConnection: an HTTP/2 client that reads nothing of its connection any more holds no handler for ever.
func TestUnreadConnection(t *testing.T) {
	t.Parallel()
	const stall = 100 * time.Millisecond
	certificate := httptest.NewTLSServer(http.NotFoundHandler())
	defer certificate.Close()
	// A pipe has no buffers: what the client doesn't read stops the server at once.
	pipes := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	ended := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		if r.ProtoMajor != 2 {
			t.Errorf("the protocol is %s", r.Proto)
		}
		reply := httpserve.NewReply(w)
		reply.Flush()
		rc := http.NewResponseController(reply)
		for part := make([]byte, 32<<10); ; {
			if httpserve.Extend(rc.SetWriteDeadline, stall) != nil {
				return
			}
			if _, err := reply.Write(part); err != nil {
				return
			}
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	config := certificate.TLS.Clone()
	config.NextProtos = []string{"h2"}
	go func() {
		served <- httpserve.Serve(ctx, tls.NewListener(pipes, config), httpserve.Options{
			Handler: handler, Logger: slog.New(slog.DiscardHandler), Grace: stall, Stall: stall,
		})
	}()
	transport, ok := certificate.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatal("the test client's transport has changed its type")
	}
	transport.ForceAttemptHTTP2 = true
	client := &deafConn{deaf: make(chan struct{}), closed: make(chan struct{})}
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		var server net.Conn
		client.Conn, server = net.Pipe()
		pipes.conns <- server
		return client, nil
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := certificate.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	close(client.deaf)
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the handler still waits")
	}
	_ = client.Close()
	_ = res.Body.Close()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// pipeListener takes the connections that it is given.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// deafConn reads nothing once it is deaf.
type deafConn struct {
	net.Conn
	deaf, closed chan struct{}
	once         sync.Once
}

func (c *deafConn) Read(p []byte) (int, error) {
	select {
	case <-c.deaf:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return c.Conn.Read(p)
	}
}

func (c *deafConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
