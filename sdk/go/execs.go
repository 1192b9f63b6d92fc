package shoal

import (
	"bytes"
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"

	"shoal/api"
)

// Execs runs processes in one sandbox and looks after them.
type Execs struct {
	c       *Client
	sandbox string
	// key is what WithKey was given.
	key string
}

// Execs returns the calls on the processes of a sandbox, by its id or name.
func (c *Client) Execs(sandbox string) Execs { return Execs{c: c, sandbox: sandbox} }

// WithKey returns the same calls with an Idempotency-Key for Run, Start or Stream: a word of the caller's own for one call. Whoever makes
// the call again within 24 hours gets the result of the same process, or joins it. Another call needs another key.
func (e Execs) WithKey(key string) Execs {
	e.key = key
	return e
}

// Run starts a process, waits for its end and returns outcome and output, at most the first 1 MiB of each stream. A
// process that fails is no error: look at Outcome and ExitCode. If ctx ends first the process goes on. If no reply comes it is tried
// again, which waits for the process that was started.
func (e Execs) Run(ctx context.Context, req ExecRequest) (ExecResult, error) {
	req.Detach = false
	var out ExecResult
	return out, e.start(ctx, req, &out)
}

// Start starts a process that goes on by itself; Attach follows it.
func (e Execs) Start(ctx context.Context, req ExecRequest) (Exec, error) {
	req.Detach = true
	var out Exec
	return out, e.start(ctx, req, &out)
}

func (e Execs) start(ctx context.Context, req ExecRequest, out any) error {
	p, err := path("v1", "sandboxes", e.sandbox, "execs")
	if err != nil {
		return err
	}
	return e.c.do(ctx, call{method: http.MethodPost, path: p, in: req, once: true, key: e.key}, out)
}

// Get returns an exec.
func (e Execs) Get(ctx context.Context, id string) (Exec, error) {
	var out Exec
	return out, e.named(ctx, http.MethodGet, id, "", nil, &out)
}

// ListExecsOptions selects execs. All that is set must match.
type ListExecsOptions struct {
	// Tag is the word that the exec was started with.
	Tag string
	// Running leaves out those that have ended.
	Running bool
}

// List returns all of the sandbox's execs, newest first, and fetches pages as they are needed. After an error it ends.
func (e Execs) List(ctx context.Context) iter.Seq2[Exec, error] {
	return e.Select(ctx, ListExecsOptions{})
}

// Select is List of the execs that o selects.
func (e Execs) Select(ctx context.Context, o ListExecsOptions) iter.Seq2[Exec, error] {
	q := url.Values{}
	if o.Tag != "" {
		q.Set("tag", o.Tag)
	}
	if o.Running {
		q.Set("running", "true")
	}
	return pages(func(cursor string) ([]Exec, string, error) {
		p, err := path("v1", "sandboxes", e.sandbox, "execs")
		if err != nil {
			return nil, "", err
		}
		var page api.ExecList
		err = e.c.do(ctx, call{method: http.MethodGet, path: p, query: withCursor(q, cursor)}, &page)
		return page.Execs, page.NextCursor, err
	})
}

// Cancel kills the exec's whole process group; its outcome is canceled.
func (e Execs) Cancel(ctx context.Context, id string) error {
	return e.named(ctx, http.MethodDelete, id, "", nil, nil)
}

// Signal sends a signal, such as "SIGTERM", to the exec's whole process group.
func (e Execs) Signal(ctx context.Context, id, signal string) error {
	return e.named(ctx, http.MethodPost, id, "/signal", api.SignalExecRequest{Signal: signal}, nil)
}

// Resize sets the size of the exec's terminal.
func (e Execs) Resize(ctx context.Context, id string, rows, cols int) error {
	return e.named(ctx, http.MethodPost, id, "/resize", api.ResizeExecRequest{Rows: rows, Cols: cols}, nil)
}

// WriteStdin appends to the input of an exec that was started with StdinOpen; end closes it afterwards.
func (e Execs) WriteStdin(ctx context.Context, id string, data []byte, end bool) error {
	p, err := path("v1", "sandboxes", e.sandbox, "execs", id, "stdin")
	if err != nil {
		return err
	}
	for {
		part := data[:min(len(data), maxInput)]
		data = data[len(part):]
		last := len(data) == 0
		cl := call{
			method: http.MethodPost, path: p,
			header: http.Header{"Content-Type": {"application/octet-stream"}},
		}
		if end && last {
			cl.query = url.Values{"end": {"true"}}
		}
		if err := e.c.unhurried(ctx, cl, func() io.Reader { return bytes.NewReader(part) }); err != nil || last {
			return err
		}
	}
}

// unhurried makes a call, and again while the server finds that calls come too fast: it has not looked at them then.
func (c *Client) unhurried(ctx context.Context, cl call, body func() io.Reader) error {
	for attempt := 0; ; attempt++ {
		cl.body = body()
		err := c.do(ctx, cl, nil)
		if ErrorCode(err) != CodeQuota || attempt >= c.retries() {
			return err
		}
		if wait, ok := delay(err, attempt); !ok || sleep(ctx, wait) != nil {
			return err
		}
	}
}

// named makes a call on one exec.
func (e Execs) named(ctx context.Context, method, id, rest string, in, out any) error {
	p, err := path(id)
	if err != nil {
		return err
	}
	return e.call(ctx, method, p, rest, in, out)
}

func (e Execs) call(ctx context.Context, method, id, rest string, in, out any) error {
	p, err := path("v1", "sandboxes", e.sandbox, "execs")
	if err != nil {
		return err
	}
	return e.c.do(ctx, call{method: method, path: p + id + rest, in: in}, out)
}
