package dialect_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"shoal/test/harness"
)

// testE2B runs E2B's SDKs and its command line, in both ways of pointing them at a server.
func testE2B(t *testing.T, e *env) {
	t.Run("requests", func(t *testing.T) { testE2BRequests(t, e) })
	for _, way := range []struct {
		name string
		to   func(t *testing.T, e *env) program
		// parallel opens many streams at once: over HTTP/1.1 and over HTTP/2, by one SDK each.
		parallel string
	}{{"one origin", e2bOrigin, "parallel.mjs"}, {"host names", e2bDomain, "parallel.py"}} {
		t.Run(way.name, func(t *testing.T) {
			for _, file := range []string{"calls.mjs", "calls.py", "calls_async.py", "ending.mjs", "ending.py", way.parallel} {
				t.Run(file, func(t *testing.T) {
					p := way.to(t, e)
					p.file = "e2b/" + file
					e.run(t, p)
				})
			}
			t.Run("cli", func(t *testing.T) { testE2BCLI(t, e, way.to(t, e)) })
		})
	}
	t.Run("lost", func(t *testing.T) { testE2BLost(t, e) })
	if list := e.Sandboxes(t); len(list) != 0 {
		t.Errorf("%d sandboxes are left: %+v", len(list), list)
	}
}

// e2bOrigin points clients at the dialect's own address, which serves control plane and sandboxes.
func e2bOrigin(t *testing.T, e *env) program {
	t.Helper()
	return program{env: e.e2bEnv(t, e.dialect(t, "e2b").URL)}
}

func (e *env) e2bEnv(t *testing.T, origin string) []string {
	t.Helper()
	return []string{
		"E2B_API_URL=" + origin, "E2B_SANDBOX_URL=" + origin, "E2B_API_KEY=" + e.key(t, "e2b"), "RUN=" + t.Name(),
	}
}

// e2bDomain points clients at the server's domain: every sandbox has a host name, over TLS with the installation's own authority.
func e2bDomain(t *testing.T, e *env) program {
	t.Helper()
	d := e.dialect(t, "e2b")
	u, err := url.Parse(d.DomainURL)
	if err != nil || u.Port() == "" {
		t.Fatalf("the dialect's address by name is %q, %v", d.DomainURL, err)
	}
	ca := filepath.Join(e.Dir, "ca", "ca.crt")
	return program{names: serveNames(t), env: []string{
		"E2B_DOMAIN=" + strings.TrimPrefix(u.Host, "api."), "E2B_API_KEY=" + e.key(t, "e2b"), "RUN=" + t.Name(),
		"NODE_EXTRA_CA_CERTS=" + ca, "SSL_CERT_FILE=" + ca,
	}}
}

// testE2BRequests compares what the SDKs send with what they sent when the adapter was written.
func testE2BRequests(t *testing.T, e *env) {
	for name, file := range map[string]string{"python": "e2b/calls.py", "node": "e2b/calls.mjs"} {
		t.Run(name, func(t *testing.T) {
			proxy := record(t, e.dialect(t, "e2b").URL,
				"X-Api-Key", "Idempotency-Key", "Content-Type", "Content-Encoding", "Authorization", "X-Access-Token", "E2b-Sandbox-Id", "E2b-Sandbox-Port",
				"X-Metadata-A", "Connect-Protocol-Version", "Connect-Timeout-Ms", "Keepalive-Ping-Interval", "Range")
			proxy.clean = cleanE2B
			e.run(t, program{file: file, env: append(e.e2bEnv(t, proxy.url), "RUN=golden")})
			checkGolden(t, "e2b/requests-"+name+".txt", proxy.recorded())
		})
	}
}

// cleanE2B takes out of a request what is another in every run, and the framing of streams.
func cleanE2B(hr *http.Request, body []byte) (*http.Request, []byte) {
	if strings.HasPrefix(hr.Header.Get("Content-Type"), "application/connect+") && len(body) >= 5 {
		body = body[5:]
	}
	if hr.Header.Get("Content-Encoding") == "gzip" {
		if z, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			if plain, err := io.ReadAll(z); err == nil {
				body = plain
			}
		}
	}
	clean := hr.Clone(hr.Context())
	for name, values := range clean.Header {
		for i := range values {
			values[i] = withoutChance(values[i])
		}
		clean.Header[name] = values
	}
	if deadline := clean.Header.Get("Connect-Timeout-Ms"); deadline != "" && len(deadline) != 4 {
		clean.Header.Set("Connect-Timeout-Ms", "LIMIT") // what is left of it when the request is sent
	}
	clean.URL.RawQuery = withoutChance(clean.URL.RawQuery)
	return clean, []byte(withoutChance(string(body)))
}

