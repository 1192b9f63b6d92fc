package guest

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/guest/wire"
)

// pump moves one stream of a process's output into its ring.
type pump struct {
	f    *os.File
	raw  syscall.RawConn
	kind wire.FrameType
	ring *ring
	bufs *sync.Pool
	tty  bool

	drained chan struct{} // closed when what was in the pipe at the leader's end is in the ring
	ended   chan struct{} // closed when the stream has ended
	once    sync.Once
}

// newPump takes over fd, the reading end.
func newPump(fd int, kind wire.FrameType, r *ring, bufs *sync.Pool, tty bool) (*pump, error) {
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "output")
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &pump{
		f: f, raw: raw, kind: kind, ring: r, bufs: bufs, tty: tty,
		drained: make(chan struct{}), ended: make(chan struct{}),
	}, nil
}

// run reads until the last writer has closed, or the file is closed.
func (p *pump) run() {
	defer close(p.ended)
	defer p.once.Do(func() { close(p.drained) })
	for {
		// The buffer is taken when there is something to read: an idle stream costs none.
		var buf *[]byte
		n := 0
		var readErr error
		err := p.raw.Read(func(fd uintptr) bool {
			buf = p.bufs.Get().(*[]byte)
			n, readErr = readFD(int(fd), *buf)
			if errors.Is(readErr, syscall.EAGAIN) {
				p.bufs.Put(buf)
				buf = nil
				return false
			}
			return true
		})
		if buf != nil {
			if n > 0 {
				p.ring.append(p.kind, (*buf)[:n])
			}
			p.bufs.Put(buf)
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if !p.empty() {
				return
			}
			p.once.Do(func() { close(p.drained) })
			if p.f.SetReadDeadline(time.Time{}) != nil {
				return
			}
		case err != nil || readErr != nil || n <= 0:
			return
		}
	}
}

// empty reads what is in the pipe now, and no more: a group member that goes on printing must not keep the exec from
// ending. It returns false at the end of the stream.
func (p *pump) empty() (more bool) {
	buf := p.bufs.Get().(*[]byte)
	defer p.bufs.Put(buf)
	more = true
	_ = p.raw.Control(func(raw uintptr) {
		fd := int(raw)
		left, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		if err != nil {
			left = len(*buf)
		}
		// A terminal hands its last bytes over with a delay, and then reports its end.
		grace := time.Now().Add(50 * time.Millisecond)
		for left > 0 || p.tty {
			n, err := readFD(fd, (*buf)[:min(len(*buf), max(left, 4096))])
			switch {
			case errors.Is(err, syscall.EAGAIN):
				if !p.tty || time.Now().After(grace) {
					return
				}
				_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10)
			case err != nil || n <= 0:
				more = false
				return
			default:
				p.ring.append(p.kind, (*buf)[:n])
				left -= n
				if p.tty && left <= 0 && time.Now().After(grace) {
					return
				}
			}
		}
	})
	return more
}

// finish asks for a drain and waits for it.
func (p *pump) finish() {
	if p.f.SetReadDeadline(time.Unix(1, 0)) != nil {
		<-p.ended
		return
	}
	select {
	case <-p.drained:
	case <-p.ended:
	}
}

func (p *pump) close() { _ = p.f.Close() }

func readFD(fd int, b []byte) (int, error) {
	for {
		n, err := syscall.Read(fd, b)
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
