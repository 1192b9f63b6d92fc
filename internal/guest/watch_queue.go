package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// maxPending bounds the bytes of what has happened and was not told yet, for one watcher.
	maxPending = 1 << 20
	// eventCost is what an event takes without its name.
	eventCost = 64
	// watchMask is what is asked of a directory. What happens to files that have no name any more is nobody's business.
	watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK
)

// rawEvent is an event as the kernel tells it.
type rawEvent struct {
	wd           int32
	mask, cookie uint32
	name         string
}

func (e *rawEvent) has(bits uint32) bool { return e.mask&bits != 0 }

// watchQueue reads a kernel's queue as fast as it fills, since gVisor's has no bound, into one that has. When that is full, what is in it
// is dropped and lost says so.
type watchQueue struct {
	f  *os.File
	fd int
	// ready receives when there is something to take.
	ready chan struct{}
	done  chan struct{}

	mu      sync.Mutex
	buf     []byte
	pending []rawEvent
	size    int
	lost    bool
	closed  bool
}

func openWatchQueue() (*watchQueue, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open a queue of events: %w", err)
	}
	q := &watchQueue{f: os.NewFile(uintptr(fd), "inotify"), fd: fd, ready: make(chan struct{}, 1), done: make(chan struct{}), buf: make([]byte, 64<<10)}
	raw, err := q.f.SyscallConn()
	if err != nil {
		_ = q.f.Close()
		return nil, fmt.Errorf("open a queue of events: %w", err)
	}
	go func() {
		defer close(q.done)
		// It returns when the file is closed.
		_ = raw.Read(func(uintptr) bool {
			q.drain()
			return false
		})
	}()
	return q, nil
}

func (q *watchQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	_ = q.f.Close()
	<-q.done
}

// add watches a directory and returns its number, which is the same for one that is watched already.
func (q *watchQueue) add(name string, flags uint32) (int32, error) {
	wd, err := unix.InotifyAddWatch(q.fd, name, watchMask|flags)
	return int32(wd), err
}

func (q *watchQueue) remove(wd int32) { _, _ = unix.InotifyRmWatch(q.fd, uint32(wd)) }

// drain takes over everything that the kernel has.
func (q *watchQueue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		n, err := unix.Read(q.fd, q.buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		q.parse(q.buf[:n])
	}
	if len(q.pending) > 0 || q.lost {
		select {
		case q.ready <- struct{}{}:
		default:
		}
	}
}

// parse reads what the kernel wrote.
func (q *watchQueue) parse(b []byte) {
	for len(b) >= unix.SizeofInotifyEvent {
		e := rawEvent{
			wd: int32(binary.NativeEndian.Uint32(b)), mask: binary.NativeEndian.Uint32(b[4:]), cookie: binary.NativeEndian.Uint32(b[8:]),
		}
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if end > len(b) {
			q.lost = true
			return
		}
		name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:end], []byte{0})
		e.name, b = string(name), b[end:]
		q.keep(e)
	}
}

func (q *watchQueue) keep(e rawEvent) {
	if q.lost {
		return
	}
	if n := len(q.pending); n > 0 && q.pending[n-1] == e && e.has(unix.IN_MODIFY|unix.IN_ATTRIB) {
		return
	}
	q.size += eventCost + len(e.name)
	if e.has(unix.IN_Q_OVERFLOW) || q.size > maxPending {
		q.lost, q.pending, q.size = true, nil, 0
		return
	}
	q.pending = append(q.pending, e)
}

// take drains the kernel's queue and moves what is pending to the end of list. lost says that something was dropped.
func (q *watchQueue) take(list []rawEvent) (_ []rawEvent, lost bool) {
	q.drain()
	q.mu.Lock()
	defer q.mu.Unlock()
	list = append(list, q.pending...)
	q.pending, q.size = nil, 0
	return list, q.lost
}
