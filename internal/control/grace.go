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
	// graceLook is how often it is looked whether processes have ended that were asked to.
	graceLook = 50 * time.Millisecond
	// killWait is how long processes that were killed are waited for, so that what they wrote before can be flushed.
	killWait = 5 * time.Second
)

// endExecs asks a sandbox's processes to end, waits for that no longer than the grace, kills what is left, and records how they ended. A
// guest agent that doesn't answer keeps nobody from stopping its sandbox.
func (x *stopping) endExecs(ctx context.Context, sb core.Sandbox, grace time.Duration) {
	g, err := x.node.Guest(sb.ID)
	if err != nil {
		return
	}
	e := parting{stopping: x, sb: sb, guest: g}
	running, err := e.running(ctx)
	if err == nil && grace > 0 {
		e.ask(ctx, running)
		running, err = e.wait(ctx, grace)
	}
	if err == nil && len(running) > 0 {
		e.signal(ctx, running, "SIGKILL")
		_, err = e.wait(ctx, killWait)
	}
	if err == nil {
		_, err = x.watchers.round(ctx, sb)
	}
	if err != nil && ctx.Err() == nil {
		x.log.Warn("the processes of a sandbox that is stopped can't be asked to end", slog.String("sandbox_id", string(sb.ID)), slog.Any("err", err))
	}
}

// graces are the waits under way for processes that were asked to end, so that another stop can cut one short.
type graces struct {
	mu sync.Mutex
	by map[core.SandboxID]*graceWait
}

// graceWait is one wait. Its field is under graces.mu.
type graceWait struct {
	until time.Time
	// moved says that until is earlier now.
	moved chan struct{}
}

// begin begins a wait.
func (g *graces) begin(id core.SandboxID, until time.Time) (w *graceWait, end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w = &graceWait{until: until, moved: make(chan struct{}, 1)}
	g.by[id] = w
	return w, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.by, id)
	}
}

// shorten ends a wait no later than at a moment.
func (g *graces) shorten(id core.SandboxID, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.by[id]
	if w == nil || !until.Before(w.until) {
		return
	}
	w.until = until
	select {
	case w.moved <- struct{}{}:
	default:
	}
}

// left is how long a wait goes on.
func (g *graces) left(w *graceWait, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return w.until.Sub(now)
}

// parting is the end of one sandbox's execs.
type parting struct {
	*stopping
	sb    core.Sandbox
	guest core.Guest
}

// running returns the execs that have not ended, those too of which only a daemon is left.
func (e *parting) running(ctx context.Context) (list []core.ExecID, err error) {
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	all, err := e.guest.ListExecs(ctx)
	for _, x := range all {
		if x.Outcome == core.OutcomeRunning || x.Processes > 0 {
			list = append(list, x.ID)
		}
	}
	return list, err
}

// ask sends the signals by which programs are asked to end: SIGTERM, and SIGHUP where there is a terminal, since shells ignore the other.
func (e *parting) ask(ctx context.Context, list []core.ExecID) {
	e.signal(ctx, list, "SIGTERM")
	var terminals []core.ExecID
	err := e.store.View(ctx, func(r store.Reader) error {
		for _, id := range list {
			if x, err := r.Exec(e.sb.ID, id); err == nil && x.Spec.TTY {
				terminals = append(terminals, id)
			}
		}
		return nil
	})
	if err == nil {
		e.signal(ctx, terminals, "SIGHUP")
	}
}

// signal sends a signal to execs. One that has ended meanwhile needs none.
func (e *parting) signal(ctx context.Context, list []core.ExecID, name string) {
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	for _, id := range list {
		if err := e.guest.Signal(ctx, id, name); err != nil && !core.IsCode(err, core.CodeNotFound) && !core.IsCode(err, core.CodeConflict) {
			e.log.Debug("signal an exec of a sandbox that is stopped", slog.String("sandbox_id", string(e.sb.ID)), slog.Any("err", err))
		}
	}
}

// wait waits until no exec runs, for at most so long, and returns those that do.
func (e *parting) wait(ctx context.Context, most time.Duration) (running []core.ExecID, err error) {
	w, end := e.graces.begin(e.sb.ID, e.clock.Now().Add(most))
	defer end()
	over := e.clock.After(most)
	for {
		if running, err = e.running(ctx); err != nil || len(running) == 0 {
			return running, err
		}
		select {
		case <-ctx.Done():
			return running, ctx.Err()
		case <-over:
			return running, nil
		case <-w.moved:
			over = e.clock.After(e.graces.left(w, e.clock.Now()))
		case <-e.clock.After(graceLook):
		}
	}
}
