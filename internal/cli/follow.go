package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"shoal/api"
	shoal "shoal/sdk/go"
)

const (
	// patience is how long a broken stream is taken up again: long enough for a server to be restarted.
	patience = 60 * time.Second
	// silence is how long nothing is said about that: a restart may be shorter.
	silence = time.Second
)

// follower carries one process's input, output and signals between a stream and the terminal or pipes of this program.
//
// run is its owner: the goroutines that it starts have ended when it returns.
type follower struct {
	execs    shoal.Execs
	out, err io.Writer
	// in is the process's input; nil if it has none.
	in io.Reader
	// tty says that the process has a terminal, which is this program's own.
	tty bool
	// terminal is that terminal, which out leads to.
	terminal io.Writer

	mu     sync.Mutex // guards stream, which is replaced when the connection breaks
	stream shoal.ExecStream

	id, sandbox string
	offset      int64 // the end of what was printed
	// owns says that the process is ours, so that it is told when nobody reads its output any more.
	owns bool
	// until ends the following once so much was printed; nil means the process's end.
	until *int64
	// stays says that the process goes on without us: what ends this program is not passed on to it.
	stays bool
	// escapes says that a person at a terminal may leave the process with ~.
	escapes bool
	// cut says that the first output begins somewhere in a line, which is then left out.
	cut bool
}

// watch only prints the output of a process that runs anyway.
func (f *follower) watch(ctx context.Context, stream shoal.ExecStream) (shoal.Exec, error) {
	f.stream = stream
	defer func() { _ = f.current().Close() }()
	return f.receive(ctx)
}

// run follows stream to the process's end and returns the exec.
func (f *follower) run(ctx context.Context, stream shoal.ExecStream) (shoal.Exec, error) {
	// A reader of our output that went away is the process's matter, not ours: see receive.
	signal.Ignore(unix.SIGPIPE)
	ctx, cancel := context.WithCancelCause(ctx)
	f.stream, f.owns = stream, !f.stays
	// A receive that waits ends with its stream.
	defer context.AfterFunc(ctx, func() { _ = f.current().Close() })()
	in, stop := io.NopCloser(nil), func() {}
	if f.in != nil {
		in, stop = interruptible(f.in)
	}
	var wg sync.WaitGroup
	defer func() {
		cancel(nil)
		stop()
		_ = f.current().Close()
		wg.Wait()
		_ = in.Close()
	}()
	// Before the first output is printed: who reads it may answer with a signal at once.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH)
	defer signal.Stop(signals)
	wg.Go(func() { f.passSignals(ctx, cancel, signals) })
	if f.in != nil {
		var typed io.Reader = in
		if f.tty && f.escapes {
			typed = newEscapes(in, func() { f.say("%s", strings.ReplaceAll(escapeHelp, "\n", "\r\n")) })
		}
		wg.Go(func() {
			if err := f.passInput(ctx, typed); errors.Is(err, errLeft) {
				cancel(errLeft)
			}
		})
	}
	e, err := f.receive(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errLeft) {
		err = errLeft
	}
	return e, err
}

func (f *follower) current() shoal.ExecStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stream
}

// replace makes s the stream and returns the one before.
func (f *follower) replace(s shoal.ExecStream) shoal.ExecStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.stream
	f.stream = s
	return old
}

// receive prints output until the process's end. A connection that breaks is taken up again where it broke.
func (f *follower) receive(ctx context.Context) (shoal.Exec, error) {
	for f.until == nil || f.offset < *f.until {
		m, err := f.current().Recv()
		if err != nil {
			if ctx.Err() != nil || f.id == "" || shoal.ErrorCode(err) != shoal.CodeUnavailable {
				return shoal.Exec{}, err
			}
			if err := f.reattach(ctx, err); err != nil {
				return shoal.Exec{}, err
			}
			continue
		}
		switch m.Type {
		case api.ExecMessageTypeStarted:
			f.id, f.sandbox = m.Exec.ID, m.Exec.SandboxID
		case api.ExecMessageTypeStdout:
			err = f.print(f.out, m)
		case api.ExecMessageTypeStderr:
			err = f.print(f.err, m)
		case api.ExecMessageTypeGap:
			f.say("%s of output are no longer kept", bytesText(m.Missing))
			if m.Offset != nil {
				f.offset = *m.Offset + m.Missing
			}
		case api.ExecMessageTypeEnded:
			return m.Exec, nil
		case api.ExecMessageTypeKeepalive, api.ExecMessageTypeError:
		}
		if err != nil {
			if f.owns {
				_ = f.current().Signal("SIGPIPE") // As the kernel would tell it; the output's end is what counts.
			}
			return shoal.Exec{}, &exitError{exitOurs, fmt.Errorf("write output: %w", err)}
		}
	}
	return shoal.Exec{}, nil
}

// print writes the part of a message that has not been printed yet.
func (f *follower) print(w io.Writer, m shoal.ExecMessage) error {
	data := m.Bytes()
	if m.Offset != nil {
		skip, end := f.offset-*m.Offset, *m.Offset+int64(len(data))
		if skip > 0 {
			data = data[min(skip, int64(len(data))):]
		}
		f.offset = max(f.offset, end)
	}
	if f.cut {
		data = afterBreak(data)
		f.cut = false
	}
	_, err := w.Write(data)
	return err
}

