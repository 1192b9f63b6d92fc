package guest

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// stdio is the descriptors of a process that is being started: ends for the child, and ours.
type stdio struct {
	tty bool
	// in is the child's input, out and err its outputs; our ends have the suffix Ours. -1 means none.
	in, out, err             int
	inOurs, outOurs, errOurs int
	// shared says that in is the server's own null device.
	shared bool
	wanted bool
}

// openStdio makes the pipes or the terminal that a request asks for.
func (s *Server) openStdio(q wire.ExecRequest, acc account) (*stdio, error) {
	o := &stdio{tty: q.TTY, wanted: q.Stdin, in: -1, out: -1, err: -1, inOurs: -1, outOurs: -1, errOurs: -1}
	var err error
	switch {
	case q.TTY:
		err = o.openTerminal(q.Rows, q.Cols, acc)
	case q.Stdin:
		err = errors.Join(pipe(&o.in, &o.inOurs), pipe(&o.outOurs, &o.out), pipe(&o.errOurs, &o.err))
	default:
		o.in, o.shared = int(s.null.Fd()), true
		err = errors.Join(pipe(&o.outOurs, &o.out), pipe(&o.errOurs, &o.err))
	}
	if err != nil {
		o.closeChild()
		o.closeParent()
		return nil, core.Wrap(core.CodeExhausted, err, "the sandbox has no room for another process")
	}
	return o, nil
}

func pipe(read, write *int) error {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	*read, *write = p[0], p[1]
	return nil
}

// openTerminal makes a pseudo-terminal that belongs to the user.
func (o *stdio) openTerminal(rows, cols uint16, acc account) error {
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open terminal: %w", err)
	}
	o.outOurs = m
	n, err := unix.IoctlGetInt(m, unix.TIOCGPTN)
	if err != nil {
		return fmt.Errorf("number terminal: %w", err)
	}
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return fmt.Errorf("unlock terminal: %w", err)
	}
	if rows == 0 || cols == 0 {
		rows, cols = 24, 80
	}
	if err := unix.IoctlSetWinsize(m, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		return fmt.Errorf("size terminal: %w", err)
	}
	if err := eraseWholeCharacters(m); err != nil {
		return err
	}
	slave, err := unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open terminal: %w", err)
	}
	o.in, o.out, o.err = slave, slave, slave
	if os.Geteuid() == 0 {
		if err := unix.Fchown(slave, int(acc.uid), -1); err != nil {
			return fmt.Errorf("give terminal to user: %w", err)
		}
	}
	if o.inOurs, err = unix.FcntlInt(uintptr(m), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return fmt.Errorf("share terminal: %w", err)
	}
	return nil
}

// eraseWholeCharacters tells a terminal that its input is UTF-8, so that a program that leaves editing to it loses a whole
// character to a backspace and not a byte of one.
func eraseWholeCharacters(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err == nil {
		t.Iflag |= unix.IUTF8
		err = unix.IoctlSetTermios(fd, unix.TCSETS, t)
	}
	if err != nil {
		return fmt.Errorf("set terminal to UTF-8: %w", err)
	}
	return nil
}

// child returns the child's descriptors 0 to 2.
func (o *stdio) child() []uintptr { return []uintptr{uintptr(o.in), uintptr(o.out), uintptr(o.err)} }

// wire hands our ends to the exec, which owns them from then on.
func (o *stdio) wire(e *execution, bufs *sync.Pool) error {
	e.stdin = &stdin{tty: o.tty, wanted: o.wanted, turn: make(chan struct{}, 1)}
	if o.inOurs >= 0 {
		if err := syscall.SetNonblock(o.inOurs, true); err != nil {
			return err
		}
		e.stdin.f = os.NewFile(uintptr(o.inOurs), "input")
		o.inOurs = -1
	}
	add := func(fd *int, kind wire.FrameType) error {
		if *fd < 0 {
			return nil
		}
		p, err := newPump(*fd, kind, e.ring, bufs, o.tty)
		*fd = -1
		if err == nil {
			e.pumps = append(e.pumps, p)
		}
		return err
	}
	err := errors.Join(add(&o.outOurs, wire.FrameStdout), add(&o.errOurs, wire.FrameStderr))
	return err
}

func (o *stdio) closeChild() {
	if o.in >= 0 && !o.shared {
		_ = unix.Close(o.in)
	}
	if o.tty {
		return
	}
	for _, fd := range []int{o.out, o.err} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// closeParent closes our ends that no exec has taken over.
func (o *stdio) closeParent() {
	for _, fd := range []int{o.inOurs, o.outOurs, o.errOurs} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
