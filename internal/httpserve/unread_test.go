package httpserve_test

import (
	"bufio"
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
	// A reply that is larger than net/http's buffers is sent while the handler runs.
	short, long := "no key", strings.Repeat("no key ", 2000)
	for _, tc := range []struct {
		head, body, reply string
		kept              bool
	}{
		{"Content-Length: 100", "half", short, false},
		{"Transfer-Encoding: chunked", "4\r\nhalf", short, false},
		{"Content-Length: 4", "half", short, true},
		{"Content-Length: 100", "half", long, false},
		{"Transfer-Encoding: chunked", "4\r\nhalf", long, false},
		{"Content-Length: 4", "half", long, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			l := oneConn{make(chan net.Conn, 1)}
			l.conns <- server
			ctx, stop := context.WithCancel(context.Background())
			served := make(chan error, 1)
			go func() {
				refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, tc.reply, http.StatusUnauthorized) })
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

// TestBodyThatCame: a body's time is over when it has come, and ends neither the call, however long that goes on, nor the connection.
func TestBodyThatCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		l := oneConn{make(chan net.Conn, 1)}
		l.conns <- server
		ctx, stop := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() {
			long := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				select {
				case <-time.After(time.Hour):
				case <-r.Context().Done():
				}
				if err != nil || r.Context().Err() != nil {
					t.Errorf("%v, %v", err, context.Cause(r.Context()))
				}
				_, _ = w.Write(body)
			})
			served <- httpserve.Serve(ctx, l, httpserve.Options{Handler: long, Logger: slog.New(slog.DiscardHandler), Grace: time.Second})
		}()
		reader := bufio.NewReader(client)
		for range 2 {
			if _, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody"); err != nil {
				t.Fatal(err)
			}
			reply, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(reply.Body)
			if err != nil || string(body) != "body" {
				t.Errorf("%q, %v", body, err)
			}
			_ = reply.Body.Close()
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = client.Close()
	})
}
