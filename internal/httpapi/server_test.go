package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/httpapi"
	"shoal/internal/httpserve"
	"shoal/internal/obs"
	shoal "shoal/sdk/go"
)

// logLine is one line of the log.
type logLine struct {
	level slog.Level
	attrs map[string]string
}

// logTo hands every line to a channel.
type logTo struct{ lines chan<- logLine }

func (h logTo) Enabled(context.Context, slog.Level) bool { return true }
func (h logTo) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h logTo) WithGroup(string) slog.Handler            { return h }
func (h logTo) Handle(_ context.Context, r slog.Record) error {
	line := logLine{r.Level, map[string]string{}}
	r.Attrs(func(a slog.Attr) bool {
		line.attrs[a.Key] = a.Value.String()
		return true
	})
	h.lines <- line
	return nil
}

func withLog(lines chan<- logLine) func(*httpapi.Options) {
	return func(o *httpapi.Options) { o.Logger = slog.New(logTo{lines}) }
}

// TestOneWideLine shows what is logged of a call, and that a cause is logged and never sent.
func TestOneWideLine(t *testing.T) {
	lines := make(chan logLine, 16)
	c, fake := newClient(t, withLog(lines))
	create(t, c, "x")
	line := <-lines
	for key, want := range map[string]string{
		"operation": "createSandbox", "method": "POST", "status": "201", "tenant_id": "t1", "actor_id": "k-1", "user_agent": "shoal-go",
	} {
		if line.attrs[key] != want {
			t.Errorf("%s is %q, want %q", key, line.attrs[key], want)
		}
	}
	for name, cause := range map[string]error{
		"foreign": errors.New("secret cause"),
		"wrapped": core.Wrap(core.CodeUnavailable, errors.New("secret cause"), "the store does not answer"),
	} {
		fake.fail["GetSandbox"] = cause
		c.MaxRetries = -1
		_, err := c.Sandboxes().Get(t.Context(), "x")
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the caller is told %v", name, err)
		}
		if line := <-lines; !strings.Contains(line.attrs["err"], "secret cause") || line.attrs["sandbox"] != "x" {
			t.Errorf("%s: the log says %v", name, line.attrs)
		}
	}
	if len(lines) != 0 {
		t.Errorf("%d lines too many", len(lines))
	}
}

