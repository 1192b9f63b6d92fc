package httpapi

import (
	"context"
	"net/http"
	"time"

	"shoal/api"
	"shoal/internal/core"
)

// eventBatch is how many events a stream takes at a time.
const eventBatch = 500

// listEvents serves the tenant's events and, where the path names a sandbox, that sandbox's.
func (a sandboxAPI) listEvents(w http.ResponseWriter, r *request) error {
	ref := ""
	if r.op.ID == "listSandboxEvents" {
		var err error
		if ref, err = r.sandbox(); err != nil {
			return err
		}
	}
	after := r.number("after", 0)
	if accepts(r.Request, ndjson) {
		return a.followEvents(w, r, ref, after)
	}
	ctx, cancel := a.streamContext(r)
	defer cancel()
	wait := time.Duration(r.number("wait", 0)) * time.Second
	list, oldest, err := a.control.Events(ctx, r.principal, ref, after, r.limit(), wait)
	if err != nil {
		return err
	}
	out := api.EventList{Events: convert(list, encodeEvent), Oldest: oldest, NextAfter: after}
	if len(list) > 0 {
		out.NextAfter = list[len(list)-1].Seq
	}
	return writeJSON(w, http.StatusOK, out)
}

// followEvents streams events until the client or the server goes.
func (a sandboxAPI) followEvents(w http.ResponseWriter, r *request, ref string, after int64) error {
	ctx, cancel := a.streamContext(r)
	defer cancel()
	var out *lineWriter
	for {
		// The first look is without waiting, so that what is wrong with the call is told by an ordinary error.
		wait := a.options.Keepalive
		if out == nil {
			wait = 0
		}
		list, oldest, err := a.control.Events(ctx, r.principal, ref, after, eventBatch, wait)
		if out == nil {
			if err != nil {
				return err
			}
			out = a.lines(w)
		}
		if err == nil {
			after, err = sendEvents(out, list, oldest, after)
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
func sendEvents(out *lineWriter, list []core.Event, oldest, after int64) (int64, error) {
	if after > 0 && oldest > after+1 {
		if err := out.send(api.EventMessage{Type: api.EventMessageTypeGap, Oldest: oldest}); err != nil {
			return after, err
		}
		after = oldest - 1
	}
	if len(list) == 0 {
		return after, out.send(api.EventMessage{Type: api.EventMessageTypeKeepalive})
	}
	for _, e := range list {
		if err := out.send(api.EventMessage{Type: api.EventMessageTypeEvent, Event: encodeEvent(e)}); err != nil {
			return after, err
		}
		after = e.Seq
	}
	return after, nil
}

func encodeEvent(e core.Event) api.Event {
	return api.Event{
		Seq: e.Seq, Type: string(e.Type), SandboxID: string(e.Sandbox), At: e.At,
		Actor: api.Actor{Kind: e.Actor.Kind, ID: e.Actor.ID}, Data: e.Data,
	}
}
