package harness

import (
	"bytes"
	"errors"
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
)

// Window is a program on a terminal of its own, as a person has it.
type Window struct {
	t             testing.TB
	cmd           *exec.Cmd
	master, slave *os.File
	before        *unix.Termios
	// leave ends the reading of what is printed: a file is open for as long as somebody reads.
	leave func()

	mu     sync.Mutex
	output bytes.Buffer
}

// OpenWindow starts a program in a window of 24 rows and 80 columns, which is closed at the test's end. Unless the command says otherwise
// the terminal is the one that sends it signals.
func OpenWindow(tb testing.TB, cmd *exec.Cmd) *Window {
	tb.Helper()
	master, slave, err := pty.Open()
	if err == nil {
		err = pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80})
	}
	if err != nil {
		tb.Fatal(err)
	}
	w := &Window{t: tb, cmd: cmd, master: master, slave: slave}
	if w.before, err = unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS); err != nil {
		tb.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}
	wake, wakeEnd, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() { w.read(wake) })
	w.leave = sync.OnceFunc(func() { _ = wakeEnd.Close(); reader.Wait(); _ = wake.Close() })
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = slave.Close()
		w.leave()
		_ = master.Close()
	})
	return w
}

// read takes what the program prints, until its terminal is closed, or wake is.
func (w *Window) read(wake *os.File) {
	buf := make([]byte, 4096)
	fds := []unix.PollFd{{Fd: int32(w.master.Fd()), Events: unix.POLLIN}, {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); errors.Is(err, unix.EINTR) {
			continue
		}
		if fds[1].Revents != 0 {
			return
		}
		n, err := w.master.Read(buf)
		w.mu.Lock()
		w.output.Write(buf[:n])
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Text is all that was printed.
func (w *Window) Text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.output.String()
}

// Sees waits until the window shows a text.
func (w *Window) Sees(text string) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(w.Text(), text); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("the window doesn't show %q:\n%q", text, w.Text())
		}
	}
}

// Type types keys.
func (w *Window) Type(keys string) {
	w.t.Helper()
	if _, err := io.WriteString(w.master, keys); err != nil {
		w.t.Fatal(err)
	}
}

// Resize makes the window another size.
func (w *Window) Resize(rows, cols uint16) {
	w.t.Helper()
	if err := pty.Setsize(w.master, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		w.t.Fatal(err)
	}
}

// Signal sends the program a signal.
func (w *Window) Signal(s os.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

// Close closes the window, as a terminal's program does, waits for the program and returns its code.
func (w *Window) Close() int {
	w.leave()
	_ = w.slave.Close()
	_ = w.master.Close() // The kernel hangs the session up.
	_ = w.cmd.Wait()
	return w.cmd.ProcessState.ExitCode()
}

// Ends waits for the program's end, and wants the code and the terminal as it was before.
func (w *Window) Ends(want int) {
	w.t.Helper()
	_ = w.cmd.Wait() // The code is looked at below.
	if got := w.cmd.ProcessState.ExitCode(); got != want {
		w.t.Errorf("exit code %d, want %d; the window shows\n%q", got, want, w.Text())
	}
	after, err := unix.IoctlGetTermios(int(w.master.Fd()), unix.TCGETS)
	if err != nil {
		w.t.Fatal(err)
	}
	if *after != *w.before {
		w.t.Errorf("the terminal was not put back: %+v, was %+v", *after, *w.before)
	}
}
