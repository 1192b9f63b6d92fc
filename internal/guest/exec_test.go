package guest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
)

func itoa(n int) string { return strconv.Itoa(n) }

func newID() core.ExecID { return core.ExecID(core.NewID()) }

func TestOutcomes(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	code := func(n int) *int { return &n }
	for name, c := range map[string]struct {
		spec    core.ExecSpec
		outcome core.Outcome
		code    *int
		signal  string
	}{
		"zero":            {core.ExecSpec{Cmd: []string{"true"}}, core.OutcomeExited, code(0), ""},
		"code 255":        {shell("exit 255"), core.OutcomeExited, code(255), ""},
		"own signal":      {shell("kill -TERM $$"), core.OutcomeSignaled, nil, "SIGTERM"},
		"own kill":        {shell("kill -KILL $$"), core.OutcomeSignaled, nil, "SIGKILL"},
		"timeout":         {core.ExecSpec{Shell: "sleep 100", Timeout: 50 * time.Millisecond}, core.OutcomeTimeout, nil, ""},
		"timeout ignored": {core.ExecSpec{Shell: "exit 3", Timeout: time.Minute}, core.OutcomeExited, code(3), ""},
		"shell 127":       {shell("no-such-program-here"), core.OutcomeExited, code(127), ""},
		"shell 126":       {shell("/etc/passwd"), core.OutcomeExited, code(126), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := a.run(t, c.spec).exec
			if e.Outcome != c.outcome || e.Signal != c.signal {
				t.Errorf("outcome %q %q, want %q %q", e.Outcome, e.Signal, c.outcome, c.signal)
			}
			if (e.ExitCode == nil) != (c.code == nil) || c.code != nil && *e.ExitCode != *c.code {
				t.Errorf("exit code %v, want %v", e.ExitCode, c.code)
			}
			if e.EndedAt.Before(e.StartedAt) {
				t.Errorf("ended %s before it started %s", e.EndedAt, e.StartedAt)
			}
		})
	}
}

func TestProgramThatCantStart(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	plain := write("plain", "text", 0o644)
	noFormat := write("no-format", "\x01\x02\x03\x04", 0o755)
	noInterpreter := write("no-interpreter", "#!/no/such/interpreter\n", 0o755)
	for name, c := range map[string]struct {
		spec  core.ExecSpec
		code  core.Code
		field string
	}{
		"not in PATH":     {core.ExecSpec{Cmd: []string{"no-such-program"}}, core.CodeInvalid, "cmd"},
		"no such path":    {core.ExecSpec{Cmd: []string{"/no/such"}}, core.CodeInvalid, "cmd"},
		"not executable":  {core.ExecSpec{Cmd: []string{plain}}, core.CodeDenied, "cmd"},
		"in PATH, denied": {core.ExecSpec{Cmd: []string{"plain"}, Env: map[string]string{"PATH": dir}}, core.CodeDenied, "cmd"},
		"a directory":     {core.ExecSpec{Cmd: []string{dir}}, core.CodeDenied, "cmd"},
		"unknown format":  {core.ExecSpec{Cmd: []string{noFormat}}, core.CodeDenied, "cmd"},
		"no interpreter":  {core.ExecSpec{Cmd: []string{noInterpreter}}, core.CodeInvalid, "cmd"},
		"empty":           {core.ExecSpec{Cmd: []string{""}}, core.CodeInvalid, "cmd"},
		"zero byte":       {core.ExecSpec{Cmd: []string{"echo", "a\x00b"}}, core.CodeInvalid, "cmd"},
		"no such cwd":     {core.ExecSpec{Cmd: []string{"true"}, Cwd: "/no/such"}, core.CodeInvalid, "cwd"},
		"cwd is a file":   {core.ExecSpec{Cmd: []string{"true"}, Cwd: plain}, core.CodeInvalid, "cwd"},
		"no such user":    {core.ExecSpec{Cmd: []string{"true"}, User: "nobody-of-that-name"}, core.CodeInvalid, "user"},
		"bad variable":    {core.ExecSpec{Cmd: []string{"true"}, Env: map[string]string{"A=B": "c"}}, core.CodeInvalid, "env"},
		"too large":       {core.ExecSpec{Cmd: []string{"true", strings.Repeat("x", 200_000)}}, core.CodeInvalid, "cmd"},
		"both":            {core.ExecSpec{Cmd: []string{"true"}, Shell: "true"}, core.CodeInvalid, "cmd"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.client.Exec(t.Context(), newID(), c.spec)
			var e *core.Error
			if !errors.As(err, &e) || e.Code != c.code || e.Field != c.field {
				t.Errorf("error %v, want %s of %s", err, c.code, c.field)
			}
		})
	}
	list, err := a.client.ListExecs(t.Context())
	if err != nil || len(list) != 0 {
		t.Errorf("what did not start is listed: %v, %v", list, err)
	}
}

