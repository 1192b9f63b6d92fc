package gvisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"shoal/internal/runtime"
)

// watch waits for the end of one sandbox's sentry, without being its parent, for the end of its init, and for its groups to
// run out of memory.
type watch struct {
	sentry *os.File
	// memory is readable once the groups have run out of memory; nil where there is nothing to wait for.
	memory *os.File
	// cancel ends a connection attempt.
	cancel context.CancelFunc
	// once guards the closing, which ends the waiting.
	once sync.Once

	mu sync.Mutex
	// wait is the connection on which the sentry tells of init's end.
	wait net.Conn
	// ended is what the sentry told.
	ended string
	stop  bool
}

// watchBox starts watching a sandbox that runs, for longer than the call that has it begin.
func (d *Driver) watchBox(ctx context.Context, b *box) error {
	r := b.current()
	sentry, err := r.Sentry.open()
	if err != nil {
		return fmt.Errorf("watch sentry: %w", err)
	}
	memory, err := d.cgroups.watchMemory(string(b.id))
	if err != nil {
		// The sandbox is well without: its end, if it comes to that, is noticed all the same.
		d.log.WarnContext(ctx, "sandbox's memory cannot be watched", slog.Any("sandbox_id", b.id), slog.Any("err", err))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &watch{sentry: sentry, memory: memory, cancel: cancel}
	b.mu.Lock()
	old := b.watch
	b.watch = w
	b.mu.Unlock()
	if old != nil {
		old.close()
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		w.close()
		return errors.New("the runtime is shutting down")
	}
	if memory != nil {
		d.watchers.Go(func() { (&memoryWatch{d, b, w}).run(ctx) })
	}
	d.watchers.Add(2)
	go func() {
		defer d.watchers.Done()
		w.waitInit(ctx, controlSocket(d.cfg.StateDir, r.Container), r.Container)
	}()
	go func() {
		defer d.watchers.Done()
		d.waitSentry(b, w, r)
	}()
	return nil
}

// unwatch stops watching. No exit is reported after it.
func (b *box) unwatch() {
	b.mu.Lock()
	w := b.watch
	b.watch = nil
	b.mu.Unlock()
	if w != nil {
		w.close()
	}
}

// isWatchedBy reports whether the watch is the box's own still, and nobody has asked for its end.
func (b *box) isWatchedBy(w *watch) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.watch == w && !b.isKilled()
}

// close ends the waiting.
func (w *watch) close() {
	w.once.Do(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stop = true
		w.cancel()
		if w.wait != nil {
			_ = w.wait.Close() // Only to wake the reader: there is nothing to lose.
		}
		_ = w.sentry.Close() // Likewise.
		if w.memory != nil {
			_ = w.memory.Close() // Likewise.
		}
	})
}

// waitInit asks the sentry for init's exit status and keeps the answer. The question also lets the sentry end: it stays
// alive after its init until somebody has asked.
func (w *watch) waitInit(ctx context.Context, socket, container string) {
	conn, err := dialControl(ctx, socket)
	if err != nil {
		return // The sentry is dead or dying: its own end will be noticed.
	}
	w.mu.Lock()
	if w.stop {
		w.mu.Unlock()
		_ = conn.Close()
		return
	}
	w.wait = conn
	w.mu.Unlock()
	var status uint32
	err = call(conn, methodWait, container, &status)
	_ = conn.Close()
	if err != nil {
		return
	}
	ws := unix.WaitStatus(status)
	ended := fmt.Sprintf("the guest agent ended with status %d", ws.ExitStatus())
	if ws.Signaled() {
		ended = fmt.Sprintf("the guest agent was ended by signal %d", int(ws.Signal()))
	}
	w.mu.Lock()
	w.ended = ended
	w.mu.Unlock()
}

// waitSentry reports the sandbox's exit when the sentry ends, unless the watch is closed first.
func (d *Driver) waitSentry(b *box, w *watch, r record) {
	if !waitReadable(w.sentry) {
		return
	}
	if !b.isWatchedBy(w) {
		return
	}
	reason := d.exitReason(w, r)
	select {
	case d.exits <- runtime.Exit{ID: r.ID, Incarnation: r.Incarnation, Reason: reason}:
	case <-d.closing:
	case <-b.killed:
	}
}

// waitReadable waits in the runtime's poller, without a thread, until a process descriptor is readable. It reports false if
// the file is closed first.
func waitReadable(f *os.File) bool {
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	err = conn.Read(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		return err == nil && n > 0
	})
	return err == nil
}

// exitReason says why a sentry ended, as far as it can be known, and collects the zombies if they are ours.
func (d *Driver) exitReason(w *watch, r record) string {
	status, _ := r.Sentry.reap()
	r.Gofer.reap()
	w.mu.Lock()
	ended := w.ended
	w.mu.Unlock()
	short := d.cgroups.outOfMemory(string(r.ID))
	switch {
	case short == ownShortage:
		return "the sandbox ran out of memory and was killed whole"
	case short == hostShortage:
		return "the machine ran out of memory and the sandbox was killed whole"
	case ended != "":
		return ended
	case status.Signaled():
		return fmt.Sprintf("the sandbox's kernel was ended by signal %d", int(status.Signal()))
	default:
		return "the sandbox's kernel ended"
	}
}
