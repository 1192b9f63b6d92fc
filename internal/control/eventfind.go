package control

import (
	"context"
	"slices"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// EventQuery selects events. A zero field selects nothing out.
type EventQuery struct {
	// Sandbox is one sandbox, by id or name, or by id one that is deleted.
	Sandbox string
	// Types are types, or the beginnings of types with a *, such as sandbox.*.
	Types []string
	// Actor is the id of who caused it: a key's, a sandbox's whose token was shown, or the name of a rule.
	Actor        string
	Labels       map[string]string
	Since, Until time.Time
	// After is the sequence number after which they begin, Limit the greatest number of them.
	After int64
	Limit int
	// Wait is for how long to wait for one if there is none.
	Wait time.Duration
}

// filter checks a query.
func (q EventQuery) filter() (f store.EventFilter, err error) {
	f = store.EventFilter{Actor: q.Actor, Labels: q.Labels, Since: q.Since, Until: q.Until}
	for _, pattern := range q.Types {
		begin, many := strings.CutSuffix(pattern, "*")
		found := false
		for _, t := range core.EventTypes() {
			if string(t) == pattern || many && strings.HasPrefix(string(t), begin) {
				found = true
				if !slices.Contains(f.Types, t) {
					f.Types = append(f.Types, t)
				}
			}
		}
		if !found {
			var all []string
			for _, t := range core.EventTypes() {
				all = append(all, string(t))
			}
			return f, core.Invalid("type", "there is no type of event %q: there are %s", clip(pattern), strings.Join(all, ", "))
		}
	}
	return f, checkLabels(q.Labels)
}

// happenings tells what happened.
type happenings struct {
	*deps
	find *finder
}

// Events returns events after a sequence number; with ref only those of one sandbox. If there are none yet it waits until
// one comes or wait has passed.
func (h *happenings) Events(ctx context.Context, p Principal, ref string, after int64, limit int, wait time.Duration) ([]core.Event, int64, error) {
	page, err := h.FindEvents(ctx, p, EventQuery{Sandbox: ref, After: after, Limit: limit, Wait: wait})
	return page.Events, page.Oldest, err
}

// FindEvents returns events that a query selects. If there are none yet it waits until one comes or q.Wait has passed.
func (h *happenings) FindEvents(ctx context.Context, p Principal, q EventQuery) (page store.EventPage, err error) {
	if err := p.may("FindEvents"); err != nil {
		return page, err
	}
	var id core.SandboxID
	if q.Sandbox != "" {
		id, err = h.find.everKnown(ctx, p, q.Sandbox)
	} else {
		err = p.needAll()
	}
	if err != nil {
		return page, err
	}
	filter, err := q.filter()
	if err != nil {
		return page, err
	}
	filter.Sandbox = id
	deadline := h.clock.After(q.Wait)
	for {
		news := h.waiters.wait(p.Tenant)
		err = h.store.View(ctx, func(r store.Reader) error {
			page, err = r.FindEvents(p.Tenant, filter, q.After, q.Limit)
			return err
		})
		if err != nil || len(page.Events) > 0 || q.Wait <= 0 || page.Oldest > q.After+1 && q.After > 0 {
			return page, err
		}
		q.After = page.Through // what was looked at once need not be looked at again
		select {
		case <-news:
		case <-deadline:
			return page, nil
		case <-ctx.Done():
			return page, core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
		case <-h.tasks.stop.Done():
			return page, nil
		}
	}
}