func TestUnconfiguredAgentRunsNothing(t *testing.T) {
	a := startBare(t, guest.Config{}, client.Config{})
	if _, err := a.client.Exec(t.Context(), newID(), shell("true")); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("exec before configure: %v", err)
	}
	if h, err := a.client.Hello(t.Context()); err != nil || h.Sandbox != "" {
		t.Errorf("hello %+v, %v", h, err)
	}
}

func TestEnvironmentAndDirectory(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	r := a.run(t, core.ExecSpec{
		Shell: `echo "$SHOAL_TEST $MINE $PATH"; pwd`, Cwd: dir, Env: map[string]string{"MINE": "exec", "PATH": "/usr/bin:/bin"},
	})
	if want := "sandbox exec /usr/bin:/bin\n" + dir + "\n"; string(r.stdout) != want {
		t.Errorf("stdout %q, want %q", r.stdout, want)
	}
	if r := a.run(t, core.ExecSpec{Shell: "cat"}); len(r.stdout) != 0 || *r.exec.ExitCode != 0 {
		t.Errorf("stdin is not empty without being asked for: %q", r.stdout)
	}
}

func TestSameIDTwice(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	id := newID()
	s, err := a.client.Exec(t.Context(), id, shell("exit 4"))
	if err != nil {
		t.Fatal(err)
	}
	collect(t, s, 0)
	if _, err := a.client.Exec(t.Context(), id, shell("exit 5")); !core.IsCode(err, core.CodeExists) {
		t.Errorf("the same id again: %v", err)
	}
}

