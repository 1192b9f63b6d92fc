package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

func asError(err error, target **shoal.Error) bool { return errors.As(err, target) }

// collect reads a stream to its end.
func collect(t *testing.T, s shoal.ExecStream) (stdout, stderr []byte, gaps int64, end shoal.ExecMessage) {
	t.Helper()
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return stdout, stderr, gaps, end
		}
		if err != nil {
			t.Fatalf("stream: %v", err)
		}
		switch m.Type {
		case shoal.MessageStdout:
			stdout = append(stdout, m.Bytes()...)
		case shoal.MessageStderr:
			stderr = append(stderr, m.Bytes()...)
		case shoal.MessageGap:
			gaps += m.Missing
		case shoal.MessageEnded:
			end = m
		default:
		}
	}
}

func testExitCodes(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	for _, n := range []int{0, 1, 42, 255} {
		if res := e.sh(t, sb, fmt.Sprintf("exit %d", n)); res.Outcome != shoal.OutcomeExited || *res.ExitCode != n {
			t.Errorf("exit %d: %s", n, harness.Describe(res))
		}
	}
	res := e.sh(t, sb, "kill -TERM $$")
	if res.Outcome != shoal.OutcomeSignaled || res.Signal != "SIGTERM" || res.ExitCode != nil {
		t.Errorf("killed by itself: %s", harness.Describe(res))
	}
}

func testStreams(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	res := e.sh(t, sb, `printf out; printf err >&2; printf '\377\000' `)
	if got := res.StdoutBytes(); !bytes.Equal(got, []byte("out\xff\x00")) {
		t.Errorf("stdout %q", got)
	}
	if got := res.StderrBytes(); string(got) != "err" {
		t.Errorf("stderr %q", got)
	}
}

func testExecOptions(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Env: map[string]string{"FROM_SANDBOX": "a", "BOTH": "sandbox"}})
	run := func(req shoal.ExecRequest) string {
		t.Helper()
		res, err := e.Client.Execs(sb.ID).Run(ctx(t), req)
		if err != nil || res.Outcome != shoal.OutcomeExited || *res.ExitCode != 0 {
			t.Fatalf("%+v: %v %s %s", req, err, harness.Describe(res), res.StderrBytes())
		}
		return strings.TrimSpace(string(res.StdoutBytes()))
	}
	if got := run(shoal.ExecRequest{Shell: "echo $FROM_SANDBOX $BOTH $OWN", Env: map[string]string{"BOTH": "exec", "OWN": "c"}}); got != "a exec c" {
		t.Errorf("environment %q", got)
	}
	if got := run(shoal.ExecRequest{Cmd: []string{"pwd"}, Cwd: "/usr/lib"}); got != "/usr/lib" {
		t.Errorf("directory %q", got)
	}
	if got := run(shoal.ExecRequest{Cmd: []string{"id", "-u"}, User: "nobody"}); got != "65534" {
		t.Errorf("user %q", got)
	}
	// A user that is made, and then changed, is who it is now.
	for _, uid := range []string{"1234", "1235"} {
		run(shoal.ExecRequest{Shell: "sed -i /^zoe:/d /etc/passwd && echo zoe:x:" + uid + ":1234::/:/bin/sh >>/etc/passwd", User: "root"})
		if got := run(shoal.ExecRequest{Cmd: []string{"id", "-u"}, User: "zoe"}); got != uid {
			t.Errorf("zoe is %q, want %s", got, uid)
		}
	}
	if got := run(shoal.ExecRequest{Cmd: []string{"id", "-g"}, User: "1234:4321"}); got != "4321" {
		t.Errorf("group %q", got)
	}
	big := strings.Repeat("0123456789abcdef", 1<<15)
	if got := run(shoal.ExecRequest{Shell: "wc -c; cat", Stdin: big}); got != fmt.Sprint(len(big)) {
		t.Errorf("input counted as %q", got)
	}
	if got := run(shoal.ExecRequest{Cmd: []string{"cat"}}); got != "" {
		t.Errorf("no input gave %q", got)
	}
}

func testMissingProgram(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	_, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Cmd: []string{"no-such-program"}})
	if e := wantCode(t, err, "invalid"); e.Field != "cmd" {
		t.Errorf("blames %q", e.Field)
	}
	if res := e.sh(t, sb, "no-such-program"); res.Outcome != shoal.OutcomeExited || *res.ExitCode != 127 {
		t.Errorf("in a shell: %s", harness.Describe(res))
	}
	_, err = e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Cmd: []string{"pwd"}, Cwd: "/nowhere"})
	if e := wantCode(t, err, "invalid"); e.Field != "cwd" {
		t.Errorf("blames %q", e.Field)
	}
	_, err = e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Cmd: []string{"pwd"}, User: "nobody-of-that-name"})
	if e := wantCode(t, err, "invalid"); e.Field != "user" {
		t.Errorf("blames %q", e.Field)
	}
}

