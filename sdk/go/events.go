package shoal

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"shoal/api"
)

// Events tells what happened to the tenant's property.
type Events struct{ c *Client }

// Events returns the calls on events.
func (c *Client) Events() Events { return Events{c} }

// EventsOptions selects events.
type EventsOptions struct {
	// Sandbox selects those of one sandbox, by id or name; empty means all.
	Sandbox string
	// Types selects events of one of these types; "sandbox.*" stands for all that begin so.
	Types []string
	// Labels must all be among those that the event's sandbox has, or had last. Not together with Sandbox.
	Labels map[string]string
	// Actor selects what this actor caused: a key by its id, a sandbox by its id for what its token did, or a rule such as "ttl".
	Actor string
	// Since and Until bound when it happened, the first included. Until is not for Follow.
	Since, Until time.Time
	// After is the sequence number after which they begin; zero means from the oldest that is kept.
	After int64
	// Wait holds a List until there is an event, at most a minute; it is rounded down to seconds.
	Wait time.Duration
	// Limit is the greatest number of events of a List, at most 1000; zero means 100.
	Limit int
	// Broken, unless nil, is told by Follow why a connection broke off, once before it tries to make it anew.
	Broken func(why error)
}

// GapError tells a follower that events before Oldest are no longer kept. Missing is how many of those that it asked for.
type GapError struct{ Oldest, Missing int64 }

// Error says which events are missing.
func (e *GapError) Error() string {
	return fmt.Sprintf("events before number %d are no longer kept", e.Oldest)
}

// List returns events, oldest first. EventList.NextAfter is the After of the next call.
func (e Events) List(ctx context.Context, o EventsOptions) (EventList, error) {
	cl, err := e.call(o)
	if err != nil {
		return EventList{}, err
	}
	var out EventList
	return out, e.c.do(ctx, cl, &out)
}

// Follow returns events as they happen until ctx ends. A connection that breaks off is made anew from the last event, for up to 3 minutes,
// unless MaxRetries forbids it. Missing events are told once by a *GapError, after which it goes on; after any other error it ends.
func (e Events) Follow(ctx context.Context, o EventsOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		t := followTries{c: e.c, broken: o.Broken}
		for {
			goOn, err := e.follow(ctx, &o.After, o, &t, yield)
			if !goOn {
				return
			}
			if !t.again(ctx, err) {
				yield(Event{}, err)
				return
			}
		}
	}
}

// follow yields the events of one connection and keeps after up to date. goOn is false if the consumer has had enough.
func (e Events) follow(
	ctx context.Context, after *int64, o EventsOptions, t *followTries, yield func(Event, error) bool,
) (goOn bool, err error) {
	o.After, o.Wait, o.Limit = *after, 0, 0
	cl, err := e.call(o)
	if err != nil {
		return true, err
	}
	lines, err := e.c.lines(ctx, cl)
	if err != nil {
		return true, err
	}
	defer func() { _ = lines.close() }()
	for {
		var m api.EventMessage
		if err := lines.next(&m); err != nil {
			return true, err
		}
		if m.Type != api.EventMessageTypeError {
			t.told()
		}
		switch m.Type {
		case api.EventMessageTypeEvent:
			*after = m.Event.Seq
			if !yield(m.Event, nil) {
				return false, nil
			}
		case api.EventMessageTypeGap:
			*after = max(*after, m.Oldest-1)
			if !yield(Event{}, &GapError{Oldest: m.Oldest, Missing: m.Missing}) {
				return false, nil
			}
		case api.EventMessageTypeError:
			return true, fromAPI(m.Error)
		case api.EventMessageTypeKeepalive:
			*after = max(*after, m.NextAfter)
		}
	}
}

func (e Events) call(o EventsOptions) (call, error) {
	cl := call{method: http.MethodGet, path: "/v1/events", query: url.Values{}}
	if o.Sandbox != "" {
		p, err := path("v1", "sandboxes", o.Sandbox, "events")
		if err != nil {
			return call{}, err
		}
		cl.path = p
	}
	for _, t := range o.Types {
		cl.query.Add("type", t)
	}
	for k, v := range o.Labels {
		cl.query.Add("label", k+"="+v)
	}
	if o.Actor != "" {
		cl.query.Set("actor", o.Actor)
	}
	for name, at := range map[string]time.Time{"since": o.Since, "until": o.Until} {
		if !at.IsZero() {
			cl.query.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	if o.After != 0 {
		cl.query.Set("after", strconv.FormatInt(o.After, 10))
	}
	if o.Wait >= time.Second {
		cl.query.Set("wait", strconv.Itoa(int(o.Wait/time.Second)))
	}
	if o.Limit != 0 {
		cl.query.Set("limit", strconv.Itoa(o.Limit))
	}
	return cl, nil
}
