package shoal

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"shoal/api"
)

// Checkpoints makes, finds, changes and deletes saved states of sandboxes.
type Checkpoints struct {
	c *Client
	// key is what WithKey was given.
	key string
}

// Checkpoints returns the calls on checkpoints.
func (c *Client) Checkpoints() Checkpoints { return Checkpoints{c: c} }

// WithKey returns the same calls with an Idempotency-Key for Create: see Sandboxes.WithKey.
func (k Checkpoints) WithKey(key string) Checkpoints {
	k.key = key
	return k
}

// Create saves the files of a sandbox as they are at one moment.
func (k Checkpoints) Create(ctx context.Context, sandbox string, req CreateCheckpointRequest) (Checkpoint, error) {
	var out Checkpoint
	p, err := path("v1", "sandboxes", sandbox, "checkpoints")
	if err != nil {
		return out, err
	}
	return out, k.c.do(ctx, call{method: http.MethodPost, path: p, in: req, once: true, key: k.key}, &out)
}

// CheckpointsOptions selects checkpoints. A zero field selects nothing out.
type CheckpointsOptions struct {
	// Sandbox is the one that they were made of: by id or name, or by id one that is deleted.
	Sandbox string
	// Causes are such as "call".
	Causes []string
}

// List returns the tenant's checkpoints, newest first. After an error it ends.
func (k Checkpoints) List(ctx context.Context, o CheckpointsOptions) iter.Seq2[Checkpoint, error] {
	q := url.Values{}
	if o.Sandbox != "" {
		q.Set("sandbox", o.Sandbox)
	}
	for _, c := range o.Causes {
		q.Add("cause", c)
	}
	return pages(func(cursor string) ([]Checkpoint, string, error) {
		var page api.CheckpointList
		err := k.c.do(ctx, call{method: http.MethodGet, path: "/v1/checkpoints", query: withCursor(q, cursor)}, &page)
		return page.Checkpoints, page.NextCursor, err
	})
}

// Get returns a checkpoint.
func (k Checkpoints) Get(ctx context.Context, id string) (Checkpoint, error) {
	var out Checkpoint
	return out, k.call(ctx, http.MethodGet, id, nil, &out)
}

// Update changes what is said of a checkpoint.
func (k Checkpoints) Update(ctx context.Context, id string, req UpdateCheckpointRequest) (Checkpoint, error) {
	var out Checkpoint
	return out, k.call(ctx, http.MethodPatch, id, req, &out)
}

// Delete deletes a checkpoint, also one in the middle: no other one and no sandbox loses anything.
func (k Checkpoints) Delete(ctx context.Context, id string) error {
	return k.call(ctx, http.MethodDelete, id, nil, nil)
}

func (k Checkpoints) call(ctx context.Context, method, id string, in, out any) error {
	p, err := path("v1", "checkpoints", id)
	if err != nil {
		return err
	}
	return k.c.do(ctx, call{method: method, path: p, in: in}, out)
}
