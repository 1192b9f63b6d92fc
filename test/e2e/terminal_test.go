package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// window is the program on a terminal of its own, as a person has it.
type window struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	before *unix.Termios

	mu     sync.Mutex
	output bytes.Buffer
}

// open starts the program in a window of 24 rows and 80 columns.
func (e env) open(t *testing.T, args ...string) *window {
	t.Helper()
	cmd := exec.Command(harness.Binary(t, false), args...)
	cmd.Env = append(harness.CleanEnvironment(), "SHOAL_URL="+e.URL, "SHOAL_API_KEY="+e.Key, "TERM=xterm")
	master, slave, err := pty.Open()
	if err == nil {
		err = pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80})
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &window{t: t, cmd: cmd, master: master}
	if w.before, err = unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			w.mu.Lock()
			w.output.Write(buf[:n])
			w.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = slave.Close()
		reader.Wait()
		_ = master.Close()
	})
	return w
}

func (w *window) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.output.String()
}

// sees waits until the window shows text.
func (w *window) sees(text string) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(w.text(), text); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("the window doesn't show %q:\n%q", text, w.text())
		}
	}
}

func (w *window) typed(keys string) {
	w.t.Helper()
	if _, err := io.WriteString(w.master, keys); err != nil {
		w.t.Fatal(err)
	}
}

// ends waits for the program's end, and wants the code and the terminal as it was before.
func (w *window) ends(want int) {
	w.t.Helper()
	_ = w.cmd.Wait() // The code is looked at below.
	if got := w.cmd.ProcessState.ExitCode(); got != want {
		w.t.Errorf("exit code %d, want %d; the window shows\n%q", got, want, w.text())
	}
	after, err := unix.IoctlGetTermios(int(w.master.Fd()), unix.TCGETS)
	if err != nil {
		w.t.Fatal(err)
	}
	if *after != *w.before {
		w.t.Errorf("the terminal was not put back: %+v, was %+v", *after, *w.before)
	}
}

// testShell uses a shell in a sandbox as one would a local one.
func testShell(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	w := e.open(t, "shell", "--tag", "work", "-e", "PS1=> ", sb.ID)
	w.typed("stty size; echo $TERM\r")
	w.sees("24 80")
	w.sees("xterm")
	if err := pty.Setsize(w.master, &pty.Winsize{Rows: 40, Cols: 132}); err != nil {
		t.Fatal(err)
	}
	w.typed("until stty size | grep '40 1''32'; do :; done\r")
	w.sees("40 132")

	// Job control: Ctrl-C ends the job in front and not the shell, Ctrl-Z stops it, fg brings it back.
	w.typed("sh -c 'echo run''ning 1; exec sleep 1000'\r")
	w.sees("running 1")
	w.typed("\x03")
	w.typed("echo ended by $?\r")
	w.sees("ended by 130")
	w.typed("sh -c 'trap \"echo in fr''ont again\" CONT; echo run''ning 2; while :; do sleep 0.1; done'\r")
	w.sees("running 2")
	w.typed("\x1a")
	w.sees("Stopped")
	w.typed("fg\r")
	w.sees("in front again")
	w.typed("\x03")
	w.typed("jobs; echo no job le''ft\r")
	w.sees("no job left")
	w.typed("sh -c 'trap \"echo got Q''UIT; exit\" QUIT; echo run''ning 3; while :; do sleep 0.1; done'\r")
	w.sees("running 3")
	w.typed("\x1c")
	w.sees("got QUIT")

	// Characters of several bytes, typed, erased and shown.
	w.typed("echo now ty''pe; read -r x; echo \"<$x>\"\r")
	w.sees("now type")
	w.typed("grüß€\x7f\x7fn 東京\r")
	w.sees("<grün 東京>")

	// Left, and gone on with from two windows; what is typed in one is seen in both.
	w.typed("\r~.")
	w.ends(0)
	w.sees("shoal: left; the process goes on")
	one, two := e.open(t, "attach", "--tag", "work", sb.ID), e.open(t, "attach", "--scrollback", "0", sb.ID)
	one.sees("<grün 東京>") // from before
	two.typed("echo seen by bo''th\r")
	one.sees("seen by both")
	two.sees("seen by both")
	one.typed("exec sh -c 'echo e''nd; exit 7'\r")
	one.ends(7)
	two.ends(7)
}

// testTerminalThroughRestart: a server that is killed costs a terminal neither output nor the shell.
func testTerminalThroughRestart(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	w := e.open(t, "shell", sb.ID)
	w.typed("i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo line $i; sleep 0.01; done; echo a''ll\r")
	w.sees("line 20\r\n")
	e.Kill()
	e.Restart(harness.Options{
		Listen: strings.TrimPrefix(e.URL, "http://"), Env: []string{"SHOAL_E2B_LISTEN=127.0.0.1:0", "SHOAL_PANDA_LISTEN=127.0.0.1:0"},
	})
	w.sees("all")
	text := w.text()
	for i := range 400 {
		line := fmt.Sprintf("line %d\r\n", i+1)
		if n := strings.Count(text, line); n != 1 {
			t.Fatalf("%q was shown %d times", line, n)
		}
	}
	w.typed("exit 3\r")
	w.ends(3)
}

// testTerminalOfDeadSandbox: when a sandbox dies, or is deleted, its terminals end, say so and leave the window usable.
func testTerminalOfDeadSandbox(t *testing.T, e env) {
	for what, tc := range map[string]struct {
		end func(t *testing.T, id string)
		say string
	}{
		"killed": {e.killSentry, "the sandbox failed"},
		"deleted": {func(t *testing.T, id string) {
			if err := e.Client.Sandboxes().Delete(ctx(t), id); err != nil {
				t.Fatal(err)
			}
		}, "the sandbox was deleted"},
	} {
		t.Run(what, func(t *testing.T) {
			sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
			w := e.open(t, "shell", sb.ID)
			w.typed("printf '\\033[?1049h\\033[?25l'; echo full s''creen\r")
			w.sees("full screen")
			tc.end(t, sb.ID)
			w.ends(125)
			w.sees("\x1b[?25h\x1b[?1049l")
			w.sees(tc.say)
		})
	}
}
