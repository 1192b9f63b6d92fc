package e2e_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// counter is a program that counts in a file for as long as it lives.
const counter = "i=0; while :; do i=$((i+1)); echo $i > /root/count; echo $i; sleep 0.1; done"

func (e env) count(t *testing.T, sb shoal.Sandbox) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(e.Out(t, sb.ID, "cat /root/count 2>/dev/null || echo 0")))
	if err != nil {
		n = 0
	}
	return n
}

// moved waits until the sandbox has counted beyond n.
func (e env) moved(t *testing.T, sb shoal.Sandbox, n int) int {
	t.Helper()
	var now int
	harness.Eventually(t, 30*time.Second, "the sandbox goes on counting", func() error {
		if now = e.count(t, sb); now <= n {
			return fmt.Errorf("it stands at %d", now)
		}
		return nil
	})
	return now
}

func testRestart(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Name: "survivor"})
	x, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Shell: counter})
	if err != nil {
		t.Fatal(err)
	}
	ended, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Shell: "sleep 3; exit 9"})
	if err != nil {
		t.Fatal(err)
	}
	n := e.moved(t, sb, 0)
	for _, how := range []string{"kill -9", "stop"} {
		if how == "stop" {
			e.Stop()
		} else {
			e.Kill()
		}
		e.Restart(harness.Options{})
		got, err := e.Client.Sandboxes().Get(ctx(t), "survivor")
		if err != nil || got.ID != sb.ID || got.State != shoal.StateRunning {
			t.Fatalf("after %s: %+v %v", how, got, err)
		}
		n = e.moved(t, sb, n)
	}
	harness.Eventually(t, 30*time.Second, "the end of an exec is learned after a restart", func() error {
		got, err := e.Client.Execs(sb.ID).Get(ctx(t), ended.ID)
		if err != nil {
			return err
		}
		if got.Outcome != shoal.OutcomeExited || *got.ExitCode != 9 {
			return fmt.Errorf("it is %+v", got)
		}
		return nil
	})
	stream, err := e.Client.Execs(sb.ID).Attach(ctx(t), x.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var out []byte
	for !strings.Contains(string(out), fmt.Sprintf("\n%d\n", n)) {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m.Bytes()...)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if line != strconv.Itoa(i+1) {
			t.Fatalf("line %d of the output is %q", i+1, line)
		}
	}
}

// Named test 10.
func testTTLWhileDown(t *testing.T, e env) {
	ttl := int64(2)
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Name: "short", TTLSeconds: &ttl})
	e.Kill()
	harness.Eventually(t, 30*time.Second, "the ttl passes", func() error {
		if time.Now().Before(sb.ExpiresAt) {
			return fmt.Errorf("%s left", time.Until(sb.ExpiresAt))
		}
		return nil
	})
	e.Restart(harness.Options{})
	harness.Eventually(t, 10*time.Second, "it is gone", func() error {
		_, err := e.Client.Sandboxes().Get(ctx(t), "short")
		if shoal.ErrorCode(err) != "not_found" {
			return fmt.Errorf("get says %w", err)
		}
		return nil
	})
	e.nothingLeft(t, sb.ID)
}

// Named test 16.
func testSecondServer(t *testing.T, e env) {
	c, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(c, harness.Binary(t, false), "serve", "--data-dir", e.Dir, "--listen", "127.0.0.1:0")
	cmd.Env = harness.CleanEnvironment()
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another server") {
		t.Errorf("a second server: %v\n%s", err, out)
	}
	if err := e.Client.Health(ctx(t)); err != nil {
		t.Errorf("the first server: %v", err)
	}
}

// Named test 18: a database from before a sandbox was created does not erase the sandbox's files.
func testOlderDatabase(t *testing.T, e env) {
	e.Stop()
	backup := t.TempDir()
	for _, f := range databaseFiles(t, e.Dir) {
		copyFile(t, f, filepath.Join(backup, filepath.Base(f)))
	}
	e.Restart(harness.Options{})
	sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Persistent: true})
	if err != nil {
		t.Fatal(err)
	}
	e.Out(t, sb.ID, "echo precious > /root/work; sync")
	e.Stop()
	for _, f := range databaseFiles(t, e.Dir) {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range databaseFiles(t, backup) {
		copyFile(t, f, filepath.Join(e.Dir, filepath.Base(f)))
	}
	e.Restart(harness.Options{})
	_, err = e.Client.Sandboxes().Get(ctx(t), sb.ID)
	wantCode(t, err, "not_found")
	for _, p := range harness.Processes(e.Dir) {
		if strings.Contains(p.Command, sb.ID) {
			t.Errorf("a process without a record is left: %s", p.Command)
		}
	}
	found := false
	err = filepath.WalkDir(filepath.Join(e.Dir, "pool"), func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.Contains(path, sb.ID) && strings.HasSuffix(path, "/root/work") {
			data, rerr := os.ReadFile(path)
			found = rerr == nil && string(data) == "precious\n"
			return filepath.SkipAll
		}
		if err == nil && d.IsDir() && (d.Name() == "usr" || d.Name() == "proc") {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil || !found {
		t.Errorf("the files of a sandbox that the older database does not know are gone: %v", err)
	}
}

func databaseFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "shoal.db*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no database in %s: %v", dir, err)
	}
	return files
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMovedCgroupParent: what ran below the former parent goes on when a server is moved to another, and nothing is left below
// either; the harness uninstalls it without naming one.
func TestMovedCgroupParent(t *testing.T) {
	e := env{harness.Start(t, harness.Options{})}
	before := e.Sandbox(t, shoal.CreateSandboxRequest{}) // deleted after the move
	e.Create(t, shoal.CreateSandboxRequest{Persistent: true})
	e.Stop()
	e.Restart(harness.Options{Env: []string{"SHOAL_RUNTIME_CGROUP_PARENT=" + e.Cgroup() + "-moved"}})
	e.Create(t, shoal.CreateSandboxRequest{Persistent: true})
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	for _, id := range []string{before.ID, sb.ID} {
		if got := e.Out(t, id, "echo alive"); got != "alive\n" {
			t.Errorf("after the move: %q", got)
		}
		if got, err := e.Client.Sandboxes().Metrics(ctx(t), id); err != nil || got.MemoryBytes == 0 {
			t.Errorf("after the move: %+v, %v", got, err)
		}
	}
}
