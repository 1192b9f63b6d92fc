package isolation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// procField reads a number of /proc/PID/status.
func procField(t *testing.T, pid int, name string) (n int64) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, name+":"); ok {
			if _, err := fmt.Sscan(text, &n); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// answer is a reply that was read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// code is the error code of the reply; empty if it is none of ours.
func (a answer) code() string {
	var e struct {
		Error struct{ Code, Message string }
	}
	if json.Unmarshal(a.body, &e) != nil {
		return ""
	}
	return e.Error.Code
}

// send makes one request; edit may change all of it.
func (e env) send(t *testing.T, method, path string, body io.Reader, edit func(*http.Request)) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx(t), method, e.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Opaque = path // which is sent as it is written here
	req.Header.Set("Authorization", "Bearer "+e.Key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if edit != nil {
		edit(req)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %.80s: %v", method, path, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	if err != nil {
		t.Fatalf("%s %.80s: %v", method, path, err)
	}
	return answer{res.StatusCode, res.Header, data}
}

// refused asserts that a reply is an error of ours, and no fault of the server.
func refused(t *testing.T, what string, a answer, statuses ...int) {
	t.Helper()
	ok := len(statuses) == 0 && a.status >= 400 && a.status < 500
	for _, s := range statuses {
		ok = ok || a.status == s
	}
	if !ok || a.code() == "" {
		t.Errorf("%s: %d %.200s", what, a.status, a.body)
	}
	if bytes.Contains(a.body, []byte("goroutine")) || bytes.Contains(a.body, []byte(".go:")) {
		t.Errorf("%s: the reply tells of our insides: %s", what, a.body)
	}
}

func testKeys(t *testing.T, e env) {
	for name, value := range map[string]string{
		"none": "", "wrong": "Bearer wrong", "no scheme": e.Key, "basic": "Basic " + e.Key, "empty": "Bearer ", "longer": "Bearer " + e.Key + "x",
		"shorter": "Bearer " + e.Key[:len(e.Key)-1], "upper": "Bearer " + strings.ToUpper(e.Key), "long": "Bearer " + strings.Repeat("a", 60000), "two": "Bearer " + e.Key + " " + e.Key,
		"quote": `Bearer ' OR 1=1 --`, "percent": "Bearer %00",
	} {
		for _, path := range []string{"/v1/sandboxes", "/v1/sandboxes/neighbour", "/v1/events", "/metrics", "/v1/templates", "/v1/sandboxes/neighbour/files?path=/etc/passwd"} {
			ask := func() answer {
				return e.send(t, http.MethodGet, path, nil, func(r *http.Request) {
					r.Header.Del("Authorization")
					if value != "" {
						r.Header.Set("Authorization", value)
					}
				})
			}
			a := ask()
			if a.status == http.StatusTooManyRequests { // an earlier attack has used up what an address may fail
				harness.Eventually(t, time.Minute, "the key is looked at", func() error {
					if a = ask(); a.status == http.StatusTooManyRequests {
						return errors.New("not yet")
					}
					return nil
				})
			}
			refused(t, name+" key on "+path, a, http.StatusUnauthorized)
		}
	}
	for _, path := range []string{"/v1/sandboxes?key=" + e.Key, "/v1/sandboxes?access_token=" + e.Key, "/v1/sandboxes?authorization=Bearer+" + e.Key} {
		refused(t, "key in the query", e.send(t, http.MethodGet, path, nil, func(r *http.Request) { r.Header.Del("Authorization") }),
			http.StatusUnauthorized, http.StatusTooManyRequests)
	}
	// Who guesses on is refused unseen, and nobody else on the same address is.
	harness.Eventually(t, time.Minute, "guessing is stopped", func() error {
		a := e.send(t, http.MethodGet, "/v1/sandboxes", nil, func(r *http.Request) { r.Header.Set("Authorization", "Bearer guess") })
		if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
			return fmt.Errorf("status %d", a.status)
		}
		return nil
	})
	if a := e.send(t, http.MethodGet, "/v1/sandboxes", nil, nil); a.status != http.StatusOK {
		t.Errorf("with the good key: %d", a.status)
	}
	if log := e.Log(100000); strings.Contains(log, e.Key) {
		t.Error("the key is in the log")
	}
}

