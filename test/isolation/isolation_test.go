// Package isolation_test attacks a real server: from inside a sandbox, as root and as an ordinary user, and over the API.
//
// Each attack asserts that it gets nowhere, that a neighbour goes on undisturbed and that the server still answers. What
// code may do to its own sandbox is no concern here. Start with TestIsolation, which runs every attack against one server.
package isolation_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// neighbourLimit is how long a neighbour may take over a trivial exec while an attack goes on, on a busy small machine.
const neighbourLimit = 15 * time.Second

// env is the server under attack and a sandbox that must not notice.
type env struct {
	*harness.Server
	neighbour shoal.Sandbox
}

// TestIsolation runs every attack against one server.
func TestIsolation(t *testing.T) {
	e := env{Server: harness.Start(t, harness.Options{})}
	e.neighbour = e.Sandbox(t, shoal.CreateSandboxRequest{Name: "neighbour"})
	for _, tc := range []struct {
		name string
		run  func(*testing.T, env)
	}{
		{"escape as root", func(t *testing.T, e env) { testEscape(t, e, "root") }},
		{"escape as an ordinary user", func(t *testing.T, e env) { testEscape(t, e, "nobody") }},
		{"network as root", func(t *testing.T, e env) { testNetwork(t, e, "root") }},
		{"network as an ordinary user", func(t *testing.T, e env) { testNetwork(t, e, "nobody") }},
		{"the router's address is taken", testRouterAddress},
		{"flood of the agent's port", testAgentFlood},
		{"the agent is killed", testAgentKilled},
		{"links that change while the API follows them", testLinkRace},
		{"inherited files", testServerFiles},
		{"fork bomb", testForkBomb},
		{"descriptor bomb", testDescriptorBomb},
		{"memory bomb", testMemoryBomb},
		{"output flood", testOutputFlood},
		{"full disk", testFullDisk},
		{"neighbours of bombs", testNeighbours},
		{"deep and wide directories", testOddTrees},
		{"keys", testKeys},
		{"host names and origins", testHostNames},
		{"paths and references", testPaths},
		{"bodies", testBodies},
		{"headers and queries", testHeaders},
		{"ranges", testRanges},
		{"ids of others", testForeignIDs},
		{"frames to an attached exec", testAttachFrames},
		{"owners, modes and places of uploads", testUploadOptions},
		{"broken HTTP", testBrokenHTTP},
		{"slow and silent connections", testSlowConnections},
		{"many connections", testManyConnections},
		{"clients that go away", testAborts},
		{"many streams of one sandbox", testManyStreams},
		{"many creates at once", testManyCreates},
	} {
		if !t.Run(tc.name, func(t *testing.T) { tc.run(t, e); e.undisturbed(t) }) && e.Exited() {
			t.Fatal("the server is down: the rest is not run")
		}
	}
}

func ctx(t *testing.T) context.Context {
	t.Helper()
	return harness.Context(t)
}

// undisturbed asserts that the neighbour and the server answer soon.
func (e env) undisturbed(t *testing.T) {
	t.Helper()
	if e.Exited() {
		t.Fatalf("the server has ended:\n%s", e.Log(40))
	}
	c, cancel := context.WithTimeout(t.Context(), neighbourLimit)
	defer cancel()
	res, err := e.Client.Execs(e.neighbour.ID).Run(c, shoal.ExecRequest{Shell: "echo here"})
	if err != nil || string(res.StdoutBytes()) != "here\n" {
		t.Errorf("the neighbour is disturbed: %v %q", err, res.StdoutBytes())
	}
	if log := e.Log(2000); strings.Contains(log, "panic: ") {
		t.Errorf("the server panicked:\n%s", log[strings.Index(log, "panic: "):])
	}
}

// attack runs one of the attack scripts and fails the test for every attempt that got somewhere.
func (e env) attack(t *testing.T, sb shoal.Sandbox, user, script string, args ...string) {
	t.Helper()
	path := "/tmp/attack.py"
	_, err := e.Client.Files(sb.ID).Write(ctx(t), path, strings.NewReader(script), shoal.WriteOptions{Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	res := e.Run(t, sb.ID, shoal.ExecRequest{Cmd: append([]string{"python3", path}, args...), User: user})
	if res.Outcome != shoal.OutcomeExited || *res.ExitCode != 0 {
		t.Errorf("the attack itself ended as %s:\n%s", res.Outcome, res.StderrBytes())
	}
	attempts := 0
	for line := range bytes.Lines(res.StdoutBytes()) {
		attempts++
		if !bytes.HasPrefix(line, []byte("held\t")) {
			t.Errorf("%s", line)
		}
	}
	if !bytes.Contains(res.StdoutBytes(), []byte("\nheld\tend\t")) {
		t.Errorf("the attack broke off after %d attempts", attempts)
	}
	t.Logf("%d attempts", attempts)
}

// wantCode asserts an error's code.
func wantCode(t *testing.T, what string, err error, codes ...shoal.Code) {
	t.Helper()
	for _, code := range codes {
		if shoal.ErrorCode(err) == code {
			return
		}
	}
	t.Errorf("%s: %v, want one of %s", what, err, fmt.Sprint(codes))
}
