package panda_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/dialect/panda"
	"shoal/internal/httpserve"
)

var update = flag.Bool("update", false, "write the golden files anew")

// serve starts a server of the dialect on the fake. log gets what it logs.
func serve(t *testing.T, f *fake, change func(*dialect.Config)) (url string, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	closing, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	cfg := dialect.Config{
		Control: f, Gate: dialect.NewGate(f, httpserve.NewStrangers(), httpserve.NewRates(1e6, 1e6)),
		Logger: slog.New(slog.NewTextHandler(&lockedWriter{w: log}, nil)), Closing: closing,
		Templates: map[string]string{"code-interpreter": "base", "ubuntu-24.04": "base", "gone": "nothing"},
	}
	if change != nil {
		change(&cfg)
	}
	h, err := panda.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL, log
}

// call makes a request and returns the reply with its body. head is lines of "Name: value".
func call(t *testing.T, method, url, body string, head ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer pds_one")
	for _, h := range head {
		name, value, _ := strings.Cut(h, ": ")
		if req.Header.Set(name, value); value == "" {
			req.Header.Del(name)
		}
		if name == "Host" {
			req.Host = value
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
	}
	return res, string(data)
}

const id = "s000000000000000000001"

// step is one request of the golden file; before changes the fake.
type step struct {
	about, method, path, body string
	head                      []string
	before                    func(*fake)
}

func code(n int) *int { return &n }

func ended(o core.Outcome, exit *int, signal string) core.ExecResult {
	return core.ExecResult{Exec: core.Exec{Outcome: o, ExitCode: exit, Signal: signal}, Stdout: []byte("out\n"), Stderr: []byte("err\n"), Duration: 38 * time.Millisecond}
}

func result(r core.ExecResult) func(*fake) { return func(f *fake) { f.result = r } }

func messages(m ...core.ExecMessage) func(*fake) { return func(f *fake) { f.messages = m } }

func failing(method string, err error) func(*fake) {
	return func(f *fake) { f.fail = map[string]error{method: err} }
}

func out(data string) core.ExecMessage {
	return core.ExecMessage{Kind: core.ExecStdout, Data: []byte(data)}
}

func end(e core.Exec) core.ExecMessage { return core.ExecMessage{Kind: core.ExecEnded, Exec: &e} }

// TestReplies holds the replies to the calls of the SDKs, and to mistakes, in testdata/replies.txt.
func TestReplies(t *testing.T) {
	f := newFake()
	url, _ := serve(t, f, nil)
	var got strings.Builder
	for _, s := range replySteps() {
		if s.before != nil {
			s.before(f)
		}
		res, body := call(t, s.method, url+s.path, s.body, s.head...)
		fmt.Fprintf(&got, "== %s\n%s %s", s.about, s.method, s.path)
		for _, h := range s.head {
			fmt.Fprintf(&got, "\n%s", h)
		}
		if len(s.body) > 200 {
			s.body = s.body[:40] + "…"
		}
		if s.body != "" {
			fmt.Fprintf(&got, "\n%s", s.body)
		}
		fmt.Fprintf(&got, "\n-- %d", res.StatusCode)
		for _, name := range []string{"Content-Type", "Retry-After", "Allow", "Www-Authenticate"} {
			if v := res.Header.Get(name); v != "" {
				fmt.Fprintf(&got, "\n%s: %s", name, v)
			}
		}
		if len(body) > 2000 {
			body = fmt.Sprintf("%s… (%d bytes)", body[:80], len(body))
		}
		fmt.Fprintf(&got, "\n%s\n", strings.TrimRight(body, "\n"))
		f.fail = map[string]error{}
	}
	ids := regexp.MustCompile(`(request.id"?:?"?\s*"?)[a-z0-9]{20,}`)
	checkGolden(t, "testdata/replies.txt", ids.ReplaceAllString(got.String(), "${1}ID"))
}

func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: run with -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), renew with -update:\n%s", file, diff)
	}
}

func replySteps() []step {
	return append(append(sandboxSteps(), execSteps()...), fileSteps()...)
}