func testHostNames(t *testing.T, e env) {
	port := e.URL[strings.LastIndex(e.URL, ":"):]
	for _, host := range []string{"evil.example", "evil.example" + port, "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.1@evil.example", "10.88.0.1", "[::ffff:10.0.0.1]", "0.0.0.0", "", "169.254.169.254", "localhost evil"} {
		if strings.Contains(host, " ") || host == "" {
			continue // the client refuses to send it: testBrokenHTTP does
		}
		for _, path := range []string{"/v1/sandboxes", "/healthz", "/openapi.yaml", "/nowhere"} {
			refused(t, "host "+host, e.send(t, http.MethodGet, path, nil, func(r *http.Request) { r.Host = host }), http.StatusForbidden)
		}
	}
	x, err := e.Client.Execs(e.neighbour.ID).Start(ctx(t), shoal.ExecRequest{Cmd: []string{"sleep", "60"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Client.Execs(e.neighbour.ID).Cancel(context.Background(), x.ID) }()
	for _, origin := range []string{"http://evil.example", "null", "https://127.0.0.1" + port, "http://127.0.0.1", "http://localhost" + port, "file://", "http://127.0.0.1" + port + ".evil.example"} {
		a := e.send(t, http.MethodGet, "/v1/sandboxes/neighbour/execs/"+x.ID+"/attach", nil, func(r *http.Request) {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", "websocket")
			r.Header.Set("Sec-Websocket-Version", "13")
			r.Header.Set("Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
			r.Header.Set("Origin", origin)
		})
		refused(t, "origin "+origin, a, http.StatusForbidden)
	}
	a := e.send(t, http.MethodOptions, "/v1/sandboxes", nil, func(r *http.Request) {
		r.Header.Set("Origin", "http://evil.example")
		r.Header.Set("Access-Control-Request-Method", "POST")
	})
	if a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a page of another origin is let in: %v", a.header)
	}
}

func testPaths(t *testing.T, e env) {
	for _, ref := range []string{
		"..%2fneighbour", "%2e%2e", "..%2f..%2fetc%2fpasswd", "neighbour%00", "%00", "neighbour%2f", "NEIGHBOUR", strings.ToUpper(e.neighbour.ID), "neighbour%20", "neighbour%0a", "-", "*", "%25",
		strings.Repeat("a", 64), strings.Repeat("a", 20000), "%ff%fe", "neighbour;x", "neighbour'--", "..;", "n%c3%a4chbar", "neighbour%EF%BC%8F",
	} {
		for _, rest := range []string{"", "/execs", "/files?path=/etc/passwd", "/metrics"} {
			refused(t, fmt.Sprintf("sandbox %.40s%s", ref, rest), e.send(t, http.MethodGet, "/v1/sandboxes/"+ref+rest, nil, nil))
		}
		refused(t, fmt.Sprintf("delete %.40s", ref), e.send(t, http.MethodDelete, "/v1/sandboxes/"+ref, nil, nil))
	}
	for _, path := range []string{
		"/v1/sandboxes/../sandboxes", "/v1//sandboxes", "/v1/./sandboxes", "/v1/sandboxes/neighbour/../neighbour", "//evil.example/v1/sandboxes", "/v1/sandboxes/%2e%2e/sandboxes", "/v1/sandboxes/neighbour/execs/..%2f..",
		"/v1\\sandboxes", "/V1/sandboxes", "/v1/sandboxes%2fneighbour",
	} {
		a := e.send(t, http.MethodGet, path, nil, nil)
		refused(t, path, a)
		if a.header.Get("Location") != "" {
			t.Errorf("%s is redirected to %s", path, a.header.Get("Location"))
		}
	}
	for _, path := range []string{"", "relative", "%00", "/etc/passwd%00.txt", "/" + strings.Repeat("a", 5000), "~/x", "C:%5Cx", "%2e%2e/etc/passwd", "..%2f..%2fetc"} {
		refused(t, fmt.Sprintf("file %.40s", path), e.send(t, http.MethodGet, "/v1/sandboxes/neighbour/files?path="+path, nil, nil))
	}
	// A path that climbs ends at the sandbox's own root.
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	a := e.send(t, http.MethodGet, "/v1/sandboxes/neighbour/files?path=/../../../../../../etc/hostname", nil, nil)
	if a.status != http.StatusOK || strings.TrimSpace(string(a.body)) == host {
		t.Errorf("climbing: %d %q", a.status, a.body)
	}
}

func testBodies(t *testing.T, e env) {
	deep := strings.Repeat(`{"labels":`, 100000)
	for name, body := range map[string]string{
		"empty": "", "null": "null", "array": "[]", "text": `"x"`, "number": "1", "twice": `{}{}`, "trailing": `{} x`, "deep": deep, "deep array": strings.Repeat("[", 200000), "broken utf-8": "{\"name\":\"\xff\"}",
		"surrogate": `{"name":"\ud800"}`, "repeated": `{"name":"a","name":"b"}`, "case": `{"NAME":"a"}`, "unknown": `{"constructor":1}`, "null field": `{"name":null}`, "NUL": `{"name":"a\u0000b"}`,
		"negative memory": `{"memory_bytes":-1}`, "huge memory": `{"memory_bytes":9223372036854775808}`, "float memory": `{"memory_bytes":1e18}`, "fraction": `{"memory_bytes":1.5}`, "exponent bomb": `{"memory_bytes":1e999999999}`, "NaN": `{"vcpus":NaN}`, "infinity": `{"vcpus":1e999}`, "negative cpu": `{"vcpus":-1}`, "tiny cpu": `{"vcpus":1e-300}`, "zero cpu": `{"vcpus":0}`,
		"huge ttl": `{"ttl_seconds":9223372036854775807}`, "negative ttl": `{"ttl_seconds":-5}`, "text ttl": `{"ttl_seconds":"5"}`, "min disk": `{"disk_bytes":-9223372036854775808}`,
		"env name": `{"env":{"A=B":"x"}}`, "env NUL": `{"env":{"A":"a\u0000b"}}`, "empty env name": `{"env":{"":"x"}}`, "long name": `{"name":"` + strings.Repeat("a", 64) + `"}`, "name like an id": `{"name":"` + e.neighbour.ID + `"}`, "dashes": `{"name":"-a"}`,
		"large": `{"name":"` + strings.Repeat("a", 2<<20) + `"}`, "digits": `{"ttl_seconds":` + strings.Repeat("9", 100000) + `}`, "template path": `{"template":"../../etc"}`,
	} {
		a := e.send(t, http.MethodPost, "/v1/sandboxes", strings.NewReader(body), nil)
		refused(t, "create "+name, a)
	}
	for name, body := range map[string]string{
		"nothing": `{}`, "both": `{"cmd":["true"],"shell":"true"}`, "empty cmd": `{"cmd":[]}`, "empty program": `{"cmd":[""]}`, "NUL in cmd": `{"cmd":["a\u0000b"]}`, "NUL in env": `{"cmd":["true"],"env":{"A":"\u0000"}}`, "equal sign": `{"cmd":["true"],"env":{"A=B":""}}`,
		"negative timeout": `{"cmd":["true"],"timeout_seconds":-1}`, "huge timeout": `{"cmd":["true"],"timeout_seconds":1e300}`, "zero timeout": `{"cmd":["true"],"timeout_seconds":0}`, "NaN": `{"cmd":["true"],"timeout_seconds":NaN}`,
		"relative cwd": `{"cmd":["true"],"cwd":"x"}`, "terminal": `{"cmd":["true"],"tty":true,"rows":-1}`, "large terminal": `{"cmd":["true"],"tty":true,"cols":70000}`, "no such user": `{"cmd":["true"],"user":"no-such-user"}`, "user injection": `{"cmd":["true"],"user":"root:x:0"}`, "negative user": `{"cmd":["true"],"user":"-1"}`, "overflowing user": `{"cmd":["true"],"user":"4294967296"}`, "newline in user": `{"cmd":["true"],"user":"a\nroot"}`,
		"bad base64": `{"cmd":["true"],"stdin_raw":"!!"}`, "many arguments": `{"cmd":["true"` + strings.Repeat(`,"x"`, 300000) + `]}`,
	} {
		a := e.send(t, http.MethodPost, "/v1/sandboxes/neighbour/execs", strings.NewReader(body), nil)
		refused(t, "exec "+name, a)
	}
	a := e.send(t, http.MethodPost, "/v1/sandboxes", strings.NewReader("{}"), func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") })
	refused(t, "a form of another page", a, http.StatusUnsupportedMediaType)
	a = e.send(t, http.MethodPost, "/v1/sandboxes", strings.NewReader("{}"), func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") })
	refused(t, "compressed body", a, http.StatusNotImplemented)
	e.onlyNeighbour(t)
}

// onlyNeighbour asserts that no refused create has left anything.
func (e env) onlyNeighbour(t *testing.T) {
	t.Helper()
	for sb, err := range e.Client.Sandboxes().List(ctx(t), shoal.ListSandboxesOptions{}) {
		if err != nil || sb.ID != e.neighbour.ID {
			t.Errorf("a sandbox that nobody wanted: %s %s %v", sb.ID, sb.State, err)
		}
	}
}

func testHeaders(t *testing.T, e env) {
	for _, q := range []string{"?limit=-1", "?limit=0", "?limit=99999999999999999999", "?limit=1&limit=2", "?limit=NaN", "?limit=1e3", "?limit=%00", "?cursor=%ff", "?cursor=" + strings.Repeat("A", 30000), "?cursor=../../x", "?cursor=AAAA", "?state=none", "?deleted=1", "?deleted=TRUE", "?unknown=1", "?%zz", "?;", "?limit=1;x=2", "?label=", "?limit=0x10"} {
		refused(t, "list"+q[:min(len(q), 30)], e.send(t, http.MethodGet, "/v1/sandboxes"+q, nil, nil))
	}
	for _, q := range []string{"?after=-1", "?after=x", "?after=9223372036854775808", "?limit=100000000"} {
		refused(t, "events"+q, e.send(t, http.MethodGet, "/v1/events"+q, nil, nil))
	}
	// Header injection through values that are echoed.
	for _, v := range []string{"a%0d%0aX-Injected:%201", "a%0aSet-Cookie:%20a=b"} {
		a := e.send(t, http.MethodGet, "/v1/sandboxes/"+v+"?x="+v, nil, nil)
		refused(t, "injection", a)
		if a.header.Get("X-Injected") != "" || a.header.Get("Set-Cookie") != "" {
			t.Errorf("a header was injected: %v", a.header)
		}
	}
	for name, value := range map[string]string{"Idempotency-Key": strings.Repeat("x", 256), "If-Match": "*", "Content-Range": "bytes 0-1/2"} {
		a := e.send(t, http.MethodPost, "/v1/sandboxes", strings.NewReader("{}"), func(r *http.Request) { r.Header.Set(name, value) })
		want := http.StatusNotImplemented
		if name == "Idempotency-Key" {
			want = http.StatusBadRequest
		}
		refused(t, name, a, want)
	}
	for _, method := range []string{"TRACE", "CONNECT", "PATCH", "PUT", "FOO", "PROPFIND"} {
		if method == "CONNECT" {
			continue // has no path
		}
		a := e.send(t, method, "/v1/sandboxes", nil, nil)
		refused(t, method, a)
		if strings.Contains(string(a.body), e.Key) {
			t.Errorf("%s echoes the key", method)
		}
	}
	for _, h := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override", "Forwarded"} {
		a := e.send(t, http.MethodGet, "/v1/sandboxes/neighbour", nil, func(r *http.Request) { r.Header.Set(h, "DELETE") })
		if a.status != http.StatusOK {
			t.Errorf("%s: %d", h, a.status)
		}
	}
}

func testRanges(t *testing.T, e env) {
	e.Out(t, e.neighbour.ID, "printf 0123456789 > /root/ten; : > /root/none")
	get := func(path, value string) answer {
		return e.send(t, http.MethodGet, "/v1/sandboxes/neighbour/files?path="+url.QueryEscape(path), nil, func(r *http.Request) { r.Header.Set("Range", value) })
	}
	for value, want := range map[string]string{"bytes=0-0": "0", "bytes=9-": "9", "bytes=-1": "9", "bytes=-100": "0123456789", "bytes=5-9223372036854775807": "56789", "bytes=0-9223372036854775806": "0123456789", "bytes=-9223372036854775807": "0123456789"} {
		if a := get("/root/ten", value); a.status != http.StatusPartialContent || string(a.body) != want {
			t.Errorf("%s: %d %q", value, a.status, a.body)
		}
	}
	for _, value := range []string{"bytes=10-", "bytes=9223372036854775807-", "bytes=9223372036854775808-", "bytes=-0", "bytes=", "bytes=-", "bytes=5-4", "bytes=0-1,2-3", "bytes=" + strings.Repeat("0-1,", 5000) + "0-1", "items=0-1", "bytes=a-b", "bytes=0x1-2", "bytes=+1-2", "bytes= 1-2", "bytes=--1", "bytes=1-2-3"} {
		refused(t, value[:min(len(value), 40)], get("/root/ten", value))
	}
	refused(t, "a range of nothing", get("/root/none", "bytes=0-"), http.StatusRequestedRangeNotSatisfiable)
}

// testForeignIDs uses the exec of one sandbox under the name of another.
func testForeignIDs(t *testing.T, e env) {
	a, b := e.Sandbox(t, shoal.CreateSandboxRequest{}), e.Sandbox(t, shoal.CreateSandboxRequest{})
	x, err := e.Client.Execs(a.ID).Start(ctx(t), shoal.ExecRequest{Cmd: []string{"sleep", "100"}})
	if err != nil {
		t.Fatal(err)
	}
	execs := e.Client.Execs(b.ID)
	_, err = execs.Get(ctx(t), x.ID)
	wantCode(t, "get", err, "not_found")
	wantCode(t, "cancel", execs.Cancel(ctx(t), x.ID), "not_found")
	wantCode(t, "signal", execs.Signal(ctx(t), x.ID, "SIGKILL"), "not_found")
	_, err = execs.Attach(ctx(t), x.ID, 0)
	wantCode(t, "attach", err, "not_found")
	for _, id := range []string{strings.ToUpper(x.ID), x.ID + "a", x.ID[1:], "1", "0", "all"} {
		_, err = e.Client.Execs(a.ID).Get(ctx(t), id)
		wantCode(t, "exec "+id, err, "not_found")
	}
	if got, err := e.Client.Execs(a.ID).Get(ctx(t), x.ID); err != nil || !got.Running {
		t.Errorf("the exec was touched: %+v %v", got, err)
	}
	// An attach from beyond the end or before the beginning.
	for _, q := range []string{"?from=-1", "?from=9223372036854775808", "?from=x", "?frames=none"} {
		refused(t, "attach"+q, e.send(t, http.MethodGet, "/v1/sandboxes/"+a.ID+"/execs/"+x.ID+"/attach"+q, nil, nil))
	}
}
