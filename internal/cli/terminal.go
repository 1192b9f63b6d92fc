package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// terminalSize returns the size of the terminal that w is.
func terminalSize(w any) (rows, cols int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile {
		return 0, 0, false
	}
	cols, rows, err := term.GetSize(int(f.Fd()))
	return rows, cols, err == nil && rows > 0 && cols > 0
}

// raw puts the terminal that in is into raw mode and returns how to put it back, which is safe to call twice and to be
// deferred against a panic.
func raw(in io.Reader) (restore func(), err error) {
	f, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, fmt.Errorf("-t needs a terminal on this side: leave it out")
	}
	old, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("set terminal to raw mode: %w", err)
	}
	return func() { _ = term.Restore(int(f.Fd()), old) }, nil
}

// interruptible returns a reader of in whose Read ends when stop is called, so that nobody is left waiting for a key that
// never comes. It must be closed once nobody reads. What is not a file ends at its own close.
func interruptible(in io.Reader) (r io.ReadCloser, stop func()) {
	f, isFile := in.(*os.File)
	if isFile {
		if wakeR, wakeW, err := os.Pipe(); err == nil {
			return &pollReader{f: f, wake: wakeR}, func() { _ = wakeW.Close() } // The poll sees the hang-up.
		}
	}
	if c, ok := in.(io.Closer); ok && !isFile {
		return io.NopCloser(in), func() { _ = c.Close() }
	}
	return io.NopCloser(in), func() {}
}

// pollReader waits for its file or for its wake pipe before it reads.
type pollReader struct{ f, wake *os.File }

// Close lets go of the pipe; the file is its owner's.
func (p *pollReader) Close() error { return p.wake.Close() }

// Read reads what is there, and fails once the pipe's other end is closed.
func (p *pollReader) Read(b []byte) (int, error) {
	fds := []unix.PollFd{{Fd: int32(p.f.Fd()), Events: unix.POLLIN}, {Fd: int32(p.wake.Fd()), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("wait for input: %w", err)
		}
		if fds[1].Revents != 0 {
			return 0, os.ErrClosed
		}
		return p.f.Read(b)
	}
}
