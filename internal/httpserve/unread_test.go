package httpserve_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shoal/internal/httpserve"
)

// oneConn is a listener with one connection, which holds nothing.
type oneConn struct{ conns chan net.Conn }

func (l oneConn) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l oneConn) Close() error   { close(l.conns); return nil }
func (l oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// TestBodyThatNeverComes: a client that is refused, and promised a body that it doesn't send, is answered and given up. One that sends it
// keeps its connection.
func TestBodyThatNeverComes(t *testing.T) {
	for _, tc := range []struct {
		head, body string
		kept       bool
	}{
		{"Content-Length: 100", "half", false},
		{"Transfer-Encoding: chunked", "4\r\nhalf", false},
		{"Content-Length: 4", "half", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			l := oneConn{make(chan net.Conn, 1)}
			l.conns <- server
			ctx, stop := context.WithCancel(context.Background())
			served := make(chan error, 1)
			go func() {
				refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no key", http.StatusUnauthorized) })
				served <- httpserve.Serve(ctx, l, httpserve.Options{Handler: refuse, Logger: slog.New(slog.DiscardHandler), Grace: time.Second})
			}()
			go func() {
				_, _ = io.WriteString(client, "POST / HTTP/1.1\r\nHost: localhost\r\n"+tc.head+"\r\n\r\n"+tc.body)
			}()
			began := time.Now()
			reply, err := io.ReadAll(client)
			took := time.Since(began)
			if err != nil || !strings.HasPrefix(string(reply), "HTTP/1.1 401") || (took > time.Minute) != tc.kept {
				t.Errorf("%s: after %v: %.60q, %v", tc.head, took, reply, err)
			}
			stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}
