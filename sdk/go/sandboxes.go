package shoal

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"shoal/api"
)

// StopOptions say how a sandbox is stopped.
type StopOptions struct {
	// Grace is how long its processes may take to end by themselves, at most a minute; nil is the server's default of 10 s, zero kills them at once.
	Grace *time.Duration
}

// Sandboxes makes, finds, changes and deletes sandboxes.
type Sandboxes struct {
	c *Client
	// key is what WithKey was given.
	key string
}

// Sandboxes returns the calls on sandboxes.
func (c *Client) Sandboxes() Sandboxes { return Sandboxes{c: c} }

// WithKey returns the same calls with an Idempotency-Key for Create, CreateMany, Restore and Reset: a word of the caller's own for one call, which the server makes
// once however often it is asked within 24 hours, by this process or another. Another call needs another key.
func (s Sandboxes) WithKey(key string) Sandboxes {
	s.key = key
	return s
}

// ListSandboxesOptions selects sandboxes. All that is set must match.
type ListSandboxesOptions struct {
	// States are the states a sandbox may be in; empty means any.
	States []SandboxState
	// Labels must all be on the sandbox.
	Labels map[string]string
	// Template is a template's name, or the id of one version of it.
	Template string
	// StartedAfter leaves out what ran for the first time before it, or hasn't yet.
	StartedAfter time.Time
	// OldestFirst turns the order around.
	OldestFirst bool
	// Deleted also returns deleted sandboxes that are not yet forgotten.
	Deleted bool
}

// Create starts a sandbox and returns when its guest agent answers. If no reply comes it is tried again, which makes no second one.
func (s Sandboxes) Create(ctx context.Context, req CreateSandboxRequest) (Sandbox, error) {
	var out Sandbox
	return out, s.c.do(ctx, call{method: http.MethodPost, path: "/v1/sandboxes", in: req, once: true, key: s.key}, &out)
}

// GetOrCreate returns the sandbox with a name, or creates it; created says which. If there is one that differs from what is asked for,
// the error has code conflict.
func (s Sandboxes) GetOrCreate(ctx context.Context, name string, req CreateSandboxRequest) (out Sandbox, created bool, err error) {
	p, err := path("v1", "sandboxes", name)
	if err != nil {
		return out, false, err
	}
	resp, err := s.c.send(ctx, call{method: http.MethodPut, path: p, in: req}) //nolint:bodyclose // decode closes it.
	if err != nil {
		return out, false, err
	}
	created = resp.StatusCode == http.StatusCreated
	return out, created, decode(ctx, resp, &out)
}

// CreateResult is what became of one of many: the sandbox, or in Err, an *Error, why there is none.
type CreateResult struct {
	// Index says which one of the request it is, from 0.
	Index   int
	Sandbox Sandbox
	Err     error
}

// CreateMany creates up to 1000 sandboxes, and returns what becomes of each as soon as that is known. An error beside the results ends
// it: what was created by then stays, and what was not is not. Whoever stops early has what is under way undone.
func (s Sandboxes) CreateMany(ctx context.Context, req CreateSandboxesRequest) iter.Seq2[CreateResult, error] {
	return s.many(ctx, call{method: http.MethodPost, path: "/v1/sandboxes:batch", in: req, once: true, key: s.key})
}

