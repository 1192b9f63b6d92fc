package cli_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"shoal/test/harness"
)

// onTerminal starts the program on a new terminal.
func onTerminal(t *testing.T, b *backend, args ...string) *harness.Window {
	t.Helper()
	return startOnTerminal(t, b, true, args...)
}

// startOnTerminal is onTerminal for a terminal that sends the program signals, or that does not, so that a closed window is only the end
// of the input.
func startOnTerminal(t *testing.T, b *backend, signals bool, args ...string) *harness.Window {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return harness.OpenWindow(t, &exec.Cmd{
		Path: self, Args: append([]string{"shoal"}, args...), Env: append(os.Environ(), "SHOAL_URL="+b.url, "SHOAL_API_KEY="+b.key, "TERM=vt100"),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: signals},
	})
}

func create(t *testing.T, b *backend, name string) {
	t.Helper()
	if code, _, errs := run(t, b, "create", "--name", name); code != 0 {
		t.Fatalf("create: %d %s", code, errs)
	}
}

func TestTerminalPassesInterruptAndSize(t *testing.T) {
	b := newBackend(t).ready(t)
	create(t, b, "lab")
	s := onTerminal(t, b, "exec", "-it", "lab", "--", "sh", "-c", `trap 'stty size' WINCH; echo "$TERM"; stty size; until read x; do :; done; echo "got $x"; exec sleep 60`)
	s.Sees("vt100")
	s.Sees("24 80")
	s.Resize(40, 132)
	s.Sees("40 132") // before the input that ends the shell, and its trap with it
	s.Type("hello\r")
	s.Sees("got hello")
	s.Type("\x03") // Ctrl-C is for the process inside, not for us.
	s.Ends(128 + int(unix.SIGINT))
}

func TestShellOnTerminal(t *testing.T) {
	b := newBackend(t).ready(t)
	create(t, b, "lab")
	s := onTerminal(t, b, "shell", "lab")
	s.Type("echo $((6*7))$((0))\r")
	s.Sees("420")
	s.Type("exit 7\r")
	s.Ends(7)
}

func TestTerminalIsPutBackWhenTheSandboxDies(t *testing.T) {
	b := newBackend(t).ready(t)
	create(t, b, "lab")
	s := onTerminal(t, b, "exec", "-it", "lab", "--", "sh", "-c", "echo ready; exec sleep 60")
	s.Sees("ready")
	if code, _, errs := run(t, b, "rm", "lab"); code != 0 {
		t.Fatalf("rm: %d %s", code, errs)
	}
	s.Ends(125)
	s.Sees("the sandbox was deleted before the process had ended")
}

// TestSecondInterruptKills holds that an interrupt goes to the process, and a second one kills what doesn't listen.
func TestSecondInterruptKills(t *testing.T) {
	b := newBackend(t).ready(t)
	create(t, b, "lab")
	s := onTerminal(t, b, "exec", "lab", "--", "sh", "-c", `trap 'echo no' INT; echo ready; while :; do sleep 0.05; done`)
	s.Sees("ready")
	s.Type("\x03")
	s.Sees("no")
	s.Type("\x03")
	s.Ends(128 + int(unix.SIGKILL))
}

// TestInterruptedRunLeavesNothing holds that run deletes its sandbox also then.
func TestInterruptedRunLeavesNothing(t *testing.T) {
	b := newBackend(t).ready(t)
	s := onTerminal(t, b, "run", "--", "sh", "-c", "echo ready; exec sleep 60")
	s.Sees("ready")
	s.Type("\x03")
	s.Ends(128 + int(unix.SIGINT))
	if _, out, _ := run(t, b, "ls", "-q"); out != "" {
		t.Errorf("left: %s", out)
	}
}

