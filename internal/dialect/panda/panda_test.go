package panda_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/dialect/panda"
	"shoal/internal/httpserve"
)

// lockedWriter lets a test read a log while it is written.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func newSandbox(t *testing.T, url string) {
	t.Helper()
	if res, body := call(t, "POST", url+"/v1/sandboxes", `{"template":"base"}`); res.StatusCode != http.StatusCreated {
		t.Fatalf("create: %d %s", res.StatusCode, body)
	}
}

func TestNewNeedsItsParts(t *testing.T) {
	if _, err := panda.New(dialect.Config{}); err == nil {
		t.Error("made from nothing")
	}
}

// TestExecIsALogin holds who a command runs as and where, and that a home that is gone doesn't keep it from running.
func TestExecIsALogin(t *testing.T) {
	f := newFake()
	url, _ := serve(t, f, nil)
	newSandbox(t, url)
	f.result, f.noHome = ended(core.OutcomeExited, code(0), ""), true
	for _, path := range []string{"/exec", "/exec/stream"} {
		f.messages = []core.ExecMessage{end(f.result.Exec)}
		if res, body := call(t, "POST", url+"/v1/sandboxes/"+id+path, `{"cmd":"a && b","timeout_seconds":1.5}`); res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
		if len(f.specs) != 2 || f.specs[0].Cwd != "/root" || f.specs[1].Cwd != "/" {
			t.Fatalf("%s: %+v", path, f.specs)
		}
		for _, s := range f.specs {
			if s.Shell != "a && b" || s.User != "root" || s.Timeout != 1500*time.Millisecond || s.Detach || s.Stdin {
				t.Errorf("%s: %+v", path, s)
			}
		}
		f.specs = nil
	}
}

// TestCallsAreUse holds that looking at a sandbox keeps it, and looking at all of them doesn't.
func TestCallsAreUse(t *testing.T) {
	f := newFake()
	url, _ := serve(t, f, nil)
	newSandbox(t, url)
	call(t, "GET", url+"/v1/sandboxes", "")
	if f.touched != 0 {
		t.Error("a list is use")
	}
	at := url + "/v1/sandboxes/" + id
	call(t, "GET", at, "")
	call(t, "GET", at+"/lifecycle", "")
	call(t, "PATCH", at+"/lifecycle", "{}")
	if f.touched != 3 {
		t.Errorf("%d uses", f.touched)
	}
	f.mu.Lock()
	f.sandboxes[0].ActiveAt = time.Now().Add(-time.Minute)
	f.mu.Unlock()
	if _, body := call(t, "GET", at+"/lifecycle", ""); body != `{"ttl_seconds":3600,"persistent":false,"idle_seconds":60}`+"\n" {
		t.Error(body)
	}
}

// TestStreamEndsAlways holds that a client is told when the server goes, and that silence is filled.
func TestStreamEndsAlways(t *testing.T) {
	f := newFake()
	closing, stop := context.WithCancel(context.Background())
	defer stop()
	url := servePinging(t, f, closing, 10*time.Millisecond)
	newSandbox(t, url)
	f.messages, f.open = []core.ExecMessage{out("a")}, make(chan struct{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/sandboxes/"+id+"/exec/stream", strings.NewReader(`{"cmd":"sleep"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer pds_one")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines, pings, failure := bufio.NewScanner(res.Body), 0, ""
	for lines.Scan() {
		switch {
		case lines.Text() == ": ping":
			if pings++; pings == 2 {
				stop()
			}
		case strings.HasPrefix(lines.Text(), `data: {"error":`):
			failure = lines.Text()
		}
	}
	if pings < 2 || !strings.Contains(failure, "shutting down") || strings.Contains(strings.ToLower(failure), "timeout") {
		t.Errorf("%d pings, then %q", pings, failure)
	}
}

// TestBrokenListIsCut holds that a list that can't be finished is no shorter list.
func TestBrokenListIsCut(t *testing.T) {
	f := newFake()
	url, _ := serve(t, f, nil)
	for range 3 {
		newSandbox(t, url)
	}
	f.fail["ListSandboxes2"] = core.Errorf(core.CodeUnavailable, "the store is busy")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/sandboxes", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer pds_one")
	res, err := http.DefaultClient.Do(req)
	if err == nil {
		_, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
	}
	if err == nil {
		t.Error("half a list was taken for the whole")
	}
}

// TestManyEntries lists a directory that has more than one page.
func TestManyEntries(t *testing.T) {
	f := newFake()
	url, _ := serve(t, f, nil)
	newSandbox(t, url)
	for _, n := range []int{499, 500, 1203} {
		dir := fmt.Sprintf("/d%d", n)
		f.guest.files[dir] = core.FileInfo{Name: dir[1:], Path: dir, Type: core.FileDirectory}
		for i := range n {
			f.guest.put(fmt.Sprintf("%s/f%05d", dir, i), nil)
		}
		_, body := call(t, "GET", url+"/v1/sandboxes/"+id+"/fs/dir?path="+dir, "")
		var list struct {
			Path    string
			Entries []struct{ Path string }
		}
		if err := json.Unmarshal([]byte(body), &list); err != nil || list.Path != dir || len(list.Entries) != n {
			t.Errorf("%d: %q, %d entries, %v", n, list.Path, len(list.Entries), err)
			continue
		}
		if last := list.Entries[n-1].Path; last != fmt.Sprintf("%s/f%05d", dir, n-1) {
			t.Errorf("the last is %s", last)
		}
	}
}

