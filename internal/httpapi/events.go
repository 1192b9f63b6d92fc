package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"shoal/api"
	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// eventBatch is how many events a stream takes at a time.
const eventBatch = 500

// eventStreams is how many event streams a tenant may have open at once.
const eventStreams = 100

// listEvents serves the tenant's events and, where the path names a sandbox, that sandbox's.
func (a sandboxAPI) listEvents(w http.ResponseWriter, r *request) error {
	q, err := r.eventQuery()
	if err != nil {
		return err
	}
	if accepts(r.Request, ndjson) {
		return a.followEvents(w, r, q)
	}
	ctx, cancel := a.streamContext(r)
	defer cancel()
	q.Limit, q.Wait = r.limit(), time.Duration(r.number("wait", 0))*time.Second
	page, err := a.control.FindEvents(ctx, r.principal, q)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, api.EventList{
		Events: convert(page.Events, encodeEvent), Oldest: page.Oldest, NextAfter: max(page.Through, q.After), Missing: missing(q.After, page.Oldest),
	})
}

// eventQuery reads what events are asked for.
func (r *request) eventQuery() (q control.EventQuery, err error) {
	q = control.EventQuery{After: r.number("after", 0), Types: r.query["type"], Actor: r.query.Get("actor")}
	if r.op.ID == "listSandboxEvents" {
		q.Sandbox, err = r.sandbox()
	} else if r.query.Has("sandbox") {
		if q.Sandbox = r.query.Get("sandbox"); !refPattern().MatchString(q.Sandbox) {
			err = core.Errorf(core.CodeNotFound, "no such sandbox")
		}
	}
	if err != nil {
		return q, err
	}
	for name, at := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if *at, err = r.moment(name); err != nil {
			return q, err
		}
	}
	q.Labels, err = r.labels()
	return q, err
}

// missing is how many events after a sequence number are no longer kept. Who doesn't name one asks for what there is.
func missing(after, oldest int64) int64 {
	if after == 0 {
		return 0
	}
	return max(0, oldest-after-1)
}

// followEvents streams events until the client or the server goes. A client that doesn't read holds nothing but its connection: what comes
// meanwhile is read from the store when it goes on, or told as a gap if it is no longer there.
func (a sandboxAPI) followEvents(w http.ResponseWriter, r *request, q control.EventQuery) error {
	if !q.Until.IsZero() {
		return core.Invalid("until", "a stream goes on: until is for lists")
	}
	done, err := a.streams.take(r.principal.Tenant)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := a.streamContext(r)
	defer cancel()
	q.Limit = eventBatch
	var out *lineWriter
	for {
		page, err := a.control.FindEvents(ctx, r.principal, q)
		if out == nil {
			if err != nil {
				return err
			}
			out = a.lines(w)
			// The first look is without waiting, so that what is wrong with the call is told by an ordinary error.
			q.Wait = a.options.Keepalive
		}
		if err == nil {
			q.After, err = sendEvents(out, page, q.After)
		}
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return a.endStream(r, err, func(e api.Error) error {
				return out.send(api.EventMessage{Type: api.EventMessageTypeError, Error: e})
			})
		}
	}
}

// sendEvents writes one batch, or a keepalive if it is empty, and returns the number to go on after.
func sendEvents(out *lineWriter, page store.EventPage, after int64) (int64, error) {
	if missing(after, page.Oldest) > 0 {
		if err := out.send(api.EventMessage{Type: api.EventMessageTypeGap, Oldest: page.Oldest, Missing: missing(after, page.Oldest)}); err != nil {
			return after, err
		}
	}
	for _, e := range page.Events {
		if err := out.send(api.EventMessage{Type: api.EventMessageTypeEvent, Event: encodeEvent(e)}); err != nil {
			return after, err
		}
	}
	after = max(after, page.Through)
	if len(page.Events) == 0 {
		return after, out.send(api.EventMessage{Type: api.EventMessageTypeKeepalive, NextAfter: after})
	}
	return after, nil
}

// streamRoom counts the open streams of each tenant.
type streamRoom struct {
	mu sync.Mutex
	by map[core.TenantID]int
}

// take counts one more, until done is called.
func (s *streamRoom) take(t core.TenantID) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[t] >= eventStreams {
		return nil, &core.Error{
			Code: core.CodeQuota, RetryAfter: time.Second,
			Message: fmt.Sprintf("%d event streams are open, which is the most that a tenant may have: close some, or follow more sandboxes with one", eventStreams),
		}
	}
	s.by[t]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.by[t]--; s.by[t] == 0 {
			delete(s.by, t)
		}
	}, nil
}

func encodeEvent(e core.Event) api.Event {
	return api.Event{
		Seq: e.Seq, Type: string(e.Type), SandboxID: string(e.Sandbox), At: e.At,
		Actor: api.Actor{Kind: e.Actor.Kind, ID: e.Actor.ID}, Data: e.Data,
	}
}