func sandboxSteps() []step {
	const sandboxes, life = "/v1/sandboxes", "/v1/sandboxes/" + id + "/lifecycle"
	create := func(about, body string) step { return step{about: about, method: "POST", path: sandboxes, body: body} }
	full := &core.Error{Code: core.CodeExhausted, Message: "no room for 512 MiB: 0 B are left"}
	return []step{
		create("create, as the SDKs do", `{"template":"code-interpreter","metadata":{"tenant_id":"t=1","a":"b"}}`),
		create("create with an empty body", ""),
		create("create a persistent one", `{"template":"base","persistent":true,"metadata":null,"volumes":[]}`),
		create("unknown template", `{"template":"nope"}`),
		create("unknown field", `{"template":"base","cwd":"/"}`),
		create("wrong type", `{"template":"base","metadata":{"a":1}}`),
		create("not JSON", `template=base`),
		create("size", `{"template":"base","cpu":2}`),
		create("memory", `{"template":"base","memory_mb":512}`),
		create("from a saved state", `{"template":"base","from_snapshot":"x"}`),
		create("volumes", `{"template":"base","volumes":[{"name":"v","read_only":false}]}`),
		create("too much", `{"template":"`+strings.Repeat("x", 2<<20)+`"}`),
		{about: "full node", method: "POST", path: sandboxes, body: `{}`, before: failing("CreateSandbox", full)},
		{about: "template is being built", method: "POST", path: sandboxes, body: `{}`, before: failing("CreateSandbox", &core.Error{
			Code: core.CodeUnavailable, Field: "template", RetryAfter: 2 * time.Second, Message: "template base is still being built: connect: connection refused, I/O timeout",
		})},
		{about: "the server goes", method: "POST", path: sandboxes, body: `{}`, before: failing("CreateSandbox", core.Errorf(core.CodeUnavailable, "the server is closing"))},
		{about: "metadata that can't be kept", method: "POST", path: sandboxes, body: `{}`, before: failing("CreateSandbox", core.Invalid("labels", "at most 64 labels"))},
		{about: "a fault of ours", method: "POST", path: sandboxes, body: `{}`, before: failing("CreateSandbox", errors.New("disk on fire: i/o timeout"))},
		create("persistent with a ttl", `{"template":"base","persistent":true,"ttl_seconds":60}`),
		create("a ttl below zero", `{"template":"base","ttl_seconds":-1}`),
		create("a ttl that is no number", `{"template":"base","ttl_seconds":"60"}`),
		{about: "a ttl that is too long", method: "POST", path: sandboxes, body: `{"ttl_seconds":99999999}`, before: failing("CreateSandbox", core.Invalid("idle_seconds", "no"))},
		{about: "lifecycle of one without a ttl named", method: "GET", path: life},
		{about: "another ttl", method: "PATCH", path: life, body: `{"ttl_seconds":90}`},
		{about: "no ttl", method: "PATCH", path: life, body: `{"ttl_seconds":0}`},
		{about: "persistent", method: "PATCH", path: life, body: `{"persistent":true}`},
		{about: "a ttl for a persistent one", method: "PATCH", path: life, body: `{"ttl_seconds":90}`},
		{about: "persistent with a ttl", method: "PATCH", path: life, body: `{"persistent":true,"ttl_seconds":90}`},
		{about: "no ttl for a persistent one", method: "PATCH", path: life, body: `{"ttl_seconds":0}`},
		{about: "not persistent", method: "PATCH", path: life, body: `{"persistent":false}`},
		{about: "persistent and back with a ttl", method: "PATCH", path: life, body: `{"persistent":false,"ttl_seconds":30.5}`},
		{about: "nothing", method: "PATCH", path: life, body: ``},
		{about: "an unknown rule", method: "PATCH", path: life, body: `{"idle_seconds":3}`},
		{about: "of no sandbox", method: "PATCH", path: sandboxes + "/none/lifecycle", body: `{}`},
		{about: "list, over pages", method: "GET", path: sandboxes},
		{about: "list, the first page fails", method: "GET", path: sandboxes, before: failing("ListSandboxes", core.Errorf(core.CodeUnavailable, "the store is busy"))},
		{about: "unknown parameter", method: "GET", path: sandboxes + "?limit=5"},
		{about: "get", method: "GET", path: sandboxes + "/" + id},
		{about: "get what isn't there", method: "GET", path: sandboxes + "/none"},
		{about: "get another tenant's", method: "GET", path: sandboxes + "/" + id, head: []string{"Authorization: Bearer pds_two"}},
		{about: "no key", method: "GET", path: sandboxes, head: []string{"Authorization: "}},
		{about: "wrong key", method: "GET", path: sandboxes, head: []string{"Authorization: Bearer x"}},
		{about: "another scheme", method: "GET", path: sandboxes, head: []string{"Authorization: Basic cGRzX29uZQ=="}},
		{about: "key in the address", method: "GET", path: "/v1/me?access_token=pds_one", head: []string{"Authorization: "}},
		{about: "key in the address of a POST", method: "POST", path: sandboxes + "?access_token=pds_one", head: []string{"Authorization: "}},
		{about: "broken query", method: "GET", path: "/v1/me?a=%zz"},
		{about: "templates", method: "GET", path: "/v1/templates"},
		{about: "an alias", method: "GET", path: "/v1/templates/ubuntu-24.04"},
		{about: "a template that isn't there", method: "GET", path: "/v1/templates/org%2Fname"},
		{about: "the same, with a slash as it is", method: "GET", path: "/v1/templates/org/name"},
		{about: "a missing call without a body, of type text", method: "POST", path: sandboxes + "/" + id + "/pause", head: []string{"Content-Type: text/plain;charset=UTF-8"}},
		{about: "a missing noun", method: "GET", path: "/v1/volumes/x"},
		{about: "a missing call without a key", method: "GET", path: "/v1/volumes", head: []string{"Authorization: "}},
		{about: "keys", method: "POST", path: "/v1/me/tokens", body: `{"label":"x"}`},
		{about: "building templates", method: "GET", path: "/v1/templates/builds"},
		{about: "removing templates", method: "DELETE", path: "/v1/templates/base"},
		{about: "unknown path", method: "GET", path: "/v1/nothing"},
		{about: "dotted path", method: "GET", path: "/v1/sandboxes/../me"},
		{about: "wrong method", method: "PUT", path: sandboxes},
		{about: "delete", method: "DELETE", path: sandboxes + "/s000000000000000000002"},
		{about: "delete again", method: "DELETE", path: sandboxes + "/s000000000000000000002"},
	}
}

