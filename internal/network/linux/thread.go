package linux

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// onThread starts fn on an OS thread that runs nothing else meanwhile. If fn reports the thread as clean, in the
// namespace it was found in, the thread goes back to the scheduler, otherwise it ends.
//
// It is never the process's first thread, through which others look at the process: /proc/self/ns/net and
// /proc/self/net are that thread's.
func onThread(fn func() (clean bool)) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			if fn() {
				runtime.UnlockOSThread()
			}
			return
		}
		// This goroutine occupies the first thread, so the next one can't be given it.
		done := make(chan struct{})
		onThread(func() bool {
			defer close(done)
			return fn()
		})
		<-done
		runtime.UnlockOSThread()
	}()
}

// openOwnNetNS opens the network namespace of the calling thread.
func openOwnNetNS() (int, error) {
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open the thread's network namespace: %w", err)
	}
	return fd, nil
}

// inNewNetNS makes a network namespace, runs prepare on a thread inside it and returns a descriptor of it. The
// namespace lives as long as the descriptor, unless something else comes to use it.
func inNewNetNS(prepare func() error) (int, error) {
	type result struct {
		fd  int
		err error
	}
	out := make(chan result, 1)
	onThread(func() bool {
		fd, clean, err := unshareNetNS(prepare)
		out <- result{fd, err}
		return clean
	})
	r := <-out
	return r.fd, r.err
}

// unshareNetNS does the work of inNewNetNS on the calling thread. clean says whether the thread is back where it was.
func unshareNetNS(prepare func() error) (fd int, clean bool, err error) {
	home, err := openOwnNetNS()
	if err != nil {
		return -1, true, err
	}
	defer func() { _ = unix.Close(home) }()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return -1, true, fmt.Errorf("make a network namespace: %w", err)
	}
	fd, err = openOwnNetNS()
	if err == nil {
		if err = prepare(); err != nil {
			_ = unix.Close(fd)
			fd = -1
		}
	}
	return fd, unix.Setns(home, unix.CLONE_NEWNET) == nil, err
}

// thread is an OS thread that lives in one network namespace and does there what it is asked to.
type thread struct {
	calls chan func()
	done  chan struct{}
	once  sync.Once
}

// errThreadStopped is returned for a call after stop.
var errThreadStopped = errors.New("the router's thread has been stopped")

// startThread starts a thread in the namespace that the descriptor names.
func startThread(ns int) (*thread, error) {
	t := &thread{calls: make(chan func()), done: make(chan struct{})}
	entered := make(chan error, 1)
	onThread(func() bool {
		if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
			entered <- fmt.Errorf("enter the router: %w", err)
			return true
		}
		entered <- nil
		defer close(t.done)
		for call := range t.calls {
			if call == nil {
				return false
			}
			call()
		}
		return false
	})
	if err := <-entered; err != nil {
		return nil, err
	}
	return t, nil
}

// do runs fn on the thread and waits for it.
func (t *thread) do(fn func() error) error {
	out := make(chan error, 1)
	select {
	case t.calls <- func() { out <- fn() }:
		return <-out
	case <-t.done:
		return errThreadStopped
	}
}

// stop ends the thread and waits until it runs nothing any more.
func (t *thread) stop() {
	t.once.Do(func() {
		select {
		case t.calls <- nil:
		case <-t.done:
		}
	})
	<-t.done
}