// Named test 1.
func testBackgroundChild(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	start := time.Now()
	if got := e.Out(t, sb.ID, "sleep 1000 & echo done"); got != "done\n" {
		t.Errorf("output %q", got)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
}

// Named test 2.
func testStuckCommand(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	for range 20 {
		if _, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Shell: "trap '' TERM INT HUP; while :; do sleep 1000; done"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := e.Out(t, sb.ID, "echo fine"); got != "fine\n" {
		t.Errorf("output %q", got)
	}
}

// Named test 3.
func testOutlivesLeader(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	res := e.sh(t, sb, "setsid sh -c 'exec -a orphan sleep 1000' >/dev/null 2>&1 & sleep 1001 & echo up")
	if string(res.StdoutBytes()) != "up\n" {
		t.Fatalf("%s %s", harness.Describe(res), res.StderrBytes())
	}
	harness.Eventually(t, 10*time.Second, "both survivors are listed", func() error {
		x, err := e.Client.Execs(sb.ID).Get(ctx(t), res.ID)
		if err != nil {
			return err
		}
		if x.Processes != 2 || x.Outcome != shoal.OutcomeExited {
			return fmt.Errorf("%d processes, outcome %s", x.Processes, x.Outcome)
		}
		return nil
	})
	if err := e.Client.Execs(sb.ID).Cancel(ctx(t), res.ID); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 10*time.Second, "the group is gone", func() error {
		if left := e.Out(t, sb.ID, "ps -eo args | grep -c '[s]leep 100' || true"); left != "0\n" {
			return fmt.Errorf("%s left", strings.TrimSpace(left))
		}
		return nil
	})
}

// Named test 4.
func testRunawayPrinter(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	c, cancel := context.WithCancel(ctx(t))
	defer cancel()
	stream, err := e.Client.Execs(sb.ID).Stream(c, shoal.ExecRequest{Shell: "yes"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || first.Type != shoal.MessageStarted {
		t.Fatalf("%+v %v", first, err)
	}
	before, err := e.Client.Sandboxes().Metrics(ctx(t), sb.ID)
	if err != nil {
		t.Fatal(err)
	}
	// Nobody reads. The printer is held back, then let go: its output moves on and memory stays where it is.
	var at int64
	harness.Eventually(t, 40*time.Second, "the printer goes on without its reader", func() error {
		x, err := e.Client.Execs(sb.ID).Get(ctx(t), first.Exec.ID)
		if err != nil {
			return err
		}
		if x.OutputBytes < 64<<20 {
			at = x.OutputBytes
			return fmt.Errorf("it has printed %d bytes", at)
		}
		return nil
	})
	after, err := e.Client.Sandboxes().Metrics(ctx(t), sb.ID)
	if err != nil {
		t.Fatal(err)
	}
	if grown := after.MemoryBytes - before.MemoryBytes; grown > 32<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
	if err := e.Client.Execs(sb.ID).Cancel(ctx(t), first.Exec.ID); err != nil {
		t.Fatal(err)
	}
	_, _, _, end := collect(t, stream)
	if end.Exec.Outcome != shoal.OutcomeCanceled {
		t.Errorf("ended as %s", end.Exec.Outcome)
	}
}

// Named test 5.
func testClientGone(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	c, cancel := context.WithCancel(ctx(t))
	stream, err := e.Client.Execs(sb.ID).Stream(c, shoal.ExecRequest{Shell: "for i in $(seq 2000); do echo line $i; done; sleep 2; for i in $(seq 2001 4000); do echo line $i; done"})
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	var id string
	for len(got) < 1000 {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.Type == shoal.MessageStarted {
			id = m.Exec.ID
		}
		got = append(got, m.Bytes()...)
	}
	cancel()
	_ = stream.Close()
	again, err := e.Client.Execs(sb.ID).Attach(ctx(t), id, int64(len(got)))
	if err != nil {
		t.Fatal(err)
	}
	rest, _, gaps, end := collect(t, again)
	var want bytes.Buffer
	for i := 1; i <= 4000; i++ {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if gaps != 0 || !bytes.Equal(append(got, rest...), want.Bytes()) {
		t.Errorf("missed or repeated something: %d + %d bytes, %d in gaps, want %d", len(got), len(rest), gaps, want.Len())
	}
	if end.Exec.Outcome != shoal.OutcomeExited {
		t.Errorf("ended as %s", end.Exec.Outcome)
	}
}

// Named test 6.
func testLost(t *testing.T, e env) {
	for what, kill := range map[string]func(t *testing.T, id string){
		"sentry": e.killSentry,
		"guest agent": func(t *testing.T, id string) {
			// Root inside can do that to its own sandbox: gVisor lets init be killed.
			res, err := e.Client.Execs(id).Run(ctx(t), shoal.ExecRequest{Shell: "kill -9 1; sleep 1000"})
			if err != nil || res.Outcome != shoal.OutcomeLost {
				t.Errorf("the killer itself: %v, %s", err, harness.Describe(res))
			}
			e.wantFailed(t, id, "guest agent")
		},
	} {
		t.Run(what, func(t *testing.T) {
			sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
			stream, err := e.Client.Execs(sb.ID).Stream(ctx(t), shoal.ExecRequest{Shell: "echo up; sleep 1000"})
			if err != nil {
				t.Fatal(err)
			}
			id := ""
			for {
				m, err := stream.Recv()
				if err != nil {
					t.Fatal(err)
				}
				if m.Type == shoal.MessageStarted {
					id = m.Exec.ID
				}
				if m.Type == shoal.MessageStdout {
					break
				}
			}
			kill(t, sb.ID)
			_, _, _, end := collect(t, stream)
			if end.Exec.Outcome != shoal.OutcomeLost || end.Exec.ExitCode != nil {
				t.Errorf("ended as %s", end.Exec.Outcome)
			}
			harness.Eventually(t, 30*time.Second, "the record says lost and the sandbox failed", func() error {
				x, err := e.Client.Execs(sb.ID).Get(ctx(t), id)
				if err != nil {
					return err
				}
				got, err := e.Client.Sandboxes().Get(ctx(t), sb.ID)
				if err != nil {
					return err
				}
				if x.Outcome != shoal.OutcomeLost || got.State != shoal.StateFailed {
					return fmt.Errorf("exec %q, sandbox %s", x.Outcome, got.State)
				}
				return nil
			})
		})
	}
}

func testTimeout(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	limit := 0.5
	res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Shell: "trap '' TERM; sleep 1002 & echo up; sleep 1002", TimeoutSeconds: &limit})
	if err != nil {
		t.Fatal(err)
	}
	if res.Outcome != shoal.OutcomeTimeout || res.ExitCode != nil || string(res.StdoutBytes()) != "up\n" {
		t.Errorf("%s, stdout %q", harness.Describe(res), res.StdoutBytes())
	}
	if left := e.Out(t, sb.ID, "ps -eo args | grep -c '[s]leep 1002' || true"); left != "0\n" {
		t.Errorf("%s processes of the group are left", strings.TrimSpace(left))
	}
}

// Named test 13.
func testSilence(t *testing.T, e env) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	t.Run("both", func(t *testing.T) {
		for _, how := range []string{"ndjson", "websocket"} {
			t.Run(how, func(t *testing.T) {
				t.Parallel()
				var stream shoal.ExecStream
				var err error
				req := shoal.ExecRequest{Shell: "echo a; sleep 65; echo b"}
				if how == "ndjson" {
					stream, err = e.Client.Execs(sb.ID).Stream(ctx(t), req)
				} else {
					var x shoal.Exec
					if x, err = e.Client.Execs(sb.ID).Start(ctx(t), req); err == nil {
						stream, err = e.Client.Execs(sb.ID).Attach(ctx(t), x.ID, 0)
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				if out, _, _, end := collect(t, stream); string(out) != "a\nb\n" || end.Type != shoal.MessageEnded || end.Exec.Outcome != shoal.OutcomeExited {
					t.Errorf("stdout %q, end %+v", out, end)
				}
			})
		}
	})
}

func testTerminal(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	rows, cols := 33, 99
	x, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Cmd: []string{"sh"}, Tty: true, Rows: &rows, Cols: &cols, StdinOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := e.Client.Execs(sb.ID).Attach(ctx(t), x.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(stream, "stty size; test -t 0 && echo is-a-terminal; exit 7\n"); err != nil {
		t.Fatal(err)
	}
	out, _, _, end := collect(t, stream)
	if !bytes.Contains(out, []byte("33 99")) || !bytes.Contains(out, []byte("is-a-terminal")) || end.Exec.Outcome != shoal.OutcomeExited || *end.Exec.ExitCode != 7 {
		t.Errorf("%q %+v", out, end.Exec)
	}
}
