package httpapi

import (
	"context"
	"math"
	"net/http"
	"time"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/store"
)

func (a operationAPI) listOperations(w http.ResponseWriter, r *request) error {
	var filter store.OperationFilter
	for _, s := range r.query["state"] {
		filter.States = append(filter.States, core.OperationState(s))
	}
	for _, k := range r.query["kind"] {
		filter.Kinds = append(filter.Kinds, core.WorkKind(k))
	}
	list, next, err := a.control.ListOperations(r.Context(), r.principal, filter, r.page())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, api.OperationList{Operations: convert(list, encodeOperation), NextCursor: next})
}

// untilItEnds is a revision that no operation has.
const untilItEnds = math.MaxInt64

func (a operationAPI) getOperation(w http.ResponseWriter, r *request) error {
	ref, err := r.ref("id", "operation")
	if err != nil {
		return err
	}
	id := core.OperationID(ref)
	if accepts(r.Request, ndjson) {
		return a.followOperation(w, r, id)
	}
	ctx, cancel := a.streamContext(r)
	defer cancel()
	wait := time.Duration(r.number("wait", 0)) * time.Second
	op, err := a.control.AwaitOperation(ctx, r.principal, id, untilItEnds, wait)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeOperation(op))
}

// followOperation streams an operation as it gets on, to its end or until the client or the server goes.
func (a operationAPI) followOperation(w http.ResponseWriter, r *request, id core.OperationID) error {
	ctx, cancel := a.streamContext(r)
	defer cancel()
	// The first look tells what is wrong with the call by an ordinary error.
	op, err := a.control.GetOperation(ctx, r.principal, id)
	if err != nil {
		return err
	}
	out := a.lines(w)
	for seen := int64(-1); ; {
		m := api.OperationMessage{Type: api.OperationMessageTypeKeepalive}
		if op.Ended() || op.Revision != seen {
			m = api.OperationMessage{Type: api.OperationMessageTypeOperation, Operation: encodeOperation(op)}
		}
		if err = out.send(m); err != nil || op.Ended() {
			return err
		}
		seen = op.Revision
		if op, err = a.control.AwaitOperation(ctx, r.principal, id, seen, a.options.Keepalive); err == nil {
			err = ctx.Err()
		}
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return a.endStream(r, err, func(e api.Error) error {
				return out.send(api.OperationMessage{Type: api.OperationMessageTypeError, Error: e})
			})
		}
	}
}

func (a operationAPI) cancelOperation(w http.ResponseWriter, r *request) error {
	ref, err := r.ref("id", "operation")
	if err != nil {
		return err
	}
	return noContent(w, a.control.CancelOperation(r.Context(), r.principal, core.OperationID(ref)))
}

func encodeOperation(op core.Operation) api.Operation {
	out := api.Operation{
		ID: string(op.ID), Kind: string(op.Kind), State: api.OperationState(op.State), Target: op.Target, Result: op.Result,
		Step: op.Progress.Step, BytesDone: op.Progress.BytesDone, BytesTotal: op.Progress.BytesTotal,
		Actor: api.Actor{Kind: op.Actor.Kind, ID: op.Actor.ID}, CreatedAt: op.CreatedAt, EndedAt: op.EndedAt,
	}
	if out.Target == nil {
		out.Target = map[string]string{}
	}
	if op.Progress.Percent >= 0 {
		out.Percent = &op.Progress.Percent
	}
	if op.Code != "" {
		out.Error = api.OperationError{Code: string(op.Code), Message: op.Message}
	}
	return out
}
