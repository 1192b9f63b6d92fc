package shoal

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answers returns a client of a server that gives one answer after another, and how often it was asked.
func answers(t *testing.T, list ...http.HandlerFunc) (*Client, *atomic.Int32) {
	t.Helper()
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := int(n.Add(1)) - 1
		list[min(i, len(list)-1)](w, r)
	}))
	t.Cleanup(server.Close)
	return &Client{BaseURL: server.URL + "/", HTTPClient: server.Client()}, &n
}

func refuse(status int, code Code) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":{"code":"`+string(code)+`","message":"m","doc":"d","request_id":"r"}}`)
	}
}

func ok(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodDelete {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	_, _ = io.WriteString(w, `{}`)
}

// breakOff ends the connection without a reply.
func breakOff(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func TestRetries(t *testing.T) {
	get := func(c *Client) error { _, err := c.Version(t.Context()); return err }
	remove := func(c *Client) error { return c.Sandboxes().Delete(t.Context(), "x") }
	create := func(c *Client) error {
		_, err := c.Sandboxes().Create(t.Context(), CreateSandboxRequest{})
		return err
	}
	write := func(c *Client) error {
		_, err := c.Files("x").Write(t.Context(), "/f", strings.NewReader("a"), WriteOptions{})
		return err
	}
	unavailable, missing := refuse(503, CodeUnavailable), refuse(404, CodeNotFound)
	for _, tt := range []struct {
		name    string
		call    func(*Client) error
		retries int
		answers []http.HandlerFunc
		code    Code
		asked   int32
	}{
		{"get goes on", get, 0, []http.HandlerFunc{unavailable, refuse(503, CodeExhausted), ok}, "", 3},
		{"get gives up", get, 1, []http.HandlerFunc{unavailable}, CodeUnavailable, 2},
		{"no retries", get, -1, []http.HandlerFunc{unavailable}, CodeUnavailable, 1},
		{"waiting doesn't help", get, 0, []http.HandlerFunc{refuse(409, CodeConflict)}, CodeConflict, 1},
		{"create is not repeated after a reply", create, 0, []http.HandlerFunc{unavailable}, CodeUnavailable, 1},
		{"create whose reply was lost", create, 0, []http.HandlerFunc{breakOff, breakOff, ok}, "", 3},
		{"create behind a proxy in trouble", create, 0, []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, ok}, "", 2},
		{"a body that is read once is not repeated", write, 0, []http.HandlerFunc{unavailable}, CodeUnavailable, 1},
		{"delete whose answer was lost", remove, 0, []http.HandlerFunc{unavailable, missing}, "", 2},
		{"delete of nothing", remove, 0, []http.HandlerFunc{missing}, CodeNotFound, 1},
		{"proxy in trouble", get, 0, []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, ok}, "", 2},
		{"not a Shoal server", get, 0, []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418) }}, CodeInternal, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, asked := answers(t, tt.answers...)
			c.MaxRetries = tt.retries
			if err := tt.call(c); ErrorCode(err) != tt.code || (err == nil) != (tt.code == "") {
				t.Errorf("got %v, want code %q", err, tt.code)
			}
			if asked.Load() != tt.asked {
				t.Errorf("asked %d times, want %d", asked.Load(), tt.asked)
			}
		})
	}
}

func TestDelay(t *testing.T) {
	for attempt := range 20 {
		d, ok := delay(&Error{Code: CodeUnavailable}, attempt)
		if want := min(firstDelay<<min(attempt, 10), maxDelay); !ok || d < want/2 || d > want {
			t.Errorf("attempt %d: %v, want %v to %v", attempt, d, want/2, want)
		}
	}
	if d, ok := delay(&Error{Code: CodeQuota, RetryAfter: 7 * time.Second}, 0); !ok || d != 7*time.Second {
		t.Errorf("RetryAfter is not honoured: %v, %v", d, ok)
	}
	if _, ok := delay(&Error{Code: CodeQuota, RetryAfter: time.Hour}, 0); ok {
		t.Error("waits an hour")
	}
	if _, ok := delay(context.Canceled, 0); ok {
		t.Error("goes on after its context has ended")
	}
}

func TestRetryEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, _ := answers(t, func(w http.ResponseWriter, r *http.Request) {
		cancel()
		w.Header().Set("Retry-After", "20")
		refuse(503, CodeUnavailable)(w, r)
	})
	if _, err := c.Version(ctx); err == nil {
		t.Error("no error")
	}
}

