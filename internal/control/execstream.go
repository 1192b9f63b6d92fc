package control

import (
	"io"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// followed is a stream that records the end of its exec when it passes, and hands the exec to its sandbox's watcher when it
// is closed before that.
type followed struct {
	core.ExecStream
	w     *watchers
	sb    core.Sandbox
	actor core.Actor
	exec  core.Exec

	// queued holds messages that were read ahead. Only Recv uses it.
	queued []core.ExecMessage

	mu     sync.Mutex
	ended  bool
	closed bool
}

// follow returns the stream of an exec; ahead holds the messages that were read from it already.
func (w *watchers) follow(sb core.Sandbox, actor core.Actor, e core.Exec, stream core.ExecStream, ahead ...core.ExecMessage) *followed {
	return &followed{ExecStream: stream, w: w, sb: sb, actor: actor, exec: e, queued: ahead}
}

// Recv returns the next message.
func (f *followed) Recv() (core.ExecMessage, error) {
	var m core.ExecMessage
	if f.hasEnded() {
		return m, io.EOF
	}
	if len(f.queued) > 0 {
		m, f.queued = f.queued[0], f.queued[1:]
	} else {
		var err error
		if m, err = f.ExecStream.Recv(); err != nil {
			if f.stillWanted() && core.IsCode(err, core.CodeUnavailable) && f.machineGone() {
				m = core.ExecMessage{Kind: core.ExecEnded, Exec: &core.Exec{Outcome: core.OutcomeLost}}
			} else {
				return m, err
			}
		}
	}
	if m.Exec != nil {
		whole := f.exec
		whole.PID = m.Exec.PID
		if m.Kind == core.ExecEnded {
			if m.Exec.Outcome == core.OutcomeLost && f.machineGone() {
				f.awaitRecord()
			}
			whole = f.w.records.ended(f.w.tasks.stop, f.actor, f.sb, f.exec, *m.Exec)
			f.mu.Lock()
			f.ended = true
			f.mu.Unlock()
		}
		m.Exec = &whole
	}
	return m, nil
}

func (f *followed) hasEnded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

// stillWanted reports whether the stream has neither ended nor been closed.
func (f *followed) stillWanted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.ended && !f.closed
}

// machineGone reports whether the sandbox's machine is gone, and not only our way to it because the server is closing.
func (f *followed) machineGone() bool {
	_, err := f.w.node.Guest(f.sb.ID)
	return err != nil && !f.w.tasks.closing()
}

// recordMost bounds how long the end of an exec waits for the record that its sandbox's machine has ended.
const recordMost = 10 * time.Second

// awaitRecord waits until it is on record that the machine has ended: who learns that an exec is lost does not find its sandbox running.
func (f *followed) awaitRecord() {
	tooLate := f.w.clock.After(recordMost)
	for {
		news := f.w.waiters.wait(f.sb.Tenant)
		running := false
		err := f.w.store.View(f.w.tasks.stop, func(r store.Reader) error {
			sb, err := r.SandboxByID(f.sb.ID)
			running = sb.State == core.StateRunning && sb.Incarnation == f.sb.Incarnation
			return err
		})
		if err != nil || !running {
			return
		}
		select {
		case <-news:
		case <-tooLate:
			return
		case <-f.w.tasks.stop.Done():
			return
		}
	}
}

// Close stops following. The process goes on, and its end is learned by the watcher.
func (f *followed) Close() error {
	f.mu.Lock()
	watch := !f.ended && !f.closed
	f.closed = true
	f.mu.Unlock()
	if watch {
		f.w.watch(f.sb)
	}
	return f.ExecStream.Close()
}

// endedStream is the stream of an exec whose output is gone with its sandbox: it says that it has ended.
type endedStream struct {
	exec core.Exec
	sent int
}

func newEndedStream(e core.Exec) *endedStream { return &endedStream{exec: e} }

// Recv returns a gap in place of the output, then the end.
func (e *endedStream) Recv() (core.ExecMessage, error) {
	e.sent++
	switch {
	case e.sent == 1 && e.exec.OutputBytes > 0:
		return core.ExecMessage{Kind: core.ExecGap, Missing: e.exec.OutputBytes}, nil
	case e.sent <= 2:
		e.sent = 2
		return core.ExecMessage{Kind: core.ExecEnded, Offset: e.exec.OutputBytes, Exec: &e.exec}, nil
	}
	return core.ExecMessage{}, io.EOF
}

var errEnded = core.Errorf(core.CodeConflict, "the exec has ended")

// SendStdin refuses: the exec has ended.
func (e *endedStream) SendStdin([]byte) error { return errEnded }

// CloseStdin refuses: the exec has ended.
func (e *endedStream) CloseStdin() error { return errEnded }

// Signal refuses: the exec has ended.
func (e *endedStream) Signal(string) error { return errEnded }

// Resize refuses: the exec has ended.
func (e *endedStream) Resize(uint16, uint16) error { return errEnded }

// Close does nothing.
func (e *endedStream) Close() error { return nil }
