// Package e2e_test tries the whole program: a real server, real gVisor sandboxes, the Go SDK and the CLI.
//
// It asserts what a user is promised and knows nothing of how it is done. Start with TestSandboxes, which runs every test
// of this folder against one server.
package e2e_test

import (
	"context"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// callLimit bounds one test's calls: long enough for a busy machine, short enough to see a hang.
const callLimit = 2 * time.Minute

// env is what a test of the shared server has.
type env struct {
	*harness.Server
}

// TestSandboxes runs every test against one server, which is restarted by some of them.
func TestSandboxes(t *testing.T) {
	e := env{harness.Start(t, harness.Options{})}
	for _, tc := range []struct {
		name string
		run  func(*testing.T, env)
	}{
		{"create, run, delete", testLifeOfASandbox},
		{"isolation is gVisor's", testIsolation},
		{"exit codes and signals", testExitCodes},
		{"streams are apart", testStreams},
		{"input, environment, directory, user", testExecOptions},
		{"missing programs", testMissingProgram},
		{"a background child does not hold an exec up", testBackgroundChild},
		{"a stuck command does not disturb others", testStuckCommand},
		{"a process that outlives its leader", testOutlivesLeader},
		{"a runaway printer", testRunawayPrinter},
		{"a client that goes away", testClientGone},
		{"an exec whose sandbox dies is lost", testLost},
		{"signals to init", testSignalsToInit},
		{"a stopped guest agent", testStoppedAgent},
		{"a silent sandbox fails, a busy one does not", testSilentSandbox},
		{"a fork bomb", testForkBomb},
		{"a memory hog", testMemoryHog},
		{"a memory hog that nothing guards", testMemoryHogUnguarded},
		{"timeout kills the group", testTimeout},
		{"silence stays alive", testSilence},
		{"terminal", testTerminal},
		{"deletes race", testDeleteRaces},
		{"one name, one winner", testOneName},
		{"many at once", testManyAtOnce},
		{"refusals name what is wrong", testRefusals},
		{"full node", testFullNode},
		{"files of proc", testProcFiles},
		{"odd files", testOddFiles},
		{"big files", testBigFiles},
		{"planted links", testPlantedLinks},
		{"no egress", testNoEgress},
		{"limits", testLimits},
		{"metrics", testMetrics},
		{"events", testEvents},
		{"command line", testCLI},
		{"second server is refused", testSecondServer},
		{"ttl while the server is down", testTTLWhileDown},
		{"sandbox lives through a restart", testRestart},
		{"an older database", testOlderDatabase},
	} {
		if !t.Run(tc.name, func(t *testing.T) { tc.run(t, e) }) && e.Exited() {
			t.Fatal("the server is down: the rest is not run")
		}
	}
}

func ctx(t *testing.T) context.Context {
	t.Helper()
	c, cancel := context.WithTimeout(t.Context(), callLimit)
	t.Cleanup(cancel)
	return c
}

// sandbox creates a sandbox that is deleted at the end of the test.
func (e env) sandbox(t *testing.T, req shoal.CreateSandboxRequest) shoal.Sandbox {
	t.Helper()
	sb, err := e.Client.Sandboxes().Create(ctx(t), req)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	t.Cleanup(func() {
		c, cancel := context.WithTimeout(context.Background(), callLimit)
		defer cancel()
		if err := e.Client.Sandboxes().Delete(c, sb.ID); err != nil && shoal.ErrorCode(err) != "not_found" {
			t.Errorf("delete: %v", err)
		}
	})
	return sb
}

// sh runs a script and returns its result.
func (e env) sh(t *testing.T, sb shoal.Sandbox, script string) shoal.ExecResult {
	t.Helper()
	res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Shell: script})
	if err != nil {
		t.Fatalf("exec %q: %v", script, err)
	}
	return res
}

// out runs a script that must succeed and returns its output.
func (e env) out(t *testing.T, sb shoal.Sandbox, script string) string {
	t.Helper()
	res := e.sh(t, sb, script)
	if res.Outcome != shoal.OutcomeExited || *res.ExitCode != 0 {
		t.Fatalf("%q: %s\n%s%s", script, describe(res), res.StdoutBytes(), res.StderrBytes())
	}
	return string(res.StdoutBytes())
}

func wantCode(t *testing.T, err error, code shoal.Code) *shoal.Error {
	t.Helper()
	if shoal.ErrorCode(err) != code {
		t.Fatalf("error is %v, want code %s", err, code)
	}
	var e *shoal.Error
	if !asError(err, &e) {
		t.Fatalf("error %v is not of the SDK", err)
	}
	return e
}