func TestErrors(t *testing.T) {
	c := &Client{BaseURL: "http://127.0.0.1:1", MaxRetries: -1}
	_, err := c.Version(t.Context())
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeUnavailable || e.Err == nil || errors.Unwrap(e) == nil {
		t.Errorf("a server that isn't there: %v", err)
	}
	for _, base := range []string{"ftp://x", "localhost:8700", "://", "/path"} {
		c := &Client{BaseURL: base}
		if _, err := c.Version(t.Context()); ErrorCode(err) != CodeInvalid {
			t.Errorf("base %q: %v", base, err)
		}
	}
	for _, ref := range []string{"", ".", ".."} {
		if _, err := (&Client{}).Sandboxes().Get(t.Context(), ref); ErrorCode(err) != CodeInvalid {
			t.Errorf("ref %q: %v", ref, err)
		}
	}
	if got := (&Error{Code: CodeInvalid, Message: "no", Field: "name", Err: io.EOF}).Error(); got != "invalid: no (name): EOF" {
		t.Errorf("text %q", got)
	}
	if ErrorCode(io.EOF) != "" || ErrorCode(nil) != "" {
		t.Error("foreign errors have a code")
	}
}

// TestPathsAreEscaped shows that what a caller names stays one part of the path.
func TestPathsAreEscaped(t *testing.T) {
	var got string
	c, _ := answers(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.EscapedPath()
		ok(w, r)
	})
	if _, err := c.Sandboxes().Get(t.Context(), "a/../b?c#d"); err != nil {
		t.Fatal(err)
	}
	if got != "/v1/sandboxes/a%2F..%2Fb%3Fc%23d" {
		t.Errorf("path %q", got)
	}
}

// TestBrokenStreams shows that a stream that ends before its end is an error.
func TestBrokenStreams(t *testing.T) {
	started := `{"type":"started","exec":{"id":"e1"}}` + "\n"
	for name, tt := range map[string]struct {
		body string
		code Code
	}{
		"cut":           {started + `{"type":"stdout","data":"a"}` + "\n", CodeUnavailable},
		"cut in a line": {started + `{"type":"std`, CodeUnavailable},
		"not JSON":      {started + "<html>\n", CodeInternal},
		"told why":      {started + `{"type":"error","error":{"code":"data_loss","message":"m"}}` + "\n", CodeDataLoss},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := answers(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tt.body) })
			s, err := c.Execs("x").Stream(t.Context(), ExecRequest{Cmd: []string{"a"}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			for err == nil {
				_, err = s.Recv()
			}
			if ErrorCode(err) != tt.code {
				t.Errorf("got %v, want code %s", err, tt.code)
			}
		})
	}
	c, _ := answers(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"type":"ended"}`+"\n") })
	if _, err := c.Execs("x").Stream(t.Context(), ExecRequest{}); ErrorCode(err) != CodeInternal {
		t.Errorf("a stream without a beginning: %v", err)
	}
}

// TestInputIsSplit shows that input larger than a call may hold arrives whole, and ends once.
func TestInputIsSplit(t *testing.T) {
	var sizes []string
	c, _ := answers(t, func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		sizes = append(sizes, strconv.Itoa(len(data)>>10)+" "+strconv.FormatBool(r.URL.Query().Get("end") == "true"))
		w.WriteHeader(http.StatusNoContent)
	})
	if err := c.Execs("x").WriteStdin(t.Context(), "e", make([]byte, maxInput+1), true); err != nil {
		t.Fatal(err)
	}
	if err := c.Execs("x").WriteStdin(t.Context(), "e", nil, true); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(sizes, ", "); got != "512 false, 0 true, 0 true" {
		t.Errorf("sent %s", got)
	}
}

func TestOutputFrame(t *testing.T) {
	m, err := outputFrame([]byte{2, 0, 0, 0, 0, 0, 0, 1, 0, 0xff})
	if err != nil || m.Type != MessageStderr || *m.Offset != 256 || string(m.Bytes()) != "\xff" {
		t.Errorf("got %+v, %v", m, err)
	}
	for _, bad := range [][]byte{nil, {1}, {3, 0, 0, 0, 0, 0, 0, 0, 0}} {
		if _, err := outputFrame(bad); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

// TestTheOtherScheme holds that a client which speaks http to an https server, or the other way round, is told so, at once.
func TestTheOtherScheme(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(ok))
	defer plain.Close()
	secret := httptest.NewUnstartedServer(http.HandlerFunc(ok))
	secret.Config.ErrorLog = log.New(io.Discard, "", 0)
	secret.StartTLS()
	defer secret.Close()
	for name, tt := range map[string]struct{ url, says string }{
		"https to http": {"https://" + plain.Listener.Addr().String(), "speaks http and not https: its address is " + plain.URL},
		"http to https": {"http://" + secret.Listener.Addr().String(), "speaks https and not http: its address is " + secret.URL},
	} {
		c := &Client{BaseURL: tt.url}
		_, get := c.Version(t.Context())
		_, attach := c.Execs("x").Attach(t.Context(), "y", 0)
		for call, err := range map[string]error{"get": get, "attach": attach} {
			var e *Error
			if !errors.As(err, &e) || e.Code != CodeInvalid || e.Field != "url" || !strings.Contains(e.Message, tt.says) {
				t.Errorf("%s, %s: %v, want it to say %q", name, call, err, tt.says)
			}
		}
	}
}