// TestShortLine: a person's line has what tells calls apart, and why one failed; a program's has all.
func TestShortLine(t *testing.T) {
	for _, wide := range []bool{false, true} {
		var out bytes.Buffer
		log, err := obs.NewLogger(&out, "info", "text")
		if err != nil {
			t.Fatal(err)
		}
		a, _ := newAPI(t, func(o *httpapi.Options) { o.Logger, o.WideLog = log, wide })
		for _, key := range []string{tenantKey, "wrong"} {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/sandboxes/x/files/stat?path=/secret", nil)
			req.Header.Set("Authorization", "Bearer "+key)
			req.Header.Set("User-Agent", "some-agent")
			a.Handler().ServeHTTP(httptest.NewRecorder(), req)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 {
			t.Fatalf("%d lines:\n%s", len(lines), out.String())
		}
		for i, status := range []string{"404", "401"} {
			for _, want := range []string{"method=GET", "path=/v1/sandboxes/x/files/stat ", "status=" + status, "dur_ms=", "request_id=", "code=", "err="} {
				if !strings.Contains(lines[i], want) {
					t.Errorf("no %s in %s", want, lines[i])
				}
			}
			for _, more := range []string{"operation=statFile", "user_agent=some-agent"} {
				if strings.Contains(lines[i], more) != wide {
					t.Errorf("wide %v: %s", wide, lines[i])
				}
			}
			if strings.Contains(lines[i], "secret") {
				t.Errorf("a query is logged: %s", lines[i])
			}
		}
		if !strings.Contains(lines[1], "remote=") {
			t.Errorf("whose failure? %s", lines[1])
		}
	}
}

func TestPanic(t *testing.T) {
	lines := make(chan logLine, 16)
	c, fake := newClient(t, withLog(lines))
	fake.fail["panic"] = errors.New("yes")
	_, err := c.Sandboxes().Get(t.Context(), "x")
	e := wantCode(t, err, shoal.CodeInternal)
	line := <-lines
	if strings.Contains(e.Message, "secret") || !strings.Contains(e.Message, line.attrs["request_id"]) {
		t.Errorf("the caller is told %q", e.Message)
	}
	if line.level != slog.LevelError || !strings.Contains(line.attrs["err"], "panic: the store is gone") {
		t.Errorf("the log says %v", line)
	}
}

func TestRateLimit(t *testing.T) {
	c, _ := newClient(t, func(o *httpapi.Options) { o.Rates = httpserve.NewRates(0.01, 2) })
	c.MaxRetries = -1
	for range 2 {
		if _, err := c.Version(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.Version(t.Context())
	if e := wantCode(t, err, shoal.CodeQuota); e.Status != 429 || e.RetryAfter < 90*time.Second {
		t.Errorf("got %+v", e)
	}
	if err := c.Health(t.Context()); err != nil {
		t.Errorf("probes are limited: %v", err)
	}
	c.APIKey = otherKey
	if _, err := c.Version(t.Context()); err != nil {
		t.Errorf("another tenant is limited: %v", err)
	}
}

func TestHosts(t *testing.T) {
	for _, tt := range []struct {
		loopback bool
		host     string
		want     int
	}{
		{true, "localhost:8700", 200},
		{true, "LOCALHOST", 200},
		{true, "127.9.9.9:1", 200},
		{true, "[::1]:80", 200},
		{true, "::1", 200},
		{true, "box.internal:8700", 200},
		{true, "evil.example", 403},
		{true, "127.0.0.1.evil.example", 403},
		{true, "10.0.0.1", 403},
		{true, "", 403},
		{false, "any.example", 200},
	} {
		a, _ := newAPI(t, func(o *httpapi.Options) { o.Loopback, o.Hosts = tt.loopback, []string{"box.internal"} })
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil)
		req.Host = tt.host
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, req)
		if w.Code != tt.want {
			t.Errorf("loopback %v, host %q: %d, want %d", tt.loopback, tt.host, w.Code, tt.want)
		}
	}
}

// dial opens a WebSocket on a fresh process that runs until it is told to stop.
func dial(t *testing.T, c *shoal.Client, query string, o *websocket.DialOptions) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	e, err := c.Execs("x").Start(t.Context(), shoal.ExecRequest{Cmd: []string{"cat"}, StdinOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	if o.HTTPHeader == nil {
		o.HTTPHeader = http.Header{}
	}
	o.HTTPHeader.Set("Authorization", "Bearer "+tenantKey)
	conn, resp, err := websocket.Dial(t.Context(), c.BaseURL+"/v1/sandboxes/x/execs/"+e.ID+"/attach"+query, o)
	if err == nil {
		t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, resp, err
}

func TestOrigin(t *testing.T) {
	c, _ := newClient(t, nil)
	create(t, c, "x")
	for origin, ok := range map[string]bool{
		c.BaseURL: true, "https://evil.example": false, "null": false, strings.Replace(c.BaseURL, "http:", "https:", 1): false,
	} {
		_, resp, err := dial(t, c, "", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {origin}}})
		if ok != (err == nil) || (!ok && resp.StatusCode != http.StatusForbidden) {
			t.Errorf("origin %q: %v", origin, err)
		}
	}
}

// TestSocketMessages has the conversation in JSON frames, and each message that is refused.
func TestSocketMessages(t *testing.T) {
	c, _ := newClient(t, nil)
	create(t, c, "x")
	conn, _, err := dial(t, c, "?frames=json", &websocket.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{`{"type":"stdin","data":"text "}`, `{"type":"stdin","data_raw":"/w=="}`, `{"type":"close_stdin"}`} {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	var out []byte
	for {
		kind, data, err := conn.Read(t.Context())
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
				t.Errorf("closed with %v", err)
			}
			break
		}
		var m shoal.ExecMessage
		if err := json.Unmarshal(data, &m); err != nil || kind != websocket.MessageText {
			t.Fatalf("frame %q: %v", data, err)
		}
		out = append(out, m.Bytes()...)
	}
	if string(out) != "text \xff" {
		t.Errorf("got %q", out)
	}
	for in, reason := range map[string]string{
		`{"type":"dance"}`: `type: unknown type "dance"`, `{"type":"stdin","rows":1}`: `rows: stdin has no field "rows"`,
		`{`: "body: the body is not well-formed JSON", `{"type":"signal","signal":"SIGNOPE"}`: "signal: no such signal",
		`{"type":"signal","signal":"9"}`: "signal: signal is a name such as SIGTERM", `{"type":"resize","rows":0,"cols":1}`: "rows: rows is from 1 to 65535",
		`{"type":"stdin","data":"a","data_raw":"YQ=="}`: "data_raw: give either data or data_raw", `{"type":"stdin","x":1}`: `x: unknown field "x"`,
	} {
		conn, _, err := dial(t, c, "", &websocket.DialOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(in)); err != nil {
			t.Fatal(err)
		}
		_, _, err = conn.Read(t.Context())
		var closed websocket.CloseError
		if !errors.As(err, &closed) || closed.Code != websocket.StatusPolicyViolation || closed.Reason != reason {
			t.Errorf("%s: closed with %v, want reason %q", in, err, reason)
		}
	}
}

// TestKeepalive shows that a silent stream says that it lives, in each of its forms.
func TestKeepalive(t *testing.T) {
	c, _ := newClient(t, func(o *httpapi.Options) { o.Keepalive = 5 * time.Millisecond })
	create(t, c, "x")
	t.Run("ndjson", func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.BaseURL+"/v1/sandboxes/x/execs", strings.NewReader(`{"cmd":["wait"]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer " + tenantKey}, "Accept": {"application/x-ndjson"}, "Content-Type": {"application/json"}}
		resp, err := c.HTTPClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		scan := bufio.NewScanner(resp.Body)
		for seen := 0; seen < 3; {
			if !scan.Scan() {
				t.Fatalf("the stream ended: %v", scan.Err())
			}
			if scan.Text() == `{"type":"keepalive"}` {
				seen++
			}
		}
	})
	t.Run("websocket", func(t *testing.T) {
		var pings atomic.Int32
		enough := make(chan struct{})
		conn, _, err := dial(t, c, "", &websocket.DialOptions{OnPingReceived: func(context.Context, []byte) bool {
			if pings.Add(1) == 3 {
				close(enough)
			}
			return true
		}})
		if err != nil {
			t.Fatal(err)
		}
		conn.CloseRead(t.Context())
		<-enough
	})
}

// TestDeadClient shows that a WebSocket client that doesn't answer is dropped and the process goes on.
func TestDeadClient(t *testing.T) {
	lines := make(chan logLine, 16)
	c, fake := newClient(t, func(o *httpapi.Options) {
		o.Keepalive, o.Stall, o.Logger = time.Millisecond, 20*time.Millisecond, slog.New(logTo{lines})
	})
	create(t, c, "x")
	// Nothing reads from this connection, so no ping is answered.
	if _, _, err := dial(t, c, "", &websocket.DialOptions{}); err != nil {
		t.Fatal(err)
	}
	for line := range lines {
		if line.attrs["operation"] == "attachExec" {
			break
		}
	}
	if p := fake.procs["s000000000000000000001"][0]; p.ended() {
		t.Error("the process ended with its follower")
	}
}

// TestSlowReader shows that a client that doesn't read its stream is dropped once it has stalled, that this is no fault of
// the server's in the log, and that the process is left alone.
func TestSlowReader(t *testing.T) {
	lines := make(chan logLine, 16)
	c, fake := newClient(t, func(o *httpapi.Options) { o.Stall, o.Logger = 50*time.Millisecond, slog.New(logTo{lines}) })
	create(t, c, "x")
	<-lines
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(c.BaseURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	body := `{"shell":"flood 30000000"}`
	if _, err := fmt.Fprintf(conn, "POST /v1/sandboxes/x/execs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
		"Accept: application/x-ndjson\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", tenantKey, len(body), body); err != nil {
		t.Fatal(err)
	}
	line := <-lines
	if line.attrs["operation"] != "createExec" || line.attrs["code"] != "canceled" || line.level == slog.LevelError {
		t.Errorf("the log says %v", line)
	}
	p := fake.procs["s000000000000000000001"][0]
	<-p.done
	if r := p.record(); r.Outcome != core.OutcomeExited {
		t.Errorf("the process was %s", r.Outcome)
	}
}

// TestShutdown ends a server under a stream, a WebSocket, a follower of events and a waiting exec.
func TestShutdown(t *testing.T) {
	a, _ := newAPI(t, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- a.Serve(ctx, ln, 50*time.Millisecond) }()
	c := &shoal.Client{BaseURL: "http://" + ln.Addr().String(), APIKey: tenantKey, HTTPClient: &http.Client{Transport: &http.Transport{}}, MaxRetries: -1}
	create(t, c, "x")
	wait := shoal.ExecRequest{Cmd: []string{"wait"}}
	stream, err := c.Execs("x").Stream(t.Context(), wait)
	if err != nil {
		t.Fatal(err)
	}
	started, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	socket, err := c.Execs("x").Attach(t.Context(), started.Exec.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	results := make(chan error, 4)
	following := make(chan struct{})
	go func() {
		for _, err := range c.Events().Follow(t.Context(), shoal.EventsOptions{}) {
			if err != nil {
				results <- err
				return
			}
			close(following)
		}
	}()
	<-following
	go func() { _, err := stream.Recv(); results <- err }()
	go func() { _, err := socket.Recv(); results <- err }()
	go func() {
		_, err := c.Execs("x").Run(t.Context(), wait)
		results <- err
	}()
	for running := 0; running < 2; {
		running = 0
		for _, err := range c.Execs("x").List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			running++
		}
	}
	stop()
	for range 4 {
		wantCode(t, <-results, shoal.CodeUnavailable)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := c.Version(t.Context()); shoal.ErrorCode(err) != shoal.CodeUnavailable {
		t.Errorf("after the end: %v", err)
	}
}

// TestShutdownWaitsForSockets shows that Serve returns only once nobody uses control any more: an http.Server by itself does not
// wait for a connection that was taken over.
func TestShutdownWaitsForSockets(t *testing.T) {
	a, fake := newAPI(t, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- a.Serve(ctx, ln, time.Second) }()
	c := &shoal.Client{BaseURL: "http://" + ln.Addr().String(), APIKey: tenantKey, MaxRetries: -1}
	create(t, c, "x")
	e, err := c.Execs("x").Start(t.Context(), shoal.ExecRequest{Cmd: []string{"wait"}})
	if err != nil {
		t.Fatal(err)
	}
	hold := make(chan struct{})
	p := fake.procs["s000000000000000000001"][0]
	p.update(func() { p.hold = hold })
	socket, err := c.Execs("x").Attach(t.Context(), e.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := socket.Recv(); ended <- err }()
	stop()
	select {
	case err := <-served:
		t.Fatalf("Serve returned under an attached client: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	close(hold)
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	wantCode(t, <-ended, shoal.CodeUnavailable)
}

// TestLaterIsNotHere: what this release has is not said to come later.
func TestLaterIsNotHere(t *testing.T) {
	for _, pattern := range httpapi.Later() {
		for _, route := range api.Routes() {
			if pattern == route.Path || pattern == route.Method+" "+route.Path {
				t.Errorf("%s is said to come later, and there is %s", pattern, route.ID)
			}
		}
	}
}

// TestLaterCallsNeedNoKey shows that a call of a later release is told apart from a misspelt one, whoever asks.
func TestLaterCallsNeedNoKey(t *testing.T) {
	a, _ := newAPI(t, nil)
	for path, want := range map[string]int{"/v1/sandboxes/x/standby": 501, "/v1/sandboxes/x/stndby": 404} {
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path, nil))
		if data, err := io.ReadAll(w.Body); w.Code != want || err != nil {
			t.Errorf("%s: %d %s", path, w.Code, data)
		}
	}
}