// many makes a call that makes several sandboxes.
func (s Sandboxes) many(ctx context.Context, of call) iter.Seq2[CreateResult, error] {
	return func(yield func(CreateResult, error) bool) {
		lines, err := s.c.lines(ctx, of)
		if err != nil {
			yield(CreateResult{}, err)
			return
		}
		defer func() { _ = lines.close() }()
		for {
			var m api.CreateSandboxesMessage
			if err := lines.next(&m); err != nil {
				yield(CreateResult{}, err)
				return
			}
			var r CreateResult
			if m.Index != nil {
				r.Index = *m.Index
			}
			switch m.Type {
			case api.CreateSandboxesMessageTypeKeepalive:
				continue
			case api.CreateSandboxesMessageTypeEnded:
				return
			case api.CreateSandboxesMessageTypeError:
				yield(CreateResult{}, fromAPI(m.Error))
				return
			case api.CreateSandboxesMessageTypeCreated:
				r.Sandbox = m.Sandbox
			case api.CreateSandboxesMessageTypeFailed:
				r.Err = fromAPI(m.Error)
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Fork makes new sandboxes of the files that one has at one moment, in any state in which it has files, and returns them when they all run.
// If it fails, or ctx ends before, there is none of them.
func (s Sandboxes) Fork(ctx context.Context, ref string, req ForkSandboxRequest) (list []Sandbox, err error) {
	p, err := path("v1", "sandboxes", ref, "forks")
	if err != nil {
		return nil, err
	}
	for r, err := range s.many(ctx, call{method: http.MethodPost, path: p, in: req, once: true, key: s.key}) {
		if err == nil {
			err = r.Err
		}
		if err != nil {
			return nil, err
		}
		list = append(list, r.Sandbox)
	}
	return list, nil
}

// Get returns a sandbox by id or name.
func (s Sandboxes) Get(ctx context.Context, ref string) (Sandbox, error) {
	var out Sandbox
	return out, s.call(ctx, http.MethodGet, ref, "", nil, &out)
}

// Update changes a sandbox.
func (s Sandboxes) Update(ctx context.Context, ref string, req UpdateSandboxRequest) (Sandbox, error) {
	var out Sandbox
	return out, s.call(ctx, http.MethodPatch, ref, "", req, &out)
}

// Delete deletes a sandbox in any state.
func (s Sandboxes) Delete(ctx context.Context, ref string) error {
	return s.call(ctx, http.MethodDelete, ref, "", nil, nil)
}

// Stop ends the processes of a sandbox and keeps its files. It returns when that is done.
func (s Sandboxes) Stop(ctx context.Context, ref string, o StopOptions) (Sandbox, error) {
	var req api.StopSandboxRequest
	if o.Grace != nil {
		grace := o.Grace.Seconds()
		req.GraceSeconds = &grace
	}
	var out Sandbox
	return out, s.call(ctx, http.MethodPost, ref, "/stop", req, &out)
}

// Wake starts a stopped sandbox on the files that it has. It returns when processes can be started in it.
func (s Sandboxes) Wake(ctx context.Context, ref string) (Sandbox, error) {
	var out Sandbox
	return out, s.call(ctx, http.MethodPost, ref, "/wake", nil, &out)
}

// DeleteWithCheckpoints deletes a sandbox and all of its checkpoints.
func (s Sandboxes) DeleteWithCheckpoints(ctx context.Context, ref string) error {
	p, err := path("v1", "sandboxes", ref)
	if err != nil {
		return err
	}
	return s.c.do(ctx, call{method: http.MethodDelete, path: p, query: url.Values{"checkpoints": {"true"}}}, nil)
}

// Restore puts the files of one of a sandbox's checkpoints in the place of those that it has, and starts it on them. It returns when
// processes can be started in it. With WithKey a repeat returns the sandbox as it is by then.
func (s Sandboxes) Restore(ctx context.Context, ref string, req RestoreSandboxRequest) (RestoredSandbox, error) {
	return s.again(ctx, ref, "restore", req)
}

// Reset puts a sandbox's files back to what it was made from, as Restore does.
func (s Sandboxes) Reset(ctx context.Context, ref string, req ResetSandboxRequest) (RestoredSandbox, error) {
	return s.again(ctx, ref, "reset", req)
}

func (s Sandboxes) again(ctx context.Context, ref, verb string, req any) (out RestoredSandbox, err error) {
	p, err := path("v1", "sandboxes", ref, verb)
	if err != nil {
		return out, err
	}
	return out, s.c.do(ctx, call{method: http.MethodPost, path: p, in: req, once: true, key: s.key}, &out)
}

// Metrics returns what a running sandbox uses.
func (s Sandboxes) Metrics(ctx context.Context, ref string) (SandboxMetrics, error) {
	var out SandboxMetrics
	return out, s.call(ctx, http.MethodGet, ref, "/metrics", nil, &out)
}

// Why tells why a sandbox is as it is: who uses it, which rules come next, what it takes and what would be lost. Asking is no use of it.
func (s Sandboxes) Why(ctx context.Context, ref string) (SandboxWhy, error) {
	var out SandboxWhy
	return out, s.call(ctx, http.MethodGet, ref, "/why", nil, &out)
}

func (s Sandboxes) call(ctx context.Context, method, ref, rest string, in, out any) error {
	p, err := path("v1", "sandboxes", ref)
	if err != nil {
		return err
	}
	return s.c.do(ctx, call{method: method, path: p + rest, in: in}, out)
}

// List returns the sandboxes that o selects, newest first unless it says otherwise, and fetches pages as they are needed. After an error it ends.
func (s Sandboxes) List(ctx context.Context, o ListSandboxesOptions) iter.Seq2[Sandbox, error] {
	q := url.Values{}
	for _, state := range o.States {
		q.Add("state", string(state))
	}
	for key, value := range o.Labels {
		q.Add("label", key+"="+value)
	}
	if o.Template != "" {
		q.Set("template", o.Template)
	}
	if !o.StartedAfter.IsZero() {
		q.Set("started_after", o.StartedAfter.Format(time.RFC3339Nano))
	}
	if o.OldestFirst {
		q.Set("order", "oldest")
	}
	if o.Deleted {
		q.Set("deleted", "true")
	}
	return pages(func(cursor string) ([]Sandbox, string, error) {
		var page api.SandboxList
		err := s.c.do(ctx, call{method: http.MethodGet, path: "/v1/sandboxes", query: withCursor(q, cursor)}, &page)
		return page.Sandboxes, page.NextCursor, err
	})
}

// pageSize is how many records a list fetches at a time.
const pageSize = 200

// withCursor returns q with page size and cursor.
func withCursor(q url.Values, cursor string) url.Values {
	out := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for key, values := range q {
		out[key] = values
	}
	if cursor != "" {
		out.Set("cursor", cursor)
	}
	return out
}

// pages makes one sequence of a paged list.
func pages[T any](fetch func(cursor string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		for cursor := ""; ; {
			page, next, err := fetch(cursor)
			if err != nil {
				yield(zero, err)
				return
			}
			for _, item := range page {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			cursor = next
		}
	}
}
