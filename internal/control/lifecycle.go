package control

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// lookMost bounds how long the loops of rules sleep, so that a stepped clock is noticed.
const lookMost = 30 * time.Second

// lifecycle carries out what the rules of sandboxes ask for. Those that the clock alone decides it finds by an index of the store; idle
// finds the others.
//
// Durable: the rules and what they count from, so that a rule whose time came while no server was there acts at the next start.
// Process-only: what is being tried.
type lifecycle struct {
	*deps
	removal *removal
	stops   stopper
	// moved says that an earlier moment may have come.
	moved chan struct{}

	mu sync.Mutex
	// tries has the sandboxes whose rule is being carried out, or was tried and failed.
	tries map[core.SandboxID]*try
}

// stopper stops sandboxes for rules.
type stopper interface {
	// stopFound stops the sandbox that find returns in the transaction that records the intent, and returns when it has stopped. An error
	// of find leaves it as it is.
	stopFound(ctx context.Context, actor core.Actor, reason string, find func(store.Reader) (core.Sandbox, error)) error
}

// try is what came of a rule until now. It is under lifecycle.mu.
type try struct {
	// running says that it is being carried out; otherwise it failed so many times, and is tried again at a moment.
	running bool
	failed  int
	again   time.Time
}

// retryAfter is how long to wait after so many failures.
func retryAfter(failed int) time.Duration {
	wait := retryFirst
	for range failed - 1 {
		if wait = 2 * wait; wait >= retryMost {
			return retryMost
		}
	}
	return wait
}

// lookAgain tells the loop that a rule was set or moved, or that a sandbox has come into another state.
func (x *lifecycle) lookAgain() {
	select {
	case x.moved <- struct{}{}:
	default:
	}
}

// loop carries out the rules that the clock decides, at their time.
func (x *lifecycle) loop(ctx context.Context) {
	for {
		wait, err := x.turn(ctx)
		if err != nil {
			if ctx.Err() == nil {
				x.log.Error("look for rules that are due", slog.Any("err", err))
			}
			wait = time.Second
		}
		select {
		case <-ctx.Done():
			return
		case <-x.moved:
		case <-x.clock.After(wait):
		}
	}
}

// turn begins what is due, and returns how long nothing will be.
func (x *lifecycle) turn(ctx context.Context) (wait time.Duration, err error) {
	now := x.clock.Now()
	var due []core.SandboxID
	next := now.Add(lookMost)
	err = x.store.View(ctx, func(r store.Reader) (err error) {
		if due, err = r.RulesDue(now); err != nil {
			return err
		}
		at, ok, err := r.NextRule(now)
		if ok {
			next = earlier(next, at)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, id := range x.begin(due, now, &next) {
		x.fire(ctx, id)
	}
	return max(next.Sub(x.clock.Now()), 0), nil
}

// begin notes that those rules are being carried out that are due and not tried in vain just before, and returns them.
func (x *lifecycle) begin(due []core.SandboxID, now time.Time, next *time.Time) (list []core.SandboxID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	tries := map[core.SandboxID]*try{} // of those that are not due any more nothing is remembered
	for id, t := range x.tries {
		if t.running {
			tries[id] = t
		}
	}
	for _, id := range due {
		t := x.tries[id]
		switch {
		case t == nil:
			t = &try{}
			fallthrough
		case !t.running && !t.again.After(now):
			t.running = true
			list = append(list, id)
		case !t.running:
			*next = earlier(*next, t.again)
		}
		tries[id] = t
	}
	x.tries = tries
	return list
}

// fire carries out the rule of a sandbox that is due by now: a delete at once, since it takes one transaction, all else beside the loop.
func (x *lifecycle) fire(ctx context.Context, id core.SandboxID) {
	var rule core.ScheduledRule
	var due bool
	err := x.store.View(ctx, func(r store.Reader) error {
		sb, err := r.SandboxByID(id)
		if err != nil {
			return goneIsDone(err)
		}
		rule, due = core.NextClockRule(sb)
		due = due && !rule.DueAt.After(x.clock.Now())
		return nil
	})
	if err != nil || !due {
		x.ended(ctx, id, err)
		return
	}
	act := func(ctx context.Context) {
		x.ended(ctx, id, x.act(ctx, rule, func(r store.Reader) (core.Sandbox, error) {
			sb, err := r.SandboxByID(id)
			if err != nil {
				return sb, err
			}
			still, ok := core.NextClockRule(sb)
			if !ok || !still.Same(rule.LifecycleRule) || still.DueAt.After(x.clock.Now()) {
				return sb, errRuleChanged
			}
			return sb, nil
		}))
	}
	if rule.Action == core.ActionDelete {
		act(ctx)
	} else {
		x.tasks.run(act)
	}
}

// errRuleChanged says that what was due isn't any more: a caller was faster.
var errRuleChanged = core.Errorf(core.CodeConflict, "the rule was changed")

// ended notes what came of a rule that was carried out. One that failed is tried again later, for as long as it is due.
func (x *lifecycle) ended(ctx context.Context, id core.SandboxID, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.lookAgain()
	t := x.tries[id]
	if t == nil {
		return
	}
	if done(err) {
		delete(x.tries, id)
		return
	}
	t.running = false
	t.failed++
	t.again = x.clock.Now().Add(retryAfter(t.failed))
	if ctx.Err() == nil {
		x.log.Warn("a rule could not be carried out: will be tried again", slog.String("sandbox_id", string(id)), slog.Any("err", err))
	}
}

// done reports whether nothing is left to be tried: it was done, or a caller was faster.
func done(err error) bool {
	return err == nil || errors.Is(err, errRuleChanged) || core.IsCode(err, core.CodeNotFound)
}

// act carries out a rule on the sandbox that find returns, in the transaction that records the intent. This is the one place that tells
// actions apart.
func (x *lifecycle) act(ctx context.Context, rule core.ScheduledRule, find func(store.Reader) (core.Sandbox, error)) error {
	if err := failpoint.Hit(failpoint.ControlRuleDue); err != nil {
		return err
	}
	reason := rule.Reason()
	switch rule.Action {
	case core.ActionDelete:
		return x.removal.start(ctx, system(reason), reason, find)
	case core.ActionStop:
		return x.stops.stopFound(ctx, system(reason), reason, find)
	case core.ActionFreeze, core.ActionStandby, core.ActionHibernate:
	}
	return core.Errorf(core.CodeInternal, "no rule can %s a sandbox", rule.Action)
}