func execSteps() []step {
	const exec, stream = "/v1/sandboxes/" + id + "/exec", "/v1/sandboxes/" + id + "/exec/stream"
	run := func(about, body string, before func(*fake)) step {
		return step{about: about, method: "POST", path: exec, body: body, before: before}
	}
	follow := func(about string, before func(*fake)) step {
		return step{about: about, method: "POST", path: stream, body: `{"cmd":"true"}`, before: before}
	}
	killed := ended(core.OutcomeSignaled, nil, "SIGKILL")
	killed.OutOfMemory = true
	binary := ended(core.OutcomeExited, code(0), "")
	binary.Stdout = []byte("caf\xc3\xa9 \xff\xfe \"q\"\\\x00\x1b\u2028\U0001F600\n")
	long := ended(core.OutcomeExited, code(0), "")
	long.Stdout = bytes.Repeat([]byte("xé"), 1<<20)
	return []step{
		run("exec", `{"cmd":"echo out; exit 3","timeout_seconds":60}`, result(ended(core.OutcomeExited, code(3), ""))),
		run("output that is no text", `{"cmd":"x"}`, result(binary)),
		run("output that is too long", `{"cmd":"x"}`, result(long)),
		run("killed", `{"cmd":"x"}`, result(killed)),
		run("out of time", `{"cmd":"x","timeout_seconds":1}`, result(ended(core.OutcomeTimeout, nil, ""))),
		run("lost", `{"cmd":"x"}`, result(ended(core.OutcomeLost, nil, ""))),
		run("canceled", `{"cmd":"x"}`, result(ended(core.OutcomeCanceled, nil, ""))),
		run("an unknown signal", `{"cmd":"x"}`, result(ended(core.OutcomeSignaled, nil, "SIGODD"))),
		run("no command", `{}`, nil),
		run("unknown field", `{"cmd":"x","cwd":"/tmp"}`, nil),
		run("negative timeout", `{"cmd":"x","timeout_seconds":-1}`, nil),
		run("in a sandbox that failed", `{"cmd":"x"}`, failing("Exec", core.Errorf(core.CodeConflict, "the sandbox is failed: connect: connection refused"))),
		run("its guest agent is gone", `{"cmd":"x"}`, failing("Exec", core.Errorf(core.CodeUnavailable, "no answer: dial: i/o timeout (Timeout)"))),
		follow("stream", messages(core.ExecMessage{Kind: core.ExecStarted}, out("caf\xc3"), core.ExecMessage{Kind: core.ExecStderr, Data: []byte("e\n")},
			out("\xa9\n\u0085\xff"), out("\xf0\x9f"), end(core.Exec{Outcome: core.OutcomeExited, ExitCode: code(3)}))),
		follow("stream, killed", messages(end(core.Exec{Outcome: core.OutcomeSignaled, Signal: "SIGTERM"}))),
		follow("stream, out of time", messages(out("a"), end(core.Exec{Outcome: core.OutcomeTimeout}))),
		follow("stream, lost", messages(end(core.Exec{Outcome: core.OutcomeLost}))),
		follow("stream without an end", messages(out("a"))),
		follow("stream with a gap", messages(core.ExecMessage{Kind: core.ExecGap, Missing: 9})),
		{about: "stream in no sandbox", method: "POST", path: "/v1/sandboxes/none/exec/stream", body: `{"cmd":"true"}`},
	}
}

