package guest

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// reaper waits for children. As init it waits for any, so that no orphan stays a zombie, and gives each status to
// whoever started that pid; otherwise it waits for its own children only, because others in the process have theirs.
type reaper struct {
	init bool
	// mu is held over fork and registration, and over wait and delivery: no status comes for a pid not yet known.
	mu      sync.Mutex
	waiting map[int]chan<- syscall.WaitStatus
	child   chan os.Signal
	done    sync.WaitGroup
}

func newReaper(init bool) *reaper {
	r := &reaper{init: init, waiting: map[int]chan<- syscall.WaitStatus{}}
	if init {
		r.child = make(chan os.Signal, 1)
		signal.Notify(r.child, syscall.SIGCHLD)
		r.done.Go(func() {
			for range r.child {
				r.reap()
			}
		})
	}
	return r
}

// start runs fork and returns the channel on which the child's end will come.
func (r *reaper) start(fork func() (int, error)) (int, <-chan syscall.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, nil, err
	}
	c := make(chan syscall.WaitStatus, 1)
	if r.init {
		r.waiting[pid] = c
		return pid, c, nil
	}
	r.done.Go(func() {
		var st syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &st, 0, nil); !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		c <- st
	})
	return pid, c, nil
}

// reap collects every child that has ended. Several ends may come as one signal.
func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var st syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &st, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if c := r.waiting[pid]; c != nil {
			delete(r.waiting, pid)
			c <- st
		}
	}
}

func (r *reaper) close() {
	if r.init {
		signal.Stop(r.child)
		close(r.child)
	}
	r.done.Wait()
}
