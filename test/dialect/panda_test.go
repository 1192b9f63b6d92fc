package dialect_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// testPanda runs PandaStack's SDKs.
func testPanda(t *testing.T, e *env) {
	for name, test := range map[string]func(*testing.T, *env){
		"one shot": testPandaOneShot, "tenants": testPandaTenants, "calls": testPandaCalls, "idle": testPandaIdle, "lost": testPandaLost,
		"parallel": testPandaParallel,
	} {
		t.Run(name, func(t *testing.T) { test(t, e) })
	}
}

// pandaEnv points a PandaStack SDK at an address.
func (e *env) pandaEnv(t *testing.T, url string) []string {
	t.Helper()
	return []string{"PANDASTACK_API=" + url, "PANDASTACK_API_KEY=" + e.key(t, "panda")}
}

// testPandaOneShot runs a program that a customer of PandaStack's has, as it stands.
func testPandaOneShot(t *testing.T, e *env) {
	before := len(e.Sandboxes(t))
	out := e.run(t, program{file: "panda/one_shot.py", stdin: "print(6 * 7)\n", env: e.pandaEnv(t, e.dialect(t, "panda").URL)})
	if out != "42\n" {
		t.Errorf("it returned %q", out)
	}
	if after := len(e.Sandboxes(t)); after != before {
		t.Errorf("%d sandboxes are left, there were %d", after, before)
	}
}

// testPandaTenants runs the other one: every call is a process of its own, and between two of them the server is restarted.
func testPandaTenants(t *testing.T, e *env) {
	state := filepath.Join(t.TempDir(), "state.json")
	tenants := func(args ...string) string {
		t.Helper()
		// The address is asked for anew: after a restart the ports are others.
		return e.run(t, program{file: "panda/tenants.py", args: append([]string{state}, args...), env: e.pandaEnv(t, e.dialect(t, "panda").URL)})
	}
	for _, tenant := range []string{"acme", "globex"} {
		if got, want := tenants("open", tenant, "/srv/git/repo.git", "/srv/packages", "greeting"), "made "+tenant+" True running\n"; got != want {
			t.Errorf("open: %q, want %q", got, want)
		}
	}
	tenants("run", "acme", "echo of acme >/workspace/mine")
	e.Kill()
	e.Restart(harness.Options{Env: serverSettings()})
	if got, want := tenants("open", "acme", "/srv/git/repo.git", "/srv/packages", "greeting"), "found acme True running\n"; got != want {
		t.Errorf("open again: %q, want %q", got, want)
	}
	for tenant, mine := range map[string]string{"acme": "of acme\n", "globex": ""} {
		got := tenants("run", tenant, "cd /workspace/repo && PYTHONPATH=../packages python3 main.py; cat /workspace/mine 2>/dev/null || true")
		if want := "hello repo\n" + mine; got != want {
			t.Errorf("%s has %q, want %q", tenant, got, want)
		}
		tenants("close", tenant)
	}
	for _, sb := range e.Sandboxes(t) {
		if sb.Persistent {
			t.Errorf("%s is left", sb.ID)
		}
	}
}

// testPandaCalls makes every call that is claimed, and compares what the SDKs sent with what they sent when the adapter was written.
func testPandaCalls(t *testing.T, e *env) {
	for _, lang := range []struct{ name, file string }{{"python", "panda/calls.py"}, {"node", "panda/calls.mjs"}} {
		t.Run(lang.name, func(t *testing.T) {
			proxy := record(t, e.dialect(t, "panda").URL, "Authorization", "Accept", "Content-Type", "User-Agent")
			e.run(t, program{file: lang.file, env: e.pandaEnv(t, proxy.url)})
			checkGolden(t, "panda/requests-"+lang.name+".txt", proxy.recorded())
		})
	}
}

// testPandaIdle holds that an idle sandbox ends and one that is used does not.
func testPandaIdle(t *testing.T, e *env) {
	out := e.run(t, program{file: "panda/idle.py", env: e.pandaEnv(t, e.dialect(t, "panda").URL)})
	if !strings.Contains(out, "used ones live, the idle one is gone") {
		t.Errorf("it said %q", out)
	}
}

// testPandaLost deletes a sandbox under an exec and a stream: neither may return an exit code.
func testPandaLost(t *testing.T, e *env) {
	for _, file := range []string{"panda/lost.py", "panda/lost.mjs"} {
		t.Run(filepath.Ext(file)[1:], func(t *testing.T) {
			sb := e.Sandbox(t, shoal.CreateSandboxRequest{Template: "minimal"})
			cmd := e.command(t, program{file: file, args: []string{sb.ID}, env: e.pandaEnv(t, e.dialect(t, "panda").URL)})
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			done := make(chan error, 1)
			go func() { done <- cmd.Run() }()
			harness.Eventually(t, harness.CallLimit, "both commands run", func() error {
				res, err := e.Client.Execs(sb.ID).Run(harness.Context(t), shoal.ExecRequest{Shell: "[ -e /tmp/exec ] && [ -e /tmp/stream ]"})
				if err == nil && (res.ExitCode == nil || *res.ExitCode != 0) {
					err = fmt.Errorf("not yet: %s", harness.Describe(res))
				}
				return err
			})
			if err := e.Client.Sandboxes().Delete(harness.Context(t), sb.ID); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-done:
				if got := out.String(); err != nil || got != "exec: ServerError lost\nstream: ServerError lost\n" {
					t.Errorf("it said %s, %v", got, err)
				}
			case <-time.After(clientLimit):
				t.Error("the client hangs")
			}
		})
	}
}

// testPandaParallel follows 200 commands in 20 sandboxes at once through one process.
func testPandaParallel(t *testing.T, e *env) {
	for _, file := range []string{"panda/parallel.py", "panda/parallel.mjs"} {
		t.Run(filepath.Ext(file)[1:], func(t *testing.T) {
			out := e.run(t, program{file: file, env: e.pandaEnv(t, e.dialect(t, "panda").URL)})
			if out != "all streams are open\n200 streams in 20 sandboxes\n" {
				t.Errorf("it said %q", out)
			}
		})
	}
}
