package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"shoal/api"
	"shoal/internal/control"
	"shoal/internal/core"
)

func (a sandboxAPI) createSandboxes(w http.ResponseWriter, r *request) error {
	var body api.CreateSandboxesRequest
	data, err := readBody(w, r, &body)
	if err != nil {
		return err
	}
	batch, err := batchOf(body)
	if err != nil {
		return err
	}
	if batch.Once, err = r.once(data); err != nil {
		return err
	}
	return a.tellMany(w, r, nil, func(ctx context.Context, tell func(control.BatchResult) error) error {
		return a.control.CreateSandboxes(ctx, r.principal, batch, tell)
	})
}

// tellMany answers with what becomes of several sandboxes, as act tells it. once, unless it is nil, is that of the whole call.
func (a sandboxAPI) tellMany(
	w http.ResponseWriter, r *request, once *core.Once, act func(ctx context.Context, tell func(control.BatchResult) error) error,
) error {
	ctx, cancel := a.streamContext(r)
	defer cancel()
	out := &batchReply{api: a.API, r: r, w: w, once: once}
	defer func() {
		if out.lines != nil {
			r.outcome, r.detail = out.first, fmt.Sprintf("%d created, %d failed", out.created, out.failed)
		}
	}()
	results, done := make(chan control.BatchResult), make(chan error, 1)
	go func() { // ended by the loop below, which reads to the end, or by ctx
		done <- act(ctx, func(b control.BatchResult) error {
			select {
			case results <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	silent := time.NewTicker(a.options.Keepalive)
	defer silent.Stop()
	var gone error
	for {
		select {
		case b := <-results:
			if gone == nil {
				gone = out.result(b)
			}
			silent.Reset(a.options.Keepalive)
		case <-silent.C:
			if gone == nil {
				gone = out.send(api.CreateSandboxesMessage{Type: api.CreateSandboxesMessageTypeKeepalive})
			}
		case err := <-done:
			if gone != nil {
				return gone
			}
			return out.end(err)
		}
		if gone != nil {
			cancel() // what is not begun is not wanted any more
		}
	}
}

// batchReply is the reply to a call that creates many. It begins with its first line, so that what is wrong with the call as a whole is
// told by an ordinary error.
type batchReply struct {
	api             *API
	r               *request
	w               http.ResponseWriter
	lines           *lineWriter
	created, failed int
	once            *core.Once
	// first is why the first failed that did.
	first core.Code
}

func (b *batchReply) send(m api.CreateSandboxesMessage) error {
	if b.lines == nil {
		b.lines = b.api.lines(b.w)
	}
	return b.lines.send(m)
}

func (b *batchReply) result(res control.BatchResult) error {
	if res.Err != nil {
		b.failed++
		e := b.api.public(b.r, res.Err)
		if b.first == "" {
			b.first = e.Code
		}
		if b.r.err == nil && !callersFault(e.Code) {
			b.r.err, b.r.code = cause(res.Err, e), e.Code // the first stands for all: the log has one line for a call
		}
		return b.send(api.CreateSandboxesMessage{
			Type: api.CreateSandboxesMessageTypeFailed, Index: &res.Index, Error: b.api.encodeError(b.r, e),
		})
	}
	b.created++
	if b.lines == nil {
		tellRepeated(b.w, b.once)
	}
	return b.send(api.CreateSandboxesMessage{
		Type: api.CreateSandboxesMessageTypeCreated, Index: &res.Index, Sandbox: encodeSandbox(res.Sandbox),
	})
}

func (b *batchReply) end(err error) error {
	if err != nil && b.lines == nil {
		return err
	}
	if err != nil {
		return b.api.endStream(b.r, err, func(e api.Error) error {
			return b.send(api.CreateSandboxesMessage{Type: api.CreateSandboxesMessageTypeError, Error: e})
		})
	}
	return b.send(api.CreateSandboxesMessage{Type: api.CreateSandboxesMessageTypeEnded, Created: &b.created, Failed: &b.failed})
}

// batchOf turns a request into what control takes.
func batchOf(body api.CreateSandboxesRequest) (batch control.Batch, err error) {
	batch.Stop = body.OnError == "stop"
	switch {
	case body.OnError != "" && body.OnError != "continue" && body.OnError != "stop":
		return batch, core.Invalid("on_error", "on_error is continue or stop")
	case len(body.Sandboxes) > 0 && (body.Count != 0 || body.NamePrefix != "" || !reflect.ValueOf(body.Sandbox).IsZero()):
		return batch, core.Invalid("sandboxes", "give either sandboxes, or count with sandbox")
	case len(body.Sandboxes) > control.MaxBatch:
		return batch, core.Invalid("sandboxes", "a batch creates 1 to %d sandboxes", control.MaxBatch)
	case len(body.Sandboxes) == 0 && (body.Count < 1 || body.Count > control.MaxBatch):
		return batch, core.Invalid("count", "a batch creates 1 to %d sandboxes", control.MaxBatch)
	case body.Sandbox.Name != "":
		return batch, core.Invalid("sandbox.name", "a name is one sandbox's: name_prefix gives each one its own")
	}
	for i, one := range body.Sandboxes {
		spec, err := sandboxSpec(one)
		if err != nil {
			return batch, within("sandboxes["+strconv.Itoa(i)+"]", err)
		}
		batch.Specs = append(batch.Specs, spec)
	}
	for i := range body.Count {
		one := body.Sandbox
		if body.NamePrefix != "" {
			one.Name = body.NamePrefix + strconv.Itoa(i)
			if err := core.CheckName("name_prefix", one.Name); err != nil {
				return batch, err
			}
		}
		spec, err := sandboxSpec(one)
		if err != nil {
			return batch, within("sandbox", err)
		}
		batch.Specs = append(batch.Specs, spec)
	}
	return batch, nil
}

func (a sandboxAPI) getOrCreateSandbox(w http.ResponseWriter, r *request) error {
	name := r.PathValue("id")
	if err := core.CheckName("name", name); err != nil {
		return err
	}
	var body api.CreateSandboxRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	if body.Name != "" && body.Name != name {
		return core.Invalid("name", "the name is in the path, and the body has another")
	}
	spec, err := sandboxSpec(body)
	if err != nil {
		return err
	}
	sandbox, created, err := a.control.GetOrCreateSandbox(r.Context(), r.principal, name, spec)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	w.Header().Set("Location", "/v1/sandboxes/"+string(sandbox.ID))
	return writeJSON(w, status, encodeSandbox(sandbox))
}
