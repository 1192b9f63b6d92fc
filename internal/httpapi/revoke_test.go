package httpapi_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"shoal/internal/core"
	shoal "shoal/sdk/go"
)

const keyGone = "the API key was deleted: what was started goes on"

// revoked ends the calls under way as if their key were deleted, once there is one, and returns when that was.
func revoked(t *testing.T, fake *fakeControl) time.Time {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for fake.revoke(core.Errorf(core.CodeUnauthenticated, keyGone)) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("no call is under way")
		}
		<-time.After(time.Millisecond)
	}
	return time.Now()
}

// soon fails unless something came within a second of a moment.
func soon(t *testing.T, since time.Time) {
	t.Helper()
	if took := time.Since(since); took > time.Second {
		t.Errorf("it took %s", took)
	}
}

// rawCall makes a request whose reply is read by the test.
func rawCall(t *testing.T, c *shoal.Client, method, path string, header http.Header, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.BaseURL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Authorization", "Bearer "+tenantKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// TestKeyRevokedDuringAStreamEndsIt: whatever is under way ends within a second of the loss of its key, and says why.
func TestKeyRevokedDuringAStreamEndsIt(t *testing.T) {
	t.Parallel()
	lines := http.Header{"Accept": {"application/x-ndjson"}, "Content-Type": {"application/json"}}
	for name, tc := range map[string]struct {
		method, path, body string
	}{
		"exec":             {http.MethodPost, "/v1/sandboxes/a/execs", `{"cmd":["wait"]}`},
		"sandbox's events": {http.MethodGet, "/v1/sandboxes/a/events?after=1000", ""},
		"events":           {http.MethodGet, "/v1/events?after=1000", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, fake := newClient(t, nil)
			create(t, c, "a")
			resp := rawCall(t, c, tc.method, tc.path, lines, strings.NewReader(tc.body))
			since := revoked(t, fake)
			var last string
			for scan := bufio.NewScanner(resp.Body); scan.Scan(); {
				last = scan.Text()
			}
			soon(t, since)
			if resp.StatusCode != http.StatusOK || !strings.Contains(last, `"type":"error"`) || !strings.Contains(last, `"unauthenticated"`) || !strings.Contains(last, keyGone) {
				t.Errorf("status %d, and the last line is %s", resp.StatusCode, last)
			}
		})
	}
	t.Run("a reply that waits for the end of an exec", func(t *testing.T) {
		t.Parallel()
		c, fake := newClient(t, nil)
		create(t, c, "a")
		ended := make(chan error, 1)
		go func() {
			_, err := c.Execs("a").Run(t.Context(), shoal.ExecRequest{Cmd: []string{"wait"}})
			ended <- err
		}()
		since := revoked(t, fake)
		e := wantCode(t, <-ended, shoal.CodeUnauthenticated)
		soon(t, since)
		if e.Status != http.StatusUnauthorized || e.Message != keyGone {
			t.Errorf("it ends with %+v", e)
		}
	})
	t.Run("an upload", func(t *testing.T) {
		t.Parallel()
		c, fake := newClient(t, nil)
		create(t, c, "a")
		r, w := io.Pipe()
		defer func() { _ = w.Close() }()
		go func() { _, _ = w.Write([]byte("the first part")) }()
		replied := make(chan *http.Response, 1)
		go func() { replied <- rawCall(t, c, http.MethodPut, "/v1/sandboxes/a/files?path=/tmp/x", nil, r) }()
		since := revoked(t, fake)
		resp := <-replied
		soon(t, since)
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(string(text), keyGone) {
			t.Errorf("it ends with %d: %s", resp.StatusCode, text)
		}
	})
	t.Run("attach", func(t *testing.T) {
		t.Parallel()
		c, fake := newClient(t, nil)
		create(t, c, "a")
		e, err := c.Execs("a").Start(t.Context(), shoal.ExecRequest{Cmd: []string{"wait"}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		conn, _, err := websocket.Dial(ctx, c.BaseURL+"/v1/sandboxes/a/execs/"+e.ID+"/attach", &websocket.DialOptions{
			HTTPHeader: http.Header{"Authorization": {"Bearer " + tenantKey}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.CloseNow() }()
		since := revoked(t, fake)
		for err == nil {
			_, _, err = conn.Read(ctx)
		}
		soon(t, since)
		if websocket.CloseStatus(err) != websocket.StatusPolicyViolation || !strings.Contains(err.Error(), keyGone) {
			t.Errorf("it ends with %v", err)
		}
	})
	t.Run("a client that reads nothing", func(t *testing.T) {
		t.Parallel()
		c, fake := newClient(t, nil)
		create(t, c, "a")
		resp := rawCall(t, c, http.MethodPost, "/v1/sandboxes/a/execs", lines, strings.NewReader(`{"cmd":["flood","33554432"]}`))
		since := revoked(t, fake)
		for fake.underWay() > 0 {
			if time.Since(since) > 5*time.Second {
				t.Fatal("its call goes on")
			}
			<-time.After(time.Millisecond)
		}
		soon(t, since)
		_ = resp
	})
}

// TestConnectionOutlivesARevokedKey: the next call on the connection of a stream that was ended is answered.
func TestConnectionOutlivesARevokedKey(t *testing.T) {
	t.Parallel()
	c, fake := newClient(t, nil)
	create(t, c, "a")
	transport := &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	for _, path := range []string{"/v1/events?after=1000", "/v1/sandboxes"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.BaseURL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+tenantKey)
		req.Header.Set("Accept", "application/x-ndjson, application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if path == "/v1/events?after=1000" {
			revoked(t, fake)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s, %v", path, resp.StatusCode, text, err)
		}
		_ = resp.Body.Close()
	}
}

// underWay is how many calls are under way.
func (f *fakeControl) underWay() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ends)
}
