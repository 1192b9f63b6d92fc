package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/httpapi"
	shoal "shoal/sdk/go"
)

// pipes is a listener whose connections hold nothing: what the server writes waits until it is read.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8700} }

// connect returns the client's end of a new connection, and a channel that is closed when the server closes its own.
func (p *pipes) connect() (net.Conn, <-chan struct{}) {
	client, server := net.Pipe()
	s := &serverEnd{Conn: server, closed: make(chan struct{})}
	p.conns <- s
	return client, s.closed
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, _ := p.connect()
	return client, nil
}

type serverEnd struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (s *serverEnd) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

// servePipes serves a fresh fake on pipes until the test ends. It is for a bubble of synctest.
func servePipes(t *testing.T, change func(*httpapi.Options)) (*pipes, *shoal.Client, *fakeControl) {
	t.Helper()
	a, fake := newAPI(t, change)
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Serve(ctx, p, time.Second) }()
	transport := &http.Transport{DialContext: p.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return p, &shoal.Client{
		BaseURL: "http://localhost", APIKey: tenantKey, HTTPClient: &http.Client{Transport: transport}, MaxRetries: -1,
	}, fake
}

// ask sends one request on a connection of its own. It returns that, from which the reply can be read, and a channel that is
// closed when the server gives it up.
func ask(t *testing.T, p *pipes, method, path, accept, body string) (net.Conn, <-chan struct{}) {
	t.Helper()
	conn, gone := p.connect()
	t.Cleanup(func() { _ = conn.Close() })
	_, err := io.WriteString(conn, method+" "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+tenantKey+
		"\r\nAccept: "+accept+"\r\nContent-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
	if err != nil {
		t.Fatal(err)
	}
	return conn, gone
}

// TestReplyThatNobodyReads: whatever a client asks for and then doesn't read, the server gives it up in time.
func TestReplyThatNobodyReads(t *testing.T) {
	tests := map[string]struct {
		method, path, accept, body string
		after                      time.Duration
	}{
		"a collected exec": {"POST", "/v1/sandboxes/x/execs", "application/json", `{"cmd":["flood","100000"]}`, time.Minute},
		"a small reply":    {"GET", "/v1/sandboxes/x", "application/json", "", time.Minute},
		"no content":       {"DELETE", "/v1/sandboxes/x", "application/json", "", time.Minute},
		"an error":         {"GET", "/v1/sandboxes/nobody", "application/json", "", time.Minute},
		"the document":     {"GET", "/openapi.yaml", "*/*", "", time.Minute},
		"the metrics":      {"GET", "/metrics", "*/*", "", time.Minute},
		"a streamed exec":  {"POST", "/v1/sandboxes/x/execs", "application/x-ndjson", `{"cmd":["flood","100000"]}`, 2 * time.Minute},
		"events":           {"GET", "/v1/events", "application/x-ndjson", "", 2 * time.Minute},
		"a file":           {"GET", "/v1/sandboxes/x/files?path=/big", "*/*", "", 2 * time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, c, _ := servePipes(t, nil)
				create(t, c, "x")
				if _, err := c.Files("x").Write(t.Context(), "/big", strings.NewReader(strings.Repeat("x", 1<<20)), shoal.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				_, gone := ask(t, p, tc.method, tc.path, tc.accept, tc.body)
				<-gone
				if took := time.Since(began); took != tc.after {
					t.Errorf("given up after %v, want %v", took, tc.after)
				}
			})
		})
	}
}

// TestDeadlineIsForOneReply: a connection that was idle for longer than a reply may take serves the next call, and a stream
// that says something now and then goes on for ever.
func TestDeadlineIsForOneReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, fake := servePipes(t, nil)
		create(t, c, "x")
		execs := c.Execs("x")
		stream, err := execs.Stream(t.Context(), shoal.ExecRequest{Cmd: []string{"wait"}})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			var err error
			for err == nil {
				_, err = stream.Recv()
			}
			ended <- errors.Join(err, stream.Close())
		}()
		for i := range 4 {
			<-time.After(90 * time.Second)
			if err := c.Files("x").Mkdir(t.Context(), "/d"+strconv.Itoa(i), shoal.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Files("x").Write(t.Context(), "/f", strings.NewReader("x"), shoal.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		id := fake.sandboxes[0].ID
		fake.procs[id][0].end(core.OutcomeCanceled, nil, "")
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

// TestCollectedOutputHasABudget: what waits for a process's output, and what its client hasn't read yet, takes room. Without
// room no process is started; what needs none is.
func TestCollectedOutputHasABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c, fake := servePipes(t, func(o *httpapi.Options) { o.CollectBytes = 3 << 20 /* one full reply and six short ones */ })
		create(t, c, "x")
		execs := c.Execs("x")
		run := func() error {
			_, err := execs.Run(t.Context(), shoal.ExecRequest{Cmd: []string{"echo", "hi"}})
			return err
		}
		waits := make(chan error, 6)
		wait := func() {
			go func() {
				_, err := execs.Run(t.Context(), shoal.ExecRequest{Cmd: []string{"wait"}})
				waits <- err
			}()
			synctest.Wait()
		}
		wait()
		if err := run(); err != nil {
			t.Fatalf("with room for one more: %v", err)
		}
		_, gone := ask(t, p, "POST", "/v1/sandboxes/x/execs", "application/json", `{"cmd":["flood","100000"]}`)
		synctest.Wait()
		for range 5 {
			wait()
		}

		procs := fake.procs[fake.sandboxes[0].ID]
		e := wantCode(t, run(), shoal.CodeExhausted)
		if e.RetryAfter <= 0 || !strings.Contains(e.Message, "x-ndjson") || !strings.Contains(e.Message, "detach") {
			t.Errorf("told %q, retry after %v", e.Message, e.RetryAfter)
		}
		if now := fake.procs[fake.sandboxes[0].ID]; len(now) != len(procs) || len(now) != 8 {
			t.Errorf("%d processes, then %d", len(procs), len(now))
		}
		if _, err := execs.Start(t.Context(), shoal.ExecRequest{Cmd: []string{"echo", "hi"}}); err != nil {
			t.Errorf("detached: %v", err)
		}
		stream, err := execs.Stream(t.Context(), shoal.ExecRequest{Cmd: []string{"echo", "hi"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Close(); err != nil {
			t.Error(err)
		}

		<-gone
		synctest.Wait()
		if err := run(); err != nil {
			t.Errorf("after the reply that nobody read was given up: %v", err)
		}
		for i, p := range procs {
			if i != 1 && i != 2 { // those that have ended
				p.end(core.OutcomeCanceled, nil, "")
			}
		}
		for range cap(waits) {
			if err := <-waits; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestOutputIsNotSwollen: a process that writes zeros makes no reply that is many times as long.
func TestOutputIsNotSwollen(t *testing.T) {
	a, _ := newAPI(t, nil)
	do := func(method, path, body string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+tenantKey)
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, req)
		return w
	}
	do("POST", "/v1/sandboxes", `{"name":"x"}`)
	w := do("POST", "/v1/sandboxes/x/execs", `{"cmd":["zeros","1048576"]}`)
	var res api.ExecResult
	if err := json.Unmarshal(w.Body.Bytes(), &res); err != nil {
		t.Fatal(err)
	}
	if res.Stdout != nil || !bytes.Equal(res.StdoutBytes(), make([]byte, 1<<20)) {
		t.Errorf("stdout %.10q, %d bytes", res.StdoutRaw, len(res.StdoutBytes()))
	}
	if n := w.Body.Len(); n > 3<<19 {
		t.Errorf("1 MiB of zeros is a reply of %d bytes", n)
	}
}
