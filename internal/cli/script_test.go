package cli_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"shoal/internal/cli"
	"shoal/internal/core"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"shoal": func() {
			os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Options{Version: "v1.2.3", Commit: "abcdef0"}))
		},
	})
}

// TestScripts runs the command line as a user types it, against the real API. Each script has a server of its own.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			b := newBackend(t)
			if !strings.Contains(file, "building") {
				b.ready(t)
			}
			testscript.Run(t, testscript.Params{
				Files: []string{file},
				Setup: func(env *testscript.Env) error {
					env.Setenv("SHOAL_URL", b.url)
					env.Setenv("SHOAL_API_KEY", b.key)
					env.Setenv("TLS_URL", b.tlsURL)
					env.Setenv("HOME", env.WorkDir)
					env.Setenv("GORACE", "atexit_sleep_ms=0") // Else each command of a script takes a second more under -race.
					return nil
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits": exits,
					// release lets the template be built.
					"release":  func(*testscript.TestScript, bool, []string) { b.release() },
					"shutdown": func(*testscript.TestScript, bool, []string) { b.shutDown() },
					// full leaves no room on the machine.
					"full": func(*testscript.TestScript, bool, []string) { b.machine.setFull() },
					// vanish SANDBOX ends a sandbox as a crash of its sentry would.
					"vanish": func(ts *testscript.TestScript, _ bool, args []string) { b.vanish(ts, args[0]) },
				},
			})
		})
	}
}

func (m *machine) setFull() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.full = true
}

// vanish ends a sandbox under its processes.
func (b *backend) vanish(ts *testscript.TestScript, name string) {
	p, err := b.control.Authenticate(context.Background(), b.key)
	ts.Check(err)
	sb, err := b.control.GetSandbox(context.Background(), p, name)
	ts.Check(err)
	b.machine.mu.Lock()
	g := b.machine.guests[sb.ID]
	delete(b.machine.guests, sb.ID)
	b.machine.mu.Unlock()
	g.die()
	b.machine.exits <- core.NodeExit{Sandbox: sb.ID, Incarnation: sb.Incarnation, Reason: "its sentry ended"}
}

// exits runs a program and wants exactly this exit code: exits 124 shoal exec lab -- sleep 9.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	got := 0
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("%v: exit code %d, want %d", args[1:], got, want)
	}
}
