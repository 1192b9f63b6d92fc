// Package e2e_test tries the whole program: a real server, real gVisor sandboxes, the Go SDK and the CLI.
//
// It asserts what a user is promised and knows nothing of how it is done. Start with TestSandboxes, which runs every test
// of this folder against one server.
package e2e_test

import (
	"context"
	"testing"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

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
		{"a memory hog in a shell", testMemoryHogInShell},
		{"many threads in little memory", testManyThreads},
		{"timeout kills the group", testTimeout},
		{"silence stays alive", testSilence},
		{"terminal", testTerminal},
		{"a shell by hand", testShell},
		{"a terminal through a restart", testTerminalThroughRestart},
		{"a terminal of a sandbox that dies", testTerminalOfDeadSandbox},
		{"deletes race", testDeleteRaces},
		{"one name, one winner", testOneName},
		{"many at once", testManyAtOnce},
		{"refusals name what is wrong", testRefusals},
		{"full node", testFullNode},
		{"files of proc", testProcFiles},
		{"odd files", testOddFiles},
		{"big files", testBigFiles},
		{"20,000 small files by tar", testManySmallFiles},
		{"archives of everything", testArchiveKinds},
		{"archives stay inside", testArchiveStaysInside},
		{"byte-exact writes", testByteExact},
		{"a download of a file that changes", testChangedDownload},
		{"an upload that doesn't fit", testUploadTooLarge},
		{"transfers go on when the server is killed", testTransfersResume},
		{"metadata kept through every state", testMetadataKept},
		{"stop and wake keep all that was written", testStopKeepsWrites},
		{"stop and wake keep a tree as it is", testStopKeepsTree},
		{"a stopped sandbox takes nothing", testStoppedTakesNothing},
		{"a stop asks processes to end", testStopAsks},
		{"a limit of the disk through stop and wake", testStopKeepsLimit},
		{"a reboot", testReboot},
		{"planted links", testPlantedLinks},
		{"a watch tells each kind of change", testWatchKinds},
		{"a watch across a rename storm", testRenameStorm},
		{"files are changed, linked and summed up", testFileChanges},
		{"files of a sandbox that died", testFilesOfADeadSandbox},
		{"what is different in a sandbox", testDiff},
		{"what is different in a hostile sandbox", testDiffHostile},
		{"a template of an image", testImport},
		{"a template of a sandbox", testTemplateOfSandbox},
		{"a template of a file, typed", testCLIImport},
		{"a checkpoint has what was written right before", testCheckpointWrites},
		{"a fork has the files of one moment", testForkFiles},
		{"forks outlive their parents", testForkLineage},
		{"a database is consistent in every checkpoint", testCheckpointSQLite},
		{"a chain of checkpoints loses links", testCheckpointChain},
		{"checkpoints in every state", testCheckpointStates},
		{"restores and a reset", testRestore},
		{"two restores at once", testTwoRestores},
		{"no egress", testNoEgress},
		{"limits", testLimits},
		{"memory is changed", testResizeMemory},
		{"counts are changed", testResizeCounts},
		{"processor time is changed", testResizeCPU},
		{"the disk's limit is changed", testResizeDisk},
		{"weights at the disk", testIOWeight},
		{"tenants", testTenants},
		{"a key revoked during a stream ends it", testKeyRevoked},
		{"metrics", testMetrics},
		{"events", testEvents},
		{"command line", testCLI},
		{"map", testMap},
		{"map, interrupted and killed", testMapInterrupted},
		{"map, what is lost", testMapLost},
		{"map, a full node", testMapFull},
		{"everything over TLS", testTLS},
		{"second server is refused", testSecondServer},
		{"ttl while the server is down", testTTLWhileDown},
		{"idle", testIdle},
		{"idle, stopped, woken, idle again", testIdleStops},
		{"rules while the server is down", testRulesWhileDown},
		{"many tagged execs at once", testTags},
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
	return harness.Context(t)
}

// sh runs a script and returns its result.
func (e env) sh(t *testing.T, sb shoal.Sandbox, script string) shoal.ExecResult {
	t.Helper()
	return e.Run(t, sb.ID, shoal.ExecRequest{Shell: script})
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