// TestLeaveAndAttach holds that a shell which was left goes on, is found again with what it printed, and can be used from two
// terminals at once.
func TestLeaveAndAttach(t *testing.T) {
	b := newBackend(t).ready(t)
	create(t, b, "lab")
	first := onTerminal(t, b, "shell", "--tag", "work", "lab")
	first.Type("echo one$((6*7))\r")
	first.Sees("one42")
	first.Type("\r~.")
	first.Ends(0)
	first.Sees("shoal: left; the process goes on. Back to it: shoal attach ")

	second := onTerminal(t, b, "attach", "--tag", "work", "lab")
	second.Sees("one42")
	third := onTerminal(t, b, "attach", "--scrollback", "0", "lab")
	third.Resize(50, 100)
	third.Type("echo two$((6*7)); until stty size | grep '5''0 100'; do sleep 0.01; done\r")
	second.Sees("two42") // what one types both see
	second.Sees("50 100")
	third.Sees("50 100")
	if text := third.Text(); strings.Contains(text, "one42") {
		t.Errorf("--scrollback 0 shows earlier output:\n%s", text)
	}
	second.Type("exit 9\r")
	second.Ends(9)
	third.Ends(9)
	if code, _, errs := run(t, b, "attach", "lab"); code == 0 || !strings.Contains(errs, "nothing with a terminal is running") {
		t.Errorf("attach to nothing: %d %s", code, errs)
	}
}

// TestHangupLeavesWhatWasAttached holds that closing the window of an attached terminal ends this program and nothing else.
func TestHangupLeavesWhatWasAttached(t *testing.T) {
	b := newBackend(t).ready(t)
	create(t, b, "lab")
	code, id, errs := run(t, b, "exec", "-d", "-t", "lab", "--", "sh", "-c", "echo rea''dy; exec sleep 60")
	if code != 0 {
		t.Fatalf("exec: %d %s", code, errs)
	}
	s := onTerminal(t, b, "attach", "lab", strings.TrimSpace(id))
	s.Sees("ready")
	s.Signal(unix.SIGHUP)
	s.Ends(0)
	if _, out, _ := run(t, b, "logs", "--list", "--running", "lab"); !strings.Contains(out, strings.TrimSpace(id)) {
		t.Errorf("it does not run any more: %s", out)
	}
}

// TestClosedWindow holds what the end of a window does, which is the end of our input as well: what was attached goes on, and what was
// started there is hung up as by its own terminal.
func TestClosedWindow(t *testing.T) {
	b := newBackend(t).ready(t)
	create(t, b, "lab")
	code, id, errs := run(t, b, "exec", "-d", "-t", "lab", "--", "sh", "-c", "echo rea''dy; read x; echo $x")
	if code != 0 {
		t.Fatalf("exec: %d %s", code, errs)
	}
	id = strings.TrimSpace(id)
	for _, signals := range []bool{true, false} {
		s := startOnTerminal(t, b, signals, "attach", "lab", id)
		s.Sees("ready")
		if code := s.Close(); code != 0 {
			t.Errorf("signals %t: attach: %d", signals, code)
		}
		if _, out, _ := run(t, b, "logs", "--list", "--running", "lab"); !strings.Contains(out, id) {
			t.Fatalf("signals %t: it does not run any more: %s", signals, out)
		}
	}
	for i, signals := range []bool{true, false} {
		s := startOnTerminal(t, b, signals, "exec", "-it", "lab", "--", "sh", "-c", "echo rea''dy; read x; echo $x")
		s.Sees("ready")
		s.Close()
		eventually(t, func() bool {
			_, out, _ := run(t, b, "logs", "--list", "lab")
			return strings.Count(out, "SIGHUP") == i+1
		})
	}
}

// TestScreenIsPutBackWhenTheSandboxDies holds that what an editor did to the terminal is undone if it had no chance to.
func TestScreenIsPutBackWhenTheSandboxDies(t *testing.T) {
	b := newBackend(t).ready(t)
	create(t, b, "lab")
	s := onTerminal(t, b, "exec", "-it", "lab", "--", "sh", "-c", `printf '\033[?1049h\033[?25l'; echo ready; exec sleep 60`)
	s.Sees("ready")
	if code, _, errs := run(t, b, "rm", "lab"); code != 0 {
		t.Fatalf("rm: %d %s", code, errs)
	}
	s.Ends(125)
	s.Sees("\x1b[?25h\x1b[?1049l")
}
