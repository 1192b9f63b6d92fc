package cli_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// session is the program on a terminal of its own.
type session struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	slave  *os.File
	before *unix.Termios

	mu     sync.Mutex
	output bytes.Buffer
	done   chan struct{}
	// leave ends the reading of what is printed: a file is open for as long as somebody reads.
	leave func()
}

// onTerminal starts the program on a new terminal.
func onTerminal(t *testing.T, b *backend, args ...string) *session {
	t.Helper()
	return startOnTerminal(t, b, true, args...)
}

// startOnTerminal is onTerminal for a terminal that sends the program signals, or that does not, so that a closed window is only the end
// of the input.
func startOnTerminal(t *testing.T, b *backend, signals bool, args ...string) *session {
	t.Helper()
	master, slave, err := openPTY(24, 80)
	if err != nil {
		t.Skipf("needs a pseudo-terminal: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, master: master, slave: slave, done: make(chan struct{})}
	if s.before, err = unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS); err != nil {
		t.Fatal(err)
	}
	s.cmd = &exec.Cmd{Path: self, Args: append([]string{"shoal"}, args...)}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.Env = append(os.Environ(), "SHOAL_URL="+b.url, "SHOAL_API_KEY="+b.key, "TERM=vt100")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: signals}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wake, wakeEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.leave = sync.OnceFunc(func() { _ = wakeEnd.Close(); <-s.done; _ = wake.Close() })
	fds := []unix.PollFd{{Fd: int32(master.Fd()), Events: unix.POLLIN}, {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
	go func() {
		defer close(s.done)
		buf := make([]byte, 4096)
		for {
			if _, err := unix.Poll(fds, -1); errors.Is(err, unix.EINTR) {
				continue
			}
			if fds[1].Revents != 0 {
				return
			}
			n, err := master.Read(buf)
			s.mu.Lock()
			s.output.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = slave.Close()
		s.leave()
		_ = master.Close()
	})
	return s
}

func (s *session) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

func (s *session) wait(text string) {
	s.t.Helper()
	eventually(s.t, func() bool { return strings.Contains(s.text(), text) })
}

func (s *session) typed(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// exit waits for the end, and wants the code and the terminal as it was.
func (s *session) exit(want int) {
	s.t.Helper()
	_ = s.cmd.Wait() // The code is looked at below.
	if got := s.cmd.ProcessState.ExitCode(); got != want {
		s.t.Errorf("exit code %d, want %d; printed:\n%s", got, want, s.text())
	}
	after, err := unix.IoctlGetTermios(int(s.master.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	if *after != *s.before {
		s.t.Errorf("the terminal was not put back: %+v, was %+v", *after, *s.before)
	}
}

// close closes the window, as a terminal's program does, and waits for the program.
func (s *session) close() {
	s.leave()
	_ = s.slave.Close()
	_ = s.master.Close() // The kernel hangs the session up.
	_ = s.cmd.Wait()
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
	s.wait("vt100")
	s.wait("24 80")
	if err := unix.IoctlSetWinsize(int(s.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 132}); err != nil {
		t.Fatal(err)
	}
	s.wait("40 132") // before the input that ends the shell, and its trap with it
	s.typed("hello\r")
	s.wait("got hello")
	s.typed("\x03") // Ctrl-C is for the process inside, not for us.
	s.exit(128 + int(unix.SIGINT))
}

func TestShellOnTerminal(t *testing.T) {
	b := newBackend(t).ready(t)
	create(t, b, "lab")
	s := onTerminal(t, b, "shell", "lab")
	s.typed("echo $((6*7))$((0))\r")
	s.wait("420")
	s.typed("exit 7\r")
	s.exit(7)
}

func TestTerminalIsPutBackWhenTheSandboxDies(t *testing.T) {
	b := newBackend(t).ready(t)
	create(t, b, "lab")
	s := onTerminal(t, b, "exec", "-it", "lab", "--", "sh", "-c", "echo ready; exec sleep 60")
	s.wait("ready")
	if code, _, errs := run(t, b, "rm", "lab"); code != 0 {
		t.Fatalf("rm: %d %s", code, errs)
	}
	s.exit(125)
	s.wait("the sandbox was deleted before the process had ended")
}

// TestSecondInterruptKills holds that an interrupt goes to the process, and a second one kills what doesn't listen.
func TestSecondInterruptKills(t *testing.T) {
	b := newBackend(t).ready(t)
	create(t, b, "lab")
	s := onTerminal(t, b, "exec", "lab", "--", "sh", "-c", `trap 'echo no' INT; echo ready; while :; do sleep 0.05; done`)
	s.wait("ready")
	s.typed("\x03")
	s.wait("no")
	s.typed("\x03")
	s.exit(128 + int(unix.SIGKILL))
}

// TestInterruptedRunLeavesNothing holds that run deletes its sandbox also then.
func TestInterruptedRunLeavesNothing(t *testing.T) {
	b := newBackend(t).ready(t)
	s := onTerminal(t, b, "run", "--", "sh", "-c", "echo ready; exec sleep 60")
	s.wait("ready")
	s.typed("\x03")
	s.exit(128 + int(unix.SIGINT))
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
	first.typed("echo one$((6*7))\r")
	first.wait("one42")
	first.typed("\r~.")
	first.exit(0)
	first.wait("shoal: left; the process goes on. Back to it: shoal attach ")

	second := onTerminal(t, b, "attach", "--tag", "work", "lab")
	second.wait("one42")
	third := onTerminal(t, b, "attach", "--scrollback", "0", "lab")
	if err := unix.IoctlSetWinsize(int(third.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 100}); err != nil {
		t.Fatal(err)
	}
	third.typed("echo two$((6*7)); until stty size | grep '5''0 100'; do sleep 0.01; done\r")
	second.wait("two42") // what one types both see
	second.wait("50 100")
	third.wait("50 100")
	if text := third.text(); strings.Contains(text, "one42") {
		t.Errorf("--scrollback 0 shows earlier output:\n%s", text)
	}
	second.typed("exit 9\r")
	second.exit(9)
	third.exit(9)
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
	s.wait("ready")
	if err := s.cmd.Process.Signal(unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.exit(0)
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
		s.wait("ready")
		s.close()
		if code := s.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("signals %t: attach: %d", signals, code)
		}
		if _, out, _ := run(t, b, "logs", "--list", "--running", "lab"); !strings.Contains(out, id) {
			t.Fatalf("signals %t: it does not run any more: %s", signals, out)
		}
	}
	for i, signals := range []bool{true, false} {
		s := startOnTerminal(t, b, signals, "exec", "-it", "lab", "--", "sh", "-c", "echo rea''dy; read x; echo $x")
		s.wait("ready")
		s.close()
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
	s.wait("ready")
	if code, _, errs := run(t, b, "rm", "lab"); code != 0 {
		t.Fatalf("rm: %d %s", code, errs)
	}
	s.exit(125)
	s.wait("\x1b[?25h\x1b[?1049l")
}
