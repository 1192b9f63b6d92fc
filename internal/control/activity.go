package control

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// activity knows when each sandbox with an idle rule was last used. It is exact in memory. On record is a moment that is never
// before the last use, so that a killed server's successor deletes nothing too early: whoever writes it writes one that lies a
// grain ahead, and all uses up to then cost no write.
type activity struct {
	store store.Store
	clock core.Clock
	log   *slog.Logger
	// moved says that the idle loop has something new to look at.
	moved chan struct{}

	mu sync.Mutex
	// by has the sandboxes that have a rule, and those in use by somebody who is still there.
	by map[core.SandboxID]*use
	// reading makes those who read a rule from the store take turns, so that the last to write to memory has read last.
	reading sync.Mutex
	// recording makes those who write to the record take turns, so that memory never says more than is on record.
	recording sync.Mutex
}

// use is the use of one sandbox. All but paying is under activity.mu.
type use struct {
	// rule is the one that acts when it has been unused for rule.After, which is zero if none does in its present state.
	rule core.ScheduledRule
	// active is when it was last used, recorded what is on record of that.
	active, recorded time.Time
	// open has who is using it now.
	open map[*hold]struct{}
	// output is how much each exec had printed when the guest agent was last asked.
	output map[core.ExecID]int64
	// deciding says that the idle loop is about to act on it; fate what is being done to it: whoever comes now comes too late.
	deciding bool
	fate     core.LifecycleAction
	// failed counts in vain tries of the rule.
	failed int
	// paying is held by who writes to the record.
	paying chan struct{}
}

// hold is one use of a sandbox that goes on.
type hold struct {
	what  core.UseKind
	since time.Time
}

// The grain of what is on record: a tenth of the rule, within these bounds. A server that was killed may end a sandbox so much
// later than it would have.
const (
	minGrain = time.Second
	maxGrain = 10 * time.Second
)

func grain(rule time.Duration) time.Duration { return min(max(rule/10, minGrain), maxGrain) }

func newActivity(st store.Store, clock core.Clock, log *slog.Logger) *activity {
	return &activity{store: st, clock: clock, log: log, moved: make(chan struct{}, 1), by: map[core.SandboxID]*use{}}
}

func newUse() *use { return &use{paying: make(chan struct{}, 1), open: map[*hold]struct{}{}} }

// ruled reports whether a rule counts its use.
func (u *use) ruled() bool { return u.rule.After > 0 }

// lookAgain tells the idle loop that there is something new.
func (a *activity) lookAgain() {
	select {
	case a.moved <- struct{}{}:
	default:
	}
}

// touch records that a sandbox is used now. If its idle rule is just deleting it that is not_found, if it is stopping it conflict.
func (a *activity) touch(ctx context.Context, id core.SandboxID) error {
	a.mu.Lock()
	u := a.by[id]
	if u == nil {
		a.mu.Unlock()
		return nil
	}
	err := u.begin(a.clock.Now())
	a.mu.Unlock()
	if err != nil {
		return err
	}
	return a.pay(ctx, id, u)
}

// hold records that a sandbox is used from now on until release is called, which may be called again.
func (a *activity) hold(ctx context.Context, id core.SandboxID, what core.UseKind) (release func(), err error) {
	a.mu.Lock()
	u := a.by[id]
	if u == nil {
		u = newUse()
		a.by[id] = u
	}
	h := &hold{what, a.clock.Now()}
	if err = u.begin(h.since); err == nil {
		u.open[h] = struct{}{}
	}
	a.mu.Unlock()
	if err != nil {
		return nil, err
	}
	release = sync.OnceFunc(func() { a.release(id, u, h) })
	if err := a.pay(ctx, id, u); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// begin is under activity.mu.
func (u *use) begin(now time.Time) error {
	switch u.fate {
	case "":
		u.used(now)
		return nil
	case core.ActionDelete:
		return core.Errorf(core.CodeNotFound, "no such sandbox")
	default:
		return &core.Error{
			Code: core.CodeConflict, Message: "nobody has used the sandbox for a while and its rule is stopping it: wake it", RetryAfter: time.Second,
		}
	}
}

// used is under activity.mu. A clock that is set back doesn't make a sandbox older.
func (u *use) used(now time.Time) {
	if now.After(u.active) {
		u.active = now
	}
}

func (a *activity) release(id core.SandboxID, u *use, h *hold) {
	a.mu.Lock()
	delete(u.open, h)
	u.used(a.clock.Now())
	if !u.ruled() && len(u.open) == 0 && a.by[id] == u {
		delete(a.by, id)
	}
	ruled := u.ruled()
	a.mu.Unlock()
	if ruled {
		a.lookAgain()
	}
}

// unrecorded reports whether the last use is not covered by what is on record. It is under activity.mu.
func (u *use) unrecorded() bool { return u.ruled() && u.active.After(u.recorded) }

// pay makes sure that a use which has begun is on record before it is served. Of many at once one writes for all.
func (a *activity) pay(ctx context.Context, id core.SandboxID, u *use) error {
	owes := func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return u.unrecorded()
	}
	if !owes() {
		return nil
	}
	select {
	case u.paying <- struct{}{}:
		defer func() { <-u.paying }()
	case <-ctx.Done():
		return core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
	}
	if owes() {
		a.record(ctx, map[core.SandboxID]*use{id: u})
	}
	return nil
}

// record writes for each sandbox that it is used until a grain from now. If that fails the sandbox is served all the same, and
// might after a kill end too early: the log says so.
func (a *activity) record(ctx context.Context, uses map[core.SandboxID]*use) {
	a.recording.Lock()
	defer a.recording.Unlock()
	until := map[core.SandboxID]time.Time{}
	a.mu.Lock()
	for id, u := range uses {
		until[id] = a.clock.Now().Add(grain(u.rule.After))
	}
	a.mu.Unlock()
	err := a.store.UpdateRelaxed(context.WithoutCancel(ctx), func(tx store.Tx) error {
		for id, at := range until {
			if err := tx.PutActive(id, at); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		a.log.WarnContext(ctx, "record that sandboxes are in use: they may be taken for idle after a restart", slog.Any("err", err))
	}
	a.mu.Lock()
	for id, u := range uses {
		u.recorded = until[id]
	}
	a.mu.Unlock()
}

// printed compares how much execs have printed with the last time, and counts more as use.
func (a *activity) printed(id core.SandboxID, lives []core.Exec) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.by[id]
	if u == nil || !u.ruled() {
		return false
	}
	more, output := false, make(map[core.ExecID]int64, len(lives))
	for _, e := range lives {
		output[e.ID] = e.OutputBytes
		more = more || e.OutputBytes > u.output[e.ID]
	}
	u.output = output
	if more {
		u.used(a.clock.Now())
	}
	return more
}

// show fills in when a sandbox was last used.
func (a *activity) show(sb *core.Sandbox) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	if u := a.by[sb.ID]; u != nil && u.ruled() {
		sb.ActiveAt = u.active
		if len(u.open) > 0 {
			sb.ActiveAt = now
		}
	}
	if sb.ActiveAt.After(now) { // what is on record may lie ahead
		sb.ActiveAt = now
	}
}
