package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testCLI goes through the command line as a person would.
func testCLI(t *testing.T, e env) {
	run := func(code int, stdin string, args ...string) string {
		t.Helper()
		out, errs, got := e.CLI(stdin, args...)
		if got != code {
			t.Fatalf("shoal %s: exit code %d, want %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), got, code, out, errs)
		}
		return out
	}
	dir := t.TempDir()
	in := filepath.Join(dir, "in.txt")
	if err := os.WriteFile(in, []byte("4\n5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	res := filepath.Join(dir, "out.txt")
	run(0, "", "run", "--in", in+":/root/in.txt", "--out", "/root/out.txt:"+res, "--", "sh", "-c", "awk '{s+=$1} END {print s}' /root/in.txt > /root/out.txt")
	if got, err := os.ReadFile(res); err != nil || string(got) != "9\n" {
		t.Errorf("run --out: %q %v", got, err)
	}
	if got := run(42, "", "run", "-e", "A=b", "--", "sh", "-c", "echo $A; exit 42"); got != "b\n" {
		t.Errorf("run printed %q", got)
	}
	run(124, "", "run", "--timeout", "1s", "--", "sleep", "1000")
	run(127, "", "run", "--", "no-such-program")
	run(128+9, "", "run", "--", "sh", "-c", "kill -9 $$")
	run(125, "", "get", "no-such-sandbox")

	id := strings.TrimSpace(run(0, "", "create", "--name", "cli", "--ttl", "10m", "--label", "k=v"))
	defer e.CLI("", "rm", "cli")
	if got := run(0, "hello", "exec", "-i", "cli", "--", "cat"); got != "hello" {
		t.Errorf("exec -i printed %q", got)
	}
	var sb struct{ ID, State string }
	if err := json.Unmarshal([]byte(run(0, "", "get", "cli", "-o", "json")), &sb); err != nil || sb.ID != id || sb.State != "running" {
		t.Errorf("get -o json: %+v %v", sb, err)
	}
	if got := run(0, "", "ls"); !strings.Contains(got, "cli") {
		t.Errorf("ls printed %q", got)
	}
	run(0, "", "cp", in, "cli:/root/copied")
	if got := run(0, "", "cp", "cli:/root/copied", "-"); got != "4\n5\n" {
		t.Errorf("cp printed %q", got)
	}
	x := strings.TrimSpace(run(0, "", "exec", "-d", "cli", "--", "sh", "-c", "echo from the background"))
	if got := run(0, "", "logs", "-f", "cli", x); got != "from the background\n" {
		t.Errorf("logs printed %q", got)
	}
	run(0, "", "rm", "cli")
	run(125, "", "get", "cli")
	run(0, "", "version")
}
