// Package dialect_test runs the official clients of other vendors, unmodified and pinned (test/clients), against one real server with
// the template that they are tried with.
package dialect_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

var update = flag.Bool("update", false, "write the golden files of what clients send anew")

// clientLimit bounds one run of a client's program.
const clientLimit = 3 * time.Minute

// env is what the tests of all dialects share: building the template takes a minute or more.
type env struct {
	*harness.Server
	// clients is where the pinned clients are installed.
	clients string
}

// serverSettings are the environment of the one server.
func serverSettings() []string {
	return []string{"SHOAL_TEMPLATES_BOOTSTRAP=minimal,base", "SHOAL_DOMAIN=" + domain, "SHOAL_TLS_LISTEN=127.0.0.1:0"}
}

// TestClients runs the parts one after the other on one server. `-run TestClients/panda` runs one dialect's.
func TestClients(t *testing.T) {
	harness.NeedRoot(t)
	e := &env{clients: installClients(t)}
	// Whoever works on a dialect names a directory to keep the template in: the build takes longer than the tests.
	e.Server = harness.Start(t, harness.Options{Dir: os.Getenv("SHOAL_TEST_DATA_DIR"), Env: serverSettings()})
	e.WaitTemplate("base")
	for _, part := range []struct {
		name string
		run  func(t *testing.T, e *env)
	}{
		{"base", testBase},
		{"panda", testPanda},
		{"e2b", testE2B},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, e) })
	}
}

// installClients installs the pinned clients unless they are there, and returns where they are.
func installClients(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "build", "clients")
	out, err := exec.CommandContext(harness.Context(t), filepath.Join(root, "test", "clients", "install"), dir).CombinedOutput()
	if err != nil {
		t.Fatalf("install the pinned clients: %v\n%s", err, out)
	}
	return dir
}

// dialect returns what the server says of a dialect.
func (e *env) dialect(t *testing.T, name string) shoal.Dialect {
	t.Helper()
	list, err := e.Client.Dialects(harness.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		if d.Name == name {
			return d
		}
	}
	t.Fatalf("the server speaks no %s: %+v", name, list)
	return shoal.Dialect{}
}

// key makes a key in the form of a dialect's.
func (e *env) key(t *testing.T, dialect string) string {
	t.Helper()
	k, err := e.Client.Keys().Create(harness.Context(t), shoal.CreateKeyRequest{Name: "client-tests", Dialect: dialect})
	if err != nil {
		t.Fatal(err)
	}
	return k.Secret
}

// program is one run of a client's program: a file of testdata, by the interpreter that its name asks for.
type program struct {
	file  string
	args  []string
	stdin string
	// env is all of its environment but PATH and a HOME in which there is nothing.
	env []string
	// names lets it find the server's domain; nil for a program that needs no names.
	names *names
	// terminal gives it one, at which stdin is typed.
	terminal bool
}

// run runs a program to its end, which must be a success, and returns its output.
func (e *env) run(t *testing.T, p program) string {
	t.Helper()
	out, err := e.try(t, p)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s\nserver log:\n%s", p.file, p.args, err, out, e.Log(30))
	}
	return out
}

// try runs a program to its end and returns its output, after an error with what it said on stderr.
func (e *env) try(t *testing.T, p program) (string, error) {
	t.Helper()
	cmd := e.command(t, p)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if p.terminal {
		done := atTerminal(t, cmd, p.stdin)
		defer done()
	}
	if p.names != nil {
		p.names.wrap(cmd)
	}
	if err := cmd.Run(); err != nil {
		return out.String() + errs.String(), err
	}
	return out.String(), nil
}

// command is a program that can be started. It is killed at the end of its time or of the test.
func (e *env) command(t *testing.T, p program) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, e.interpreter(t, p.file), append([]string{e.source(t, p.file)}, p.args...)...)
	home := t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "PYTHONDONTWRITEBYTECODE=1"}, p.env...)
	cmd.Dir, cmd.Stdin, cmd.WaitDelay = home, strings.NewReader(p.stdin), 5*time.Second
	return cmd
}

// interpreter is the program that runs a file.
func (e *env) interpreter(t *testing.T, file string) string {
	t.Helper()
	if filepath.Ext(file) == ".py" {
		return filepath.Join(e.clients, "python", "bin", "python")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// source is where a file of testdata can be run from: Node looks for modules beside the file that imports them, so that is copied to
// where they are.
func (e *env) source(t *testing.T, file string) string {
	t.Helper()
	if strings.HasPrefix(file, "node_modules/") {
		return filepath.Join(e.clients, "node", file)
	}
	path, err := filepath.Abs(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Ext(file) != ".mjs" {
		return path
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Join(e.clients, "node"), "run-") //nolint:usetesting // It must be below node_modules.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	path = filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// checkGolden compares with a file of testdata, or writes it anew.
func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: renew it with -update", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("what the client sends is not what %s has (-want +got); renew it with -update:\n%s", path, diff)
	}
}
