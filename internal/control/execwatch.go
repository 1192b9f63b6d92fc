package control

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

const (
	// watchEvery is how often a sandbox with execs that nobody follows is asked for those that ended: each question costs it some
	// milliseconds of processor time. While there is no news it is asked more seldom, up to watchSeldom.
	watchEvery  = time.Second
	watchSeldom = 8 * time.Second
	// agentTimeout bounds one call to a guest agent that nobody waits for.
	agentTimeout = 10 * time.Second
)

// watchers learn the ends of execs that no stream follows: one loop a sandbox, only while it has such execs.
type watchers struct {
	*deps
	records *execRecords

	mu sync.Mutex
	by map[core.SandboxID]*watcher
}

type watcher struct {
	// cancel ends the loop; nil before it has begun. Under watchers.mu.
	cancel context.CancelFunc
	// again says that an exec was added since the loop last looked at the records. Under watchers.mu.
	again bool
	// wake ends a pause early.
	wake chan struct{}
}

func newWatchers(d *deps, records *execRecords) *watchers {
	return &watchers{deps: d, records: records, by: map[core.SandboxID]*watcher{}}
}

// watch makes sure that the ends of the sandbox's execs are learned.
func (w *watchers) watch(sb core.Sandbox) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.by[sb.ID]; old != nil {
		old.again = true
		select {
		case old.wake <- struct{}{}:
		default:
		}
		return
	}
	me := &watcher{wake: make(chan struct{}, 1)}
	w.by[sb.ID] = me
	w.tasks.run(func(ctx context.Context) { // after close it does not run: the next Start resumes
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w.mu.Lock()
		me.cancel = cancel
		forgotten := w.by[sb.ID] != me
		w.mu.Unlock()
		if !forgotten {
			w.loop(ctx, sb, me)
		}
	})
}

// resume watches a sandbox that has run since before a restart, if it has execs without an outcome.
func (w *watchers) resume(ctx context.Context, sb core.Sandbox) error {
	open, err := w.open(ctx, sb)
	if err == nil && len(open) > 0 {
		w.watch(sb)
	}
	return err
}

// forget stops watching a sandbox that is gone.
func (w *watchers) forget(id core.SandboxID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.by[id]; old != nil {
		if old.cancel != nil {
			old.cancel()
		}
		delete(w.by, id)
	}
}

// loop polls until no exec is open. A stream may record the same end at the same time: only one of them does.
func (w *watchers) loop(ctx context.Context, sb core.Sandbox, me *watcher) {
	before, wait := 0, time.Duration(0)
	for {
		w.mu.Lock()
		me.again = false
		w.mu.Unlock()
		open, err := w.round(ctx, sb)
		if err != nil && ctx.Err() == nil {
			w.log.Debug("look after execs", slog.String("sandbox_id", string(sb.ID)), slog.Any("err", err))
		}
		w.mu.Lock()
		if err == nil && open == 0 && !me.again {
			if w.by[sb.ID] == me {
				delete(w.by, sb.ID)
			}
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		wait = nextWatch(wait, err != nil || open != before)
		before = open
		select {
		case <-ctx.Done():
			return
		case <-me.wake:
			wait = 0
		case <-w.clock.After(wait):
		}
	}
}

// nextWatch returns the pause after the next question: twice the last one, unless there was news.
func nextWatch(last time.Duration, news bool) time.Duration {
	if news {
		return watchEvery
	}
	return min(max(2*last, watchEvery), watchSeldom)
}

// round records every exec that has ended since, and returns how many have not.
func (w *watchers) round(ctx context.Context, sb core.Sandbox) (int, error) {
	open, err := w.open(ctx, sb)
	if err != nil || len(open) == 0 {
		return len(open), err
	}
	g, err := w.node.Guest(sb.ID)
	if err != nil {
		return len(open), err
	}
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	lives, err := g.ListExecs(ctx)
	if err != nil {
		return len(open), err
	}
	w.activity.printed(sb.ID, lives)
	byID := map[core.ExecID]core.Exec{}
	for _, l := range lives {
		byID[l.ID] = l
	}
	left := 0
	for _, e := range open {
		live, known := byID[e.ID]
		young := w.clock.Now().Sub(e.StartedAt) < agentTimeout
		switch {
		case !known && young:
			left++ // recorded, and perhaps not started yet
		case !known:
			w.records.ended(ctx, system("watch"), sb, e, core.Exec{Outcome: core.OutcomeLost})
		case live.Outcome == core.OutcomeRunning:
			left++
			if e.PID == 0 && live.PID != 0 && !young {
				// The server was killed between the start and the record of it.
				w.records.started(ctx, system("watch"), sb, live)
			}
		default:
			w.records.ended(ctx, system("watch"), sb, e, live)
		}
	}
	return left, nil
}

// open returns the records of the sandbox's execs that have no outcome.
func (w *watchers) open(ctx context.Context, sb core.Sandbox) (open []core.Exec, err error) {
	err = w.store.View(ctx, func(r store.Reader) error {
		open, err = r.OpenExecs(sb.ID)
		return err
	})
	return open, err
}