func withoutChance(s string) string {
	for _, r := range []struct{ pattern, name string }{
		{`e2b_[0-9a-f]{40}`, "KEY"},
		{`\b[0-9a-f]{64}\b`, "TOKEN"},
		{`(boundary=|--)(----formdata-undici-[0-9]+|[0-9a-f]{32})`, "${1}BOUNDARY"},
		{`"watcherId":"([ew])[a-z0-9]{22}\.`, `"watcherId":"${1}ID.`},
		{`"pid": ?[0-9]+`, `"pid":PID`},
		{`signature=[^&]*`, "signature=SIGNATURE"},
		{`signature_expiration=[0-9]+`, "signature_expiration=SECONDS"},
		{`startedAfter=[^&]*`, "startedAfter=TIME"},
		{`nextToken=[^&]*`, "nextToken=CURSOR"},
	} {
		s = regexp.MustCompile(r.pattern).ReplaceAllString(s, r.name)
	}
	return s
}

// testE2BCLI drives a sandbox from the command line, with a terminal at last.
func testE2BCLI(t *testing.T, e *env, p program) {
	p.file, p.env = "node_modules/@e2b/cli/dist/index.js", append(p.env, "NO_UPDATE_NOTIFIER=1")
	cli := func(stdin string, args ...string) string {
		t.Helper()
		p.stdin, p.args = stdin, append([]string{"sandbox"}, args...)
		return e.run(t, p)
	}
	id := strings.TrimSpace(cli("", "create", "--detach", "base"))
	var list []struct{ SandboxID string }
	out := cli("", "list", "--format", "json", "--template", "base")
	if err := json.Unmarshal([]byte(out), &list); err != nil || !slices.ContainsFunc(list, func(l struct{ SandboxID string }) bool { return l.SandboxID == id }) {
		t.Errorf("list: %s, %v, want %s", out, err, id)
	}
	if out := cli("", "info", id); !strings.Contains(out, "State: running") {
		t.Errorf("info: %s", out)
	}
	if out := cli("typed\n", "exec", "-u", "root", "-c", "/tmp", "-e", "A=b", id, "id -un; pwd; echo $A; cat"); out != "root\n/tmp\nb\ntyped\n" {
		t.Errorf("exec: %q", out)
	}
	p.stdin, p.args = "", []string{"sandbox", "exec", id, "exit 3"}
	var exit *exec.ExitError
	if out, err := e.try(t, p); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("exit 3: %v, %s", err, out)
	}
	if out := cli("", "exec", "--background", id, "sleep 1000"); strings.TrimSpace(out) != "" {
		t.Errorf("in the background: %q", out)
	}
	if out := cli("", "metrics", id); !strings.Contains(out, "CPU") {
		t.Errorf("metrics: %s", out)
	}
	for args, words := range map[string]string{"logs": "no log of sandboxes", "pause": "can't pause"} {
		p.args = []string{"sandbox", args, id}
		if out, err := e.try(t, p); err == nil || !strings.Contains(out, words) {
			t.Errorf("%s: %v, %s", args, err, out)
		}
	}
	p.terminal = true
	for _, args := range [][]string{{"connect", id}, {"create", "base"}} {
		if out := cli("echo $((40+2)) $TERM; exit\n", args...); !strings.Contains(out, "42 xterm-256color") {
			t.Errorf("%s: %q", args, out)
		}
	}
	p.terminal = false
	if out := cli("", "kill", id); !strings.Contains(out, "has been killed") {
		t.Errorf("kill: %s", out)
	}
	cli("", "kill", "--all") // the one that the terminal made is left with a second to live
}

// testE2BLost kills a sandbox's sentry under an open stream: its client is told, and not that the command ended.
func testE2BLost(t *testing.T, e *env) {
	for file, want := range map[string]string{
		"e2b/lost.py":  "SandboxNotRunningException\nFalse\nSandboxNotFoundException\nTrue\n",
		"e2b/lost.mjs": "TimeoutError\nfalse\nSandboxNotFoundError\ntrue\n",
	} {
		t.Run(filepath.Ext(file)[1:], func(t *testing.T) {
			p := e2bOrigin(t, e)
			p.file = file
			said := make(chan string, 1)
			go func() {
				out, err := e.try(t, p)
				said <- fmt.Sprint(out, err)
			}()
			var id string
			harness.Eventually(t, harness.CallLimit, "the command runs", func() error {
				for _, sb := range e.Sandboxes(t) {
					if sb.Labels["run"] == t.Name() {
						id = sb.ID
					}
				}
				if id == "" {
					return errors.New("there is no sandbox yet")
				}
				_, err := e.Client.Files(id).Stat(harness.Context(t), "/tmp/begun")
				return err
			})
			e.killSentry(t, id)
			select {
			case got := <-said:
				if got != want+"<nil>" {
					t.Errorf("it said %s", got)
				}
			case <-time.After(clientLimit):
				t.Error("the client hangs")
			}
		})
	}
}

// killSentry kills a sandbox's sentry on the host.
func (e *env) killSentry(t *testing.T, id string) {
	t.Helper()
	for _, p := range harness.Processes(e.Dir) {
		if strings.HasPrefix(p.Command, "runsc-sandbox") && strings.Contains(p.Command, id) {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no sentry of %s", id)
}
