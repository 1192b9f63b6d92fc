package control

import (
	"context"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// load learns the idle rules of all sandboxes. What is on record is the last use, or some time after it.
func (a *activity) load(ctx context.Context) error {
	return a.store.View(ctx, func(r store.Reader) error {
		all, err := r.AllSandboxes()
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, sb := range all {
			a.setRule(sb, sb.ActiveAt)
		}
		return err
	})
}

// reload learns one sandbox's idle rule, which has been made or changed.
func (a *activity) reload(ctx context.Context, id core.SandboxID) {
	a.reading.Lock()
	defer a.reading.Unlock()
	err := a.store.View(context.WithoutCancel(ctx), func(r store.Reader) error {
		sb, err := r.SandboxByID(id)
		if core.IsCode(err, core.CodeNotFound) {
			a.forget(id)
			return nil
		}
		if err != nil {
			return err
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		// What is on record may lie ahead; here it is known what was used when.
		a.setRule(sb, earlier(sb.ActiveAt, a.clock.Now()))
		return nil
	})
	if err != nil {
		a.log.ErrorContext(ctx, "read an idle rule: it holds as it was until the next start",
			slog.String("sandbox_id", string(id)), slog.Any("err", err))
	}
	a.lookAgain()
}

// setRule takes over a sandbox's rule, with the moment at which it was last used. It is under activity.mu.
func (a *activity) setRule(sb core.Sandbox, active time.Time) {
	u := a.by[sb.ID]
	if sb.State == core.StateDeleted {
		if u != nil {
			u.deciding, u.fate = true, core.ActionDelete
		}
		return
	}
	rule, ok := core.NextIdleRule(sb)
	if !ok && (u == nil || len(u.open) == 0) {
		delete(a.by, sb.ID)
		return
	}
	if u == nil {
		u = newUse()
		a.by[sb.ID] = u
	}
	u.rule, u.recorded = rule, sb.ActiveAt
	u.used(active)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// doom turns away whoever comes to a sandbox that is deleted on record, and found it before that.
func (a *activity) doom(id core.SandboxID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if u := a.by[id]; u != nil {
		u.deciding, u.fate = true, core.ActionDelete
	}
}

// forget drops a sandbox of which nothing is left.
func (a *activity) forget(id core.SandboxID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.by, id)
}

// look returns the sandboxes that have been idle for long enough and nobody has decided on yet, puts on record what has to be,
// and says how long nothing of that will change by itself.
func (a *activity) look(ctx context.Context) (due []core.SandboxID, wait time.Duration) {
	owing := map[core.SandboxID]*use{}
	a.mu.Lock()
	now := a.clock.Now()
	next := now.Add(lookMost)
	for id, u := range a.by {
		at := u.active.Add(u.rule.After)
		switch {
		case !u.ruled() || u.deciding:
			continue
		case len(u.open) > 0:
			// It is used all the time: what is on record is kept ahead of it.
			if at = u.recorded.Add(-grain(u.rule.After) / 2); !at.After(now) {
				u.used(now)
				owing[id] = u
				at = now.Add(grain(u.rule.After) / 2)
			}
		case u.unrecorded():
			owing[id] = u
		case !at.After(now):
			u.deciding = true
			due = append(due, id)
			continue
		}
		if at.Before(next) {
			next = at
		}
	}
	a.mu.Unlock()
	if len(owing) > 0 {
		a.record(ctx, owing)
	}
	return due, max(next.Sub(now), 0)
}

// condemn decides whether a sandbox's rule is to act: from then on nobody can use it any more. It returns the rule.
func (a *activity) condemn(id core.SandboxID) (rule core.ScheduledRule, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.by[id]
	if u == nil || !u.ruled() || u.fate != "" || len(u.open) > 0 || u.active.Add(u.rule.After).After(a.clock.Now()) {
		return rule, false
	}
	u.fate = u.rule.Action
	return u.rule, true
}

// pardon lets a sandbox be used again after its rule was tried, and returns how often in vain. One that is deleted meanwhile stays so.
func (a *activity) pardon(id core.SandboxID, rule core.ScheduledRule, inVain bool) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.by[id]
	if u == nil {
		return 1
	}
	if u.fate == rule.Action {
		u.fate = ""
	}
	if !inVain {
		u.failed = 0
		return 0
	}
	u.failed++
	return u.failed
}

// spare has the idle loop look at a sandbox again.
func (a *activity) spare(id core.SandboxID) {
	a.mu.Lock()
	if u := a.by[id]; u != nil && u.fate == "" { // somebody else may have deleted it meanwhile
		u.deciding = false
	}
	a.mu.Unlock()
	a.lookAgain()
}

// close puts the exact moments on record, so that a restart moves no deadline.
func (a *activity) close(ctx context.Context) {
	err := a.store.UpdateRelaxed(ctx, func(tx store.Tx) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		for id, u := range a.by {
			if !u.ruled() {
				continue
			}
			if len(u.open) > 0 {
				u.used(a.clock.Now())
			}
			if err := tx.PutActive(id, u.active); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		a.log.WarnContext(ctx, "record when sandboxes were last used: idle ones may end some seconds later", slog.Any("err", err))
	}
}
