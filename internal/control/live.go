package control

import (
	"context"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// live knows the calls that are being answered, so that a call ends with what it was let in by: a key that is deleted or expires, a
// tenant that is suspended or deleted. It holds nothing durable.
type live struct {
	store store.Store
	clock core.Clock
	// moved says that a key expires earlier than the loop knows.
	moved chan struct{}

	mu sync.Mutex
	// turn counts what was taken away, so that who was let in before it and is tied after it is looked at again.
	turn uint64
	ties map[*tie]struct{}
	// next is when the first key of those that are tied expires, as the loop knows it; zero if none does.
	next time.Time
}

// tie is one call.
type tie struct {
	principal Principal
	end       func(cause error)
}

func newLive(st store.Store, clock core.Clock) *live {
	return &live{store: st, clock: clock, moved: make(chan struct{}, 1), ties: map[*tie]struct{}{}}
}

// Why a call ends before its time. The operator's words for a tenant are those of liveTenant.
var (
	errKeyDeleted = core.Errorf(core.CodeUnauthenticated, "the API key was deleted: what was started goes on")
	errKeyExpired = core.Errorf(core.CodeUnauthenticated, "the API key has expired: what was started goes on")
)

// Tie has end called, at most once and from any goroutine, when the caller may no longer act: with the reason, which is safe to show.
// end must not block. release ends that and must be called. If the caller may not act any more already, Tie fails.
func (s *Service) Tie(p Principal, end func(cause error)) (release func(), err error) {
	return s.live.tie(s.tasks.stop, p, end)
}

func (l *live) tie(ctx context.Context, p Principal, end func(error)) (release func(), err error) {
	t := &tie{principal: p, end: end}
	l.mu.Lock()
	l.ties[t] = struct{}{}
	behind := l.turn != p.seen
	if !p.expires.IsZero() && (l.next.IsZero() || p.expires.Before(l.next)) {
		select {
		case l.moved <- struct{}{}:
		default:
		}
	}
	l.mu.Unlock()
	release = func() {
		l.mu.Lock()
		delete(l.ties, t)
		l.mu.Unlock()
	}
	if behind {
		// Something was taken away since this caller was let in. Perhaps it was this caller's.
		if err := l.store.View(ctx, func(r store.Reader) error { return l.check(r, p) }); err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// check says whether a caller who was let in may still act.
func (l *live) check(r store.Reader, p Principal) error {
	if p.Actor.Kind == actorKey {
		key, err := r.Key(p.home, core.KeyID(p.Actor.ID))
		switch {
		case core.IsCode(err, core.CodeNotFound):
			return errKeyDeleted
		case err != nil:
			return err
		case expired(key, l.clock.Now()):
			return errKeyExpired
		}
	}
	_, err := liveTenant(r, p.Tenant)
	if p.Admin && core.IsCode(err, core.CodeDenied) {
		return nil
	}
	return err
}

// seen is what to put into a principal before its key is looked up.
func (l *live) seen() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turn
}

// takeAway ends the calls that were let in by what is gone now. It is called when that is on record.
func (l *live) takeAway(gone func(Principal) error) {
	type ending struct {
		end   func(error)
		cause error
	}
	var list []ending
	l.mu.Lock()
	l.turn++
	for t := range l.ties {
		if cause := gone(t.principal); cause != nil {
			list = append(list, ending{t.end, cause})
			delete(l.ties, t)
		}
	}
	l.mu.Unlock()
	for _, e := range list {
		e.end(e.cause)
	}
}

// keysGone ends the calls that were let in by keys that are deleted.
func (l *live) keysGone(list []core.Key) {
	ids := map[string]bool{}
	for _, k := range list {
		ids[string(k.ID)] = true
	}
	l.takeAway(func(p Principal) error {
		if p.Actor.Kind == actorKey && ids[p.Actor.ID] {
			return errKeyDeleted
		}
		return nil
	})
}

// tenantGone ends the calls in a tenant, but not those of the operator.
func (l *live) tenantGone(id core.TenantID, cause error) {
	l.takeAway(func(p Principal) error {
		if p.Tenant == id && !p.Admin {
			return cause
		}
		return nil
	})
}

// loop ends the calls whose keys expire, at the time they do.
func (l *live) loop(ctx context.Context) {
	for {
		now := l.clock.Now()
		l.wakeAt(time.Time{}) // who is tied while this goes on says so
		var next time.Time
		l.takeAway(func(p Principal) error {
			switch {
			case p.expires.IsZero():
			case !p.expires.After(now):
				return errKeyExpired
			case next.IsZero() || p.expires.Before(next):
				next = p.expires
			}
			return nil
		})
		wait := lookMost
		if !next.IsZero() {
			wait = min(wait, next.Sub(now))
		}
		l.wakeAt(next)
		select {
		case <-ctx.Done():
			return
		case <-l.moved:
		case <-l.clock.After(wait):
		}
	}
}

// wakeAt notes when the loop looks again, but for what is moved.
func (l *live) wakeAt(next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = next
}
