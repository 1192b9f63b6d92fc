package guest

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"shoal/internal/core"
)

// stdin is the writing end of a process's input: a pipe or a terminal.
type stdin struct {
	f *os.File
	// tty says that the end is a character and not a close.
	tty bool
	// turn is held by the one who writes.
	turn chan struct{}
	// done says that no more is taken; guarded by turn.
	done bool
	// wanted says that the exec was started with input.
	wanted bool
}

// write appends to the process's input, and ends it if end is set. It waits for a process that does not read.
func (s *stdin) write(ctx context.Context, data []byte, end bool) error {
	if !s.wanted {
		return core.Errorf(core.CodeConflict, "the exec was started without stdin")
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return core.Wrap(core.CodeCanceled, ctx.Err(), "the input was not taken in time")
	}
	defer func() { <-s.turn }()
	if s.done {
		return core.Errorf(core.CodeConflict, "the exec takes no more input")
	}
	if err := s.put(ctx, data); err != nil {
		return err
	}
	if !end {
		return nil
	}
	s.done = true
	if s.tty {
		// The line discipline turns it into the end of input.
		return s.put(ctx, []byte{4})
	}
	_ = s.f.Close()
	return nil
}

func (s *stdin) put(ctx context.Context, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = s.f.SetWriteDeadline(time.Unix(1, 0))
		close(interrupted)
	})
	_, err := s.f.Write(data)
	if !stop() {
		<-interrupted
		_ = s.f.SetWriteDeadline(time.Time{})
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return core.Wrap(core.CodeCanceled, err, "the input was not taken in time")
	case errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed), errors.Is(err, syscall.EIO):
		return core.Wrap(core.CodeConflict, err, "the exec takes no more input")
	}
	return core.Wrap(core.CodeInternal, err, "the input can't be written")
}

// close ends the input for good; a write under way fails.
func (s *stdin) close() {
	if s.f != nil {
		_ = s.f.Close()
	}
}

// control runs f on the descriptor.
func (s *stdin) control(f func(fd int) error) error {
	raw, err := s.f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
