package guest

import (
	"log/slog"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// execution is one exec: a leader, the group that descends from it, and its output.
//
// It ends when its leader ends. Members of the group that live on are counted, their output still goes into the ring,
// and a signal, a cancel or the timeout reaches them; when the last is gone the group is released.
type execution struct {
	srv     *Server
	id      string
	pid     int
	tty     bool
	started time.Time
	ring    *ring
	pumps   []*pump
	stdin   *stdin
	// done is closed when the outcome is known and all that the leader wrote is in the ring.
	done chan struct{}
	// gone is closed when no member of the group is left; poke asks to look now.
	gone chan struct{}
	poke chan struct{}
	// published says that start has ended; guarded by the server's lock.
	published bool

	// mu guards what follows.
	mu      sync.Mutex
	group   group // nil once released
	outcome core.Outcome
	// killed says that we killed the group.
	killed bool
	// reason is why we killed the leader; empty if we did not.
	reason core.Outcome
	// outOfMemory says that we killed members because memory was used up.
	outOfMemory bool
	// shortage is how much was used then, the first time.
	shortage *wire.Shortage
	// killedJob is the last job that was killed for it.
	killedJob int
	code      int
	signal    string
	ended     time.Time
	acked     bool
	// timer kills the group when the timeout passes; nil without one.
	timer *time.Timer
}

// watch follows the exec from its start to the end of its group.
func (e *execution) watch(exited <-chan syscall.WaitStatus) {
	for _, p := range e.pumps {
		e.srv.work.Go(p.run)
	}
	st := <-exited
	end := time.Now()
	// What is in the pipes now belongs to the exec; a slow reader keeps nobody from taking it out.
	e.ring.release()
	for _, p := range e.pumps {
		p.finish()
	}
	e.stdin.close()
	e.finish(st, end)
	e.linger()
}

// finish records how the leader ended.
func (e *execution) finish(st syscall.WaitStatus, end time.Time) {
	e.mu.Lock()
	switch {
	case e.reason != "":
		// Whatever the status is: a shell may return by itself because its child was killed a moment before it.
		e.outcome = e.reason
	case st.Signaled():
		e.outcome, e.signal = core.OutcomeSignaled, signalName(st.Signal())
	default:
		e.outcome, e.code = core.OutcomeExited, st.ExitStatus()
	}
	e.ended = end
	e.mu.Unlock()
	close(e.done)
	e.ring.notifyAll()
}

// linger waits until no member of the group is left, and releases it.
func (e *execution) linger() {
	end := e.srv.ctx.Done()
	for wait := 10 * time.Millisecond; e.processes() > 0; wait = min(2*wait, 5*time.Second) {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-e.poke:
			wait = time.Millisecond
		case <-end:
			end = nil
			e.kill(core.OutcomeCanceled)
		}
		t.Stop()
		e.killRest()
	}
	e.mu.Lock()
	g := e.group
	e.group = nil
	if e.timer != nil {
		e.timer.Stop()
	}
	e.mu.Unlock()
	g.release()
	close(e.gone)
	for _, p := range e.pumps {
		p.close()
		<-p.ended
	}
	e.ring.shrink()
	e.srv.released()
}

// abandon closes what an exec that could not be started holds.
func (e *execution) abandon() {
	for _, p := range e.pumps {
		p.close()
	}
	if e.stdin != nil {
		e.stdin.close()
	}
}

// processes counts the live members of the group.
func (e *execution) processes() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.group == nil {
		return 0
	}
	pids, err := e.group.pids()
	if err != nil {
		e.srv.log.Warn("list group", slog.String("exec_id", e.id), slog.Any("err", err))
	}
	return len(pids)
}

// kill kills the whole group. If the leader has not ended by then, reason becomes its outcome.
func (e *execution) kill(reason core.Outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.group == nil {
		return
	}
	if e.reason == "" && !hasEnded(e.pid) {
		e.reason = reason
	}
	e.killed = true
	e.killGroup()
	select {
	case e.poke <- struct{}{}:
	default:
	}
}

// killRest kills what has turned up in a group that was killed.
func (e *execution) killRest() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.killed && e.group != nil {
		e.killGroup()
	}
}

func (e *execution) killGroup() {
	if err := e.group.kill(); err != nil {
		e.srv.log.Warn("kill group", slog.String("exec_id", e.id), slog.Any("err", err))
	}
}

// hasEnded reports whether a child of ours has ended, whether or not it has been waited for.
func hasEnded(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err != nil || info.Signo != 0
}

// send sends a signal to the whole group.
func (e *execution) send(sig syscall.Signal) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	if e.group != nil {
		var err error
		if n, err = signalGroup(e.group, e.pid, sig); err != nil {
			return core.Wrap(core.CodeInternal, err, "the exec's processes can't be found")
		}
	}
	if n == 0 {
		return core.Errorf(core.CodeConflict, "the exec has ended")
	}
	return nil
}

// resize changes the size of the terminal.
func (e *execution) resize(rows, cols uint16) error {
	if !e.tty {
		return core.Errorf(core.CodeConflict, "the exec has no terminal")
	}
	err := e.stdin.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	if err != nil {
		return core.Wrap(core.CodeConflict, err, "the exec has ended")
	}
	return nil
}

// info tells what is known of the exec.
func (e *execution) info() wire.ExecInfo {
	n := e.processes()
	start, end := e.ring.bounds()
	e.mu.Lock()
	defer e.mu.Unlock()
	i := wire.ExecInfo{
		ID: e.id, PID: e.pid, Outcome: string(e.outcome), Signal: e.signal, StartedAt: e.started,
		OutputBytes: end, OutputFrom: start, Processes: n,
		OutOfMemory: e.outOfMemory, Shortage: e.shortage,
	}
	if e.outcome != core.OutcomeRunning {
		i.EndedAt = e.ended
	}
	if e.outcome == core.OutcomeExited {
		code := e.code
		i.ExitCode = &code
	}
	return i
}

func (e *execution) isDone() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// forgettable says whether the record may go: its group is gone, and how far it is wanted.
func (e *execution) forgettable() (gone, acked bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.group == nil, e.acked
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return "SIGRTMIN+" + strconv.Itoa(int(sig)-34)
}

// newBuffers is a pool of the buffers that output goes through.
func newBuffers() *sync.Pool {
	return &sync.Pool{New: func() any {
		b := make([]byte, maxChunk)
		return &b
	}}
}