// TestFilesAreWhole writes and reads what is large and no text, and cuts an upload off.
func TestFilesAreWhole(t *testing.T) {
	f := newFake()
	url, _ := serve(t, f, nil)
	newSandbox(t, url)
	big := bytes.Repeat([]byte{0, 0xff, '\r', '\n', 0xc3}, 9<<20)
	at := url + "/v1/sandboxes/" + id + "/fs?path=/big"
	if res, body := call(t, "PUT", at, string(big)); res.StatusCode != http.StatusOK || body != fmt.Sprintf("{\"path\":\"/big\",\"bytes\":%d}\n", len(big)) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, body := call(t, "GET", at, "", "Accept: application/json"); body != string(big) || res.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%d bytes of %s", len(body), res.Header.Get("Content-Type"))
	}
	if !slices.Equal(f.guest.writes, []core.WriteOptions{{User: "root", Parents: true}}) {
		t.Errorf("written with %+v", f.guest.writes)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintf(conn, "PUT /v1/sandboxes/%s/fs?path=/big HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer pds_one\r\nContent-Length: 99\r\n\r\nhalf", id)
	if c, ok := conn.(*net.TCPConn); !ok || c.CloseWrite() != nil {
		t.Fatal("the connection can't be half closed")
	}
	reply, err := io.ReadAll(conn)
	_ = conn.Close()
	if err != nil || !bytes.Contains(reply, []byte("400 Bad Request")) || !bytes.Contains(reply, []byte("cut off")) {
		t.Errorf("%v %s", err, reply)
	}
	if !bytes.Equal(f.guest.data["/big"], big) {
		t.Error("half an upload was written")
	}
}

// TestHeldOutputIsBounded holds that execs beyond the room for their output are turned away with words, before they start.
func TestHeldOutputIsBounded(t *testing.T) {
	f := newFake()
	room := httpserve.NewCollecting(8 << 20)
	url, _ := serve(t, f, func(cfg *dialect.Config) { cfg.Collecting = room })
	newSandbox(t, url)
	for err := error(nil); err == nil; {
		_, _, err = room.Take("")
	}
	res, body := call(t, "POST", url+"/v1/sandboxes/"+id+"/exec", `{"cmd":"true"}`)
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "exec/stream") || len(f.specs) != 0 {
		t.Errorf("%d %s, %d started", res.StatusCode, body, len(f.specs))
	}
}

// TestSecretsStayOutOfTheLog holds that neither a key in an address nor a command is logged.
func TestSecretsStayOutOfTheLog(t *testing.T) {
	f := newFake()
	url, log := serve(t, f, nil)
	call(t, "GET", url+"/v1/sandboxes/none?access_token=pds_one", "", "Authorization: ")
	call(t, "GET", url+"/v1/me?access_token=pds_wrong", "", "Authorization: ")
	call(t, "POST", url+"/v1/sandboxes/none/exec", `{"cmd":"echo hush"}`)
	if s := log.String(); strings.Contains(s, "pds_") || strings.Contains(s, "hush") || !strings.Contains(s, "operation=exec.run") {
		t.Errorf("logged: %s", s)
	}
}

// TestEveryMissingCall tries all that the vendor has and we don't: each says what is missing and makes no SDK wait or conclude a timeout.
func TestEveryMissingCall(t *testing.T) {
	f := newFake()
	url, _ := serve(t, f, nil)
	newSandbox(t, url)
	in := "/v1/sandboxes/" + id
	for _, path := range []string{
		in + "/pause", in + "/resume", in + "/hibernate", in + "/wake", in + "/stop", in + "/start", in + "/fork", in + "/fork-tree", in + "/promote",
		in + "/snapshots", "/v1/snapshots", "/v1/snapshots/x", in + "/repl", in + "/repl/sessions", in + "/repl/sessions/x/run", in + "/repl/languages",
		in + "/ports", in + "/ports/80", in + "/preview", in + "/preview-token", in + "/proxy/80/x/y", in + "/logs?stream=both&follow=1", in + "/events",
		in + "/metrics", in + "/exec/pty", in + "/exec/ws", in + "/ssh", in + "/lsp/python", in + "/mcp", "/v1/mcp", "/v1/templates/build",
		"/v1/templates/builds", "/v1/templates/builds/x/logs", "/v1/volumes", "/v1/volumes/x", "/v1/functions", "/v1/functions/x/invoke", "/v1/schedules",
		"/v1/schedules/x/trigger", "/v1/databases", "/v1/databases/x/connection", "/v1/apps", "/v1/apps/x/deploys/y/logs", "/v1/preview-repos",
		"/v1/repos/1/preview-env/import", "/v1/me/tokens", "/v1/me/tokens/x", "/v1/orgs/x/members", "/v1/invites", "/v1/stats/boot", "/v1/audit",
		"/v1/metrics/overview", "/v1/metrics/sandbox/x",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			res, body := call(t, method, url+path, "")
			var e struct{ Error, Message, Code string }
			err := json.Unmarshal([]byte(body), &e)
			if res.StatusCode != http.StatusNotImplemented || err != nil || e.Code != "request.unsupported" || len(e.Error) < 20 || e.Error != e.Message ||
				strings.Contains(strings.ToLower(e.Error), "timeout") || res.Header.Get("Retry-After") != "" {
				t.Errorf("%s %s: %d %s", method, path, res.StatusCode, body)
			}
		}
	}
}
