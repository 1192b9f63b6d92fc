package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/runtime"
)

// A guest agent can fall silent for ever, stopped by root inside the sandbox, and nothing of the sandbox ends. Nobody asks it
// how it is while all is well: only a call that waited in vain makes it suspect, and then it is pinged until it says
// anything at all. If it does not, the sandbox has failed.
//
// What is merely slow must not be failed. So pings wait side by side for long, the bytes of any other call count as an answer,
// a sandbox that is busy or whose kernel does not answer either is given far longer, and time in which this node
// could not do its own part, or held it, does not count.
const (
	// probeEvery is how often a suspect is pinged.
	probeEvery = 10 * time.Second
	// probePatience is how long a ping waits for its answer.
	probePatience = 45 * time.Second
	// quietLimit is how long a sandbox that does nothing may be silent.
	quietLimit = time.Minute
	// silentLimit is how long any sandbox may be silent.
	silentLimit = 5 * time.Minute
	// statsTimeout bounds one look at what a suspect uses.
	statsTimeout = 5 * time.Second

	// A sandbox is busy from so many cores, or with so little of its memory left, on.
	busyCores     = 0.02
	busyMemory    = 0.9
	maxSuspicions = 256
)

// suspects watches machines that did not answer, each on its own.
type suspects struct {
	runtime  runtime.Driver
	clock    core.Clock
	machines *machines
	// promised knows how much processor time a sandbox may use.
	promised *admission
	log      *slog.Logger
	queue    chan *machine
}

func newSuspects(cfg Config, t *machines, a *admission) *suspects {
	return &suspects{
		runtime: cfg.Runtime, clock: failpoint.Clock(failpoint.NodeSilenceClock, cfg.Clock), machines: t, promised: a,
		log: cfg.Logger, queue: make(chan *machine, maxSuspicions),
	}
}

// add has a machine watched. It never blocks; a machine that is watched already stays so.
func (s *suspects) add(m *machine) {
	if !m.answers.Load() || !m.suspected.CompareAndSwap(false, true) {
		return
	}
	select {
	case s.queue <- m:
	default:
		m.suspected.Store(false) // its next silence makes it suspect again
	}
}

// watch has machines that have been silent for too long ended. It returns when ctx and all that it has begun have ended.
func (s *suspects) watch(ctx context.Context, end func(context.Context, runtime.Exit)) {
	var watched sync.WaitGroup
	defer watched.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-s.queue:
			watched.Go(func() {
				defer m.suspected.Store(false)
				silence, found := s.awaitSign(ctx, m)
				if found || ctx.Err() != nil || !s.machines.drop(m.id, m.incarnation) {
					return
				}
				s.log.Warn("a sandbox has fallen silent and is ended", slog.String("sandbox_id", string(m.id)), slog.Duration("silence", silence))
				end(ctx, runtime.Exit{
					ID: m.id, Incarnation: m.incarnation,
					Reason: fmt.Sprintf("its guest agent stopped answering: no sign of life in %s", silence.Round(time.Second)),
				})
			})
		}
	}
}

// awaitSign pings a suspect until it gives a sign of life, is gone, or has been silent for too long: then found is false.
func (s *suspects) awaitSign(ctx context.Context, m *machine) (silence time.Duration, found bool) {
	var pings sync.WaitGroup
	defer pings.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard := m.heard.Load()
	answered := make(chan struct{}, 1)
	var ourFault atomic.Bool
	w := newSilence(s.clock.Now())
	s.isBusy(ctx, m, w) // what it has used until now doesn't count
	for {
		pings.Go(func() { s.ping(ctx, m, answered, &ourFault) })
		select {
		case <-ctx.Done():
			return 0, false
		case <-answered:
			return 0, true
		case <-s.clock.After(probeEvery):
		}
		if m.heard.Load() != heard || !s.machines.running(m.id, m.incarnation) {
			return 0, true
		}
		busy := s.isBusy(ctx, m, w)
		mute := m.heldLately() // for a checkpoint, by this node
		if silence, over := w.tick(s.clock.Now(), busy, ourFault.Swap(false) || mute); over && m.heard.Load() == heard {
			return silence, false
		}
	}
}

// ping pings once.
func (s *suspects) ping(ctx context.Context, m *machine, answered chan<- struct{}, ourFault *atomic.Bool) {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	err := m.guest.Ping(ctx)
	switch {
	case err == nil:
		select {
		case answered <- struct{}{}:
		default:
		}
	case isOurFault(err):
		ourFault.Store(true)
		s.log.Warn("can't ping a sandbox", slog.String("sandbox_id", string(m.id)), slog.Any("err", err))
	}
}

// isOurFault reports whether a ping says nothing about the agent. It was silent if a connection stood and brought no byte, or was
// not made in time: a kernel that stands still swallows packets. Whatever says no at once, such as a route that is gone, may be the
// host's network, which breaks for all sandboxes together: that must not end each one that is called.
func isOurFault(err error) bool {
	var unreached *unreachedError
	switch core.CodeOf(err) {
	case core.CodeTimeout, core.CodeCanceled:
		return false
	case core.CodeUnavailable:
		return errors.As(err, &unreached)
	default:
		return true
	}
}

// isBusy reports whether a suspect has a reason to be slow, or may have: it computes, is short of memory, or its kernel
// says nothing either.
func (s *suspects) isBusy(ctx context.Context, m *machine, w *silence) bool {
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	now, err := s.runtime.Stats(ctx, m.id)
	if err != nil || now.Processes < 0 {
		return true
	}
	used := now.CPUSeconds - w.cpu
	w.cpu = now.CPUSeconds
	cores := busyCores
	if may := s.promised.of(m.id).VCPUs; may > 0 {
		cores = min(cores, may/4) // one that may use next to nothing is busy when it uses that
	}
	return used > cores*probeEvery.Seconds() ||
		now.MemoryLimitBytes > 0 && float64(now.MemoryBytes) > busyMemory*float64(now.MemoryLimitBytes)
}

// silence measures how long a suspect has said nothing.
type silence struct {
	// since is when it was last known to have a chance to answer, quiet since when it has had nothing else to do, last the tick before.
	since, quiet, last time.Time
	// cpu is the processor time that it had used at the last tick, in seconds.
	cpu float64
}

func newSilence(now time.Time) *silence { return &silence{since: now, quiet: now, last: now} }

// tick adds what has passed since the last one. It reports how long the silence has lasted and whether that is too long. A tick
// that comes far too late, after the host slept or stood still, begins anew: nobody could have answered meanwhile.
func (w *silence) tick(now time.Time, busy, ourFault bool) (time.Duration, bool) {
	late := now.Sub(w.last) > 2*probeEvery+statsTimeout
	w.last = now
	if late || ourFault {
		w.since, w.quiet = now, now
		return 0, false
	}
	if busy {
		w.quiet = now
	}
	silent := now.Sub(w.since)
	return silent, silent >= silentLimit || now.Sub(w.quiet) >= quietLimit
}