func fileSteps() []step {
	const fs = "/v1/sandboxes/" + id + "/fs"
	get := func(about, path string) step { return step{about: about, method: "GET", path: path} }
	return []step{
		get("read", fs+"?path=/dir/a.txt"),
		get("read what isn't there", fs+"?path=/none"),
		get("read a directory", fs+"?path=/dir"),
		get("a relative path", fs+"?path=dir"),
		get("no path", fs),
		get("two paths", fs+"?path=/a&path=/b"),
		get("a path with a NUL", fs+"?path=/a%00"),
		get("read a name that is not UTF-8", fs+"?path=/dir/caf%E9"),
		get("list", fs+"/dir?path=/dir"),
		get("list a file", fs+"/dir?path=/dir/a.txt"),
		get("stat", fs+"/stat?path=/dir/a.txt"),
		get("stat a link", fs+"/stat?path=/link"),
		get("stat a link that leads nowhere", fs+"/stat?path=/broken"),
		get("stat what isn't there", fs+"/stat?path=/none"),
		{about: "write", method: "PUT", path: fs + "?path=/new/with+space", body: "hello\x00world"},
		{about: "write to a full disk", method: "PUT", path: fs + "?path=/full/x", body: "hello"},
		{about: "write what is packed", method: "PUT", path: fs + "?path=/x", body: "hello", head: []string{"Content-Encoding: gzip"}},
		{about: "remove a directory that is not empty", method: "DELETE", path: fs + "?path=/dir"},
		{about: "remove it with all in it", method: "DELETE", path: fs + "?path=/dir&recursive=true"},
		{about: "remove what isn't there", method: "DELETE", path: fs + "?path=/dir"},
	}
}

// servePinging is serve with a short time of silence, for a server whose end the test decides.
func servePinging(t *testing.T, f *fake, closing context.Context, keepalive time.Duration) string { //nolint:revive // closing is no call's context.
	t.Helper()
	s := httptest.NewServer(panda.NewPinging(dialect.Config{
		Control: f, Gate: dialect.NewGate(f, httpserve.NewStrangers(), httpserve.NewRates(1e6, 1e6)), Logger: slog.New(slog.DiscardHandler),
		Closing: closing, Collecting: httpserve.NewCollecting(8 << 20),
	}, keepalive))
	t.Cleanup(s.Close)
	return s.URL
}