// afterBreak leaves out what is before the first byte at which output can well begin: the end of a line, or of a part of it
// that is written over, or the start of a control sequence. If there is none soon it leaves out nothing.
func afterBreak(data []byte) []byte {
	const most = 4 << 10
	if i := bytes.IndexAny(data[:min(len(data), most)], "\r\n\x1b"); i >= 0 {
		return bytes.TrimLeft(data[i:], "\r\n")
	}
	return data
}

// reattach makes a new stream from where the old one broke, and tries for as long as a restart of the server may take.
func (f *follower) reattach(ctx context.Context, cause error) error {
	begin, said := time.Now(), false
	for wait := 100 * time.Millisecond; ; wait = min(wait*2, 2*time.Second) {
		s, err := f.execs.Attach(ctx, f.id, f.offset)
		if err == nil {
			if said {
				f.say("the server answers again")
			}
			old := f.replace(s)
			if ctx.Err() != nil { // Whoever closes the stream may have come before it was there.
				_ = s.Close()
			}
			return old.Close()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if shoal.ErrorCode(err) != shoal.CodeUnavailable {
			return errors.Join(err, cause)
		}
		if spent := time.Since(begin); spent > patience {
			return &lostSightError{f.id, errors.Join(err, cause)}
		} else if spent > silence && !said {
			said = true
			f.say("the server can't be reached; the process goes on in its sandbox, and this tries again for %s", duration(patience))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// say tells the person something that is not the process's output. A raw terminal needs the carriage return.
func (f *follower) say(format string, args ...any) {
	end := "\n"
	if f.tty {
		end = "\r\n"
	}
	fmt.Fprintf(f.err, "shoal: "+format+end, args...)
}

// lostSightError says that a process is no longer followed, though nothing is known against it.
type lostSightError struct {
	id    string
	cause error
}

// Error returns the cause's text.
func (e *lostSightError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *lostSightError) Unwrap() error { return e.cause }

// howToFollow adds to an error how its process, if it may go on unseen, is followed again.
func howToFollow(sandbox string, err error) error {
	var lost *lostSightError
	if !errors.As(err, &lost) {
		return err
	}
	return fmt.Errorf("%s\nThe process may go on. Once the server is back: shoal logs -f %s %s", explain(lost.cause), sandbox, lost.id)
}

// passInput gives the process our input until it ends, and returns why it ended if that is known.
func (f *follower) passInput(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	pieces, ended := make(chan []byte, inputAhead), make(chan error, 1)
	var reader sync.WaitGroup
	reader.Go(func() { ended <- readAhead(ctx, in, pieces) })
	defer reader.Wait() // run interrupts the read
	defer cancel()
	for data, more := gather(ctx, pieces, nil); more; data, more = gather(ctx, pieces, data) {
		// A process that no longer reads is not an error of ours: its end comes over the stream.
		if _, err := f.current().Write(data); err != nil {
			if !f.stillThere(ctx, err) {
				return nil
			}
			data = nil // A call that broke off may still be reading it.
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	err := <-ended
	switch hungUp := errors.Is(err, io.EOF) || errors.Is(err, unix.EIO); {
	case f.tty && hungUp && f.stays:
		return errLeft // A raw terminal's input has no end: its window was closed.
	case f.tty && hungUp:
		_ = f.current().Signal("SIGHUP") // As its own terminal would tell it; it may have ended meanwhile.
	case errors.Is(err, io.EOF):
		_ = f.current().CloseStdin() // As above.
	}
	return err
}

// stillThere reports whether input may be tried again after an error.
func (f *follower) stillThere(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	switch shoal.ErrorCode(err) {
	case shoal.CodeUnavailable:
	case shoal.CodeConflict, shoal.CodeNotFound:
		return false
	default:
		f.say("the input can't be passed on: %v", err)
		return false
	}
	f.say("input was lost while the server didn't answer")
	return true
}

// passSignals passes on what is meant for the process. The second interrupt kills its group, the third leaves it alone
// and ends this program. A terminal's own Ctrl-C comes as input and not as a signal.
func (f *follower) passSignals(ctx context.Context, cancel context.CancelCauseFunc, signals <-chan os.Signal) {
	interrupts := 0
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			number, ok := s.(syscall.Signal)
			if !ok {
				continue
			}
			if number == unix.SIGWINCH {
				f.resize()
				continue
			}
			if f.stays && (number == unix.SIGHUP || number == unix.SIGTERM) {
				cancel(errLeft)
				return
			}
			interrupt := number == unix.SIGINT || number == unix.SIGTERM
			if interrupt {
				interrupts++
			}
			switch {
			case !interrupt || interrupts == 1:
				_ = f.current().Signal(unix.SignalName(number)) // It may have ended meanwhile.
			case interrupts == 2:
				f.say("killing it; once more to leave")
				_ = f.current().Signal("SIGKILL")
			default:
				cancel(nil)
			}
		}
	}
}

// resize tells the process's terminal the size of ours.
func (f *follower) resize() {
	if !f.tty {
		return
	}
	if rows, cols, ok := terminalSize(f.terminal); ok {
		_ = f.current().Resize(rows, cols) // It may have ended meanwhile.
	}
}