// TestManyAtOnce runs 200 execs side by side.
func TestManyAtOnce(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	var wg sync.WaitGroup
	errs := make(chan error, 200)
	for i := range 200 {
		wg.Go(func() {
			s, err := a.client.Exec(context.Background(), newID(), shell(fmt.Sprintf("echo %d; echo e%d >&2; exit %d", i, i, i%256)))
			if err != nil {
				errs <- err
				return
			}
			r := collect(t, s, 0)
			if r.exec.ExitCode == nil || *r.exec.ExitCode != i%256 || string(r.stdout) != fmt.Sprintf("%d\n", i) || string(r.stderr) != fmt.Sprintf("e%d\n", i) {
				errs <- fmt.Errorf("exec %d: %+v %q %q", i, r.exec, r.stdout, r.stderr)
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	list, err := a.client.ListExecs(t.Context())
	if err != nil || len(list) != 200 {
		t.Errorf("listed %d, %v", len(list), err)
	}
}

func TestLargeInputAndBinaryOutput(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	want := make([]byte, 5<<20+13)
	_, _ = rand.Read(want)
	s, err := a.client.Exec(t.Context(), newID(), core.ExecSpec{Cmd: []string{"cat"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		for part := range bytesChunks(want, 700_001) {
			if err := s.SendStdin(part); err != nil {
				sent <- err
				return
			}
		}
		sent <- s.CloseStdin()
	}()
	r := collect(t, s, 0)
	if err := <-sent; err != nil {
		t.Errorf("send: %v", err)
	}
	if !bytes.Equal(r.stdout, want) || r.missing != 0 {
		t.Errorf("got %d bytes back, %d missing", len(r.stdout), r.missing)
	}
}

func bytesChunks(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			k := min(n, len(b))
			if !yield(b[:k]) {
				return
			}
			b = b[k:]
		}
	}
}

func TestInputErrors(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	id := newID()
	s, err := a.client.Exec(t.Context(), id, shell("sleep 100"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendStdin([]byte("x")); !core.IsCode(err, core.CodeConflict) {
		t.Errorf("input that was not asked for: %v", err)
	}
	// A process that does not read holds the writer back, until the writer gives up; others are not disturbed.
	deaf := newID()
	if _, err := a.client.Exec(t.Context(), deaf, core.ExecSpec{Shell: "sleep 100", Stdin: true}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := a.client.WriteStdin(ctx, deaf, make([]byte, 1<<20), false); !core.IsCode(err, core.CodeTimeout) {
		t.Errorf("input that is not read: %v", err)
	}
	within(t, 5*time.Second, "cancel", func() {
		if err := a.client.Cancel(t.Context(), deaf); err != nil {
			t.Errorf("cancel: %v", err)
		}
	})
	if err := a.client.WriteStdin(t.Context(), deaf, []byte("x"), true); !core.IsCode(err, core.CodeConflict) {
		t.Errorf("input after the end: %v", err)
	}
}

// TestBackgroundChildKeepsStdout: a child that keeps stdout open doesn't hang the exec (named test 1).
func TestBackgroundChildKeepsStdout(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	within(t, 10*time.Second, "exec with a background child", func() {
		r := a.run(t, shell(`sleep 1000 & echo "$!"; printf tail`))
		if *r.exec.ExitCode != 0 || !strings.HasSuffix(string(r.stdout), "\ntail") {
			t.Errorf("ended %+v, stdout %q", r.exec, r.stdout)
		}
		if r.exec.Processes != 1 {
			t.Errorf("%d processes are left, want the background child", r.exec.Processes)
		}
		if err := a.client.Cancel(t.Context(), r.exec.ID); err != nil {
			t.Errorf("cancel: %v", err)
		}
		e, err := a.client.GetExec(t.Context(), r.exec.ID)
		if err != nil || e.Outcome != core.OutcomeExited || e.Processes != 0 {
			t.Errorf("after cancel: %+v, %v", e, err)
		}
	})
}

// TestBackgroundPrinter: neither does a child that prints without end.
func TestBackgroundPrinter(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	within(t, 20*time.Second, "exec with a printing child", func() {
		r := a.run(t, shell(`yes & exit 9`))
		if *r.exec.ExitCode != 9 {
			t.Errorf("ended %+v", r.exec)
		}
		eventually(t, "output goes on", func() bool {
			e, err := a.client.GetExec(t.Context(), r.exec.ID)
			return err == nil && e.OutputBytes > r.exec.OutputBytes
		})
		if err := a.client.Signal(t.Context(), r.exec.ID, "SIGTERM"); err != nil {
			t.Errorf("signal: %v", err)
		}
		eventually(t, "the child ends", func() bool {
			e, err := a.client.GetExec(t.Context(), r.exec.ID)
			return err == nil && e.Processes == 0
		})
	})
}

// TestStuckCommand: a command that never ends and never reads disturbs no other (named test 2).
func TestStuckCommand(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	for range 5 {
		if _, err := a.client.Exec(t.Context(), newID(), shell(`trap "" TERM INT; yes; sleep 1000`)); err != nil {
			t.Fatal(err)
		}
	}
	within(t, 10*time.Second, "other commands", func() {
		for range 10 {
			if r := a.run(t, shell("echo ok")); string(r.stdout) != "ok\n" {
				t.Errorf("stdout %q", r.stdout)
			}
			if err := a.client.Ping(t.Context()); err != nil {
				t.Errorf("ping: %v", err)
			}
		}
	})
}

// TestOutlivesLeader: what outlives its leader is listed, and killed with its group (named test 3).
func TestOutlivesLeader(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	// One stays in the session, one leaves it, one is a daemon that nobody waits for.
	r := a.run(t, core.ExecSpec{Cwd: dir, Shell: `
		sleep 1000 >/dev/null 2>&1 &
		setsid sleep 1001 >/dev/null 2>&1 &
		(setsid sh -c 'echo $$ > daemon; exec sleep 1002' >/dev/null 2>&1 &)
		while ! [ -s daemon ]; do :; done
		exit 0`})
	list, err := a.client.ListExecs(t.Context())
	if err != nil || len(list) != 1 || list[0].Processes != 3 || list[0].Outcome != core.OutcomeExited {
		t.Fatalf("list %+v, %v; want three processes", list, err)
	}
	if err := a.client.Cancel(t.Context(), r.exec.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the group is gone", func() bool {
		e, err := a.client.GetExec(t.Context(), r.exec.ID)
		return err == nil && e.Processes == 0
	})
	if err := a.client.Signal(t.Context(), r.exec.ID, "SIGTERM"); !core.IsCode(err, core.CodeConflict) {
		t.Errorf("signal to an ended group: %v", err)
	}
}

// TestTimeoutKillsGroup: the deadline reaches what left the session, also after the leader's end.
func TestTimeoutKillsGroup(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	r := a.run(t, core.ExecSpec{Shell: `setsid sleep 1000 & sleep 1000`, Timeout: 300 * time.Millisecond})
	if r.exec.Outcome != core.OutcomeTimeout || r.exec.ExitCode != nil {
		t.Errorf("ended as %+v", r.exec)
	}
	late := a.run(t, core.ExecSpec{Shell: `setsid sleep 1000 & exit 0`, Timeout: 500 * time.Millisecond})
	if late.exec.Outcome != core.OutcomeExited {
		t.Errorf("ended as %+v", late.exec)
	}
	for _, id := range []core.ExecID{r.exec.ID, late.exec.ID} {
		eventually(t, "the group is gone", func() bool {
			e, err := a.client.GetExec(t.Context(), id)
			return err == nil && e.Processes == 0
		})
	}
	if e, err := a.client.GetExec(t.Context(), late.exec.ID); err != nil || e.Outcome != core.OutcomeExited {
		t.Errorf("the outcome changed: %+v, %v", e, err)
	}
}

func TestSignalAndCancel(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	s, err := a.client.Exec(t.Context(), newID(), shell(`trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.01; done`))
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == core.ExecStdout {
			break
		}
	}
	if err := s.Signal("SIGNONE"); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("unknown signal: %v", err)
	}
	if err := s.Signal("SIGUSR1"); err != nil {
		t.Errorf("signal: %v", err)
	}
	if r := collect(t, s, 6); r.exec.Outcome != core.OutcomeExited && r.exec.Outcome != core.OutcomeSignaled {
		t.Errorf("ended as %+v", r.exec)
	}
	id := newID()
	if s, err = a.client.Exec(t.Context(), id, shell(`trap "" TERM; sleep 1000`)); err != nil {
		t.Fatal(err)
	}
	if err := a.client.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if r := collect(t, s, 0); r.exec.Outcome != core.OutcomeCanceled {
		t.Errorf("ended as %+v", r.exec)
	}
	for what, err := range map[string]error{
		"cancel": a.client.Cancel(t.Context(), newID()), "signal": a.client.Signal(t.Context(), newID(), "SIGTERM"),
		"resize": a.client.Resize(t.Context(), newID(), 1, 1), "stdin": a.client.WriteStdin(t.Context(), newID(), []byte("x"), true),
	} {
		if !core.IsCode(err, core.CodeNotFound) {
			t.Errorf("%s of an unknown exec: %v", what, err)
		}
	}
}

func TestLongAndManyLines(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	r := a.run(t, shell(`i=0; while [ $i -lt 2000 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done`))
	if r.missing != 0 || strings.Count(string(r.stdout), "\n") != 2000 || strings.Count(string(r.stderr), "\n") != 2000 {
		t.Errorf("missing %d, %d and %d bytes", r.missing, len(r.stdout), len(r.stderr))
	}
	if r := a.run(t, shell(`head -c 3000000 /dev/zero`)); len(r.stdout) != 3_000_000 || r.missing != 0 {
		t.Errorf("%d bytes, %d missing", len(r.stdout), r.missing)
	}
}

func TestRecvAfterEnd(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	s, err := a.client.Exec(t.Context(), newID(), shell("true"))
	if err != nil {
		t.Fatal(err)
	}
	collect(t, s, 0)
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestSignalReachesTheLeaderFirst: a shell is ended by a signal to its group, and not by the end of its child.
func TestSignalReachesTheLeaderFirst(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	for i := range 40 {
		id, sig := newID(), []string{"SIGKILL", "SIGTERM"}[i%2]
		s, err := a.client.Exec(t.Context(), id, shell(`sleep 1000; exit 0`))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the shell has a child", func() bool {
			e, err := a.client.GetExec(t.Context(), id)
			return err == nil && e.Processes == 2
		})
		if err := a.client.Signal(t.Context(), id, sig); err != nil {
			t.Fatal(err)
		}
		if r := collect(t, s, 0); r.exec.Outcome != core.OutcomeSignaled || r.exec.Signal != sig {
			t.Fatalf("%s: ended as %+v, %q", sig, r.exec, r.stderr)
		}
	}
}
