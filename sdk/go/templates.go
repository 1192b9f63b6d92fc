package shoal

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"

	"shoal/api"
)

// Templates finds, makes and deletes what sandboxes start from. A template is named by its name, which means the newest version that is
// ready, by name@3, name:tag, id or digest.
type Templates struct {
	c *Client
	// key is what WithKey was given.
	key string
}

// Templates returns the calls on templates.
func (c *Client) Templates() Templates { return Templates{c: c} }

// WithKey returns the same calls with an Idempotency-Key for Create: see Sandboxes.WithKey.
func (t Templates) WithKey(key string) Templates {
	t.key = key
	return t
}

// TemplatesOptions selects templates. A zero field selects nothing out.
type TemplatesOptions struct {
	// Name selects the versions of one name.
	Name string
	// Own leaves out what came with the server.
	Own bool
}

// List returns the templates that may be used, without their package lists. After an error it ends.
func (t Templates) List(ctx context.Context) iter.Seq2[Template, error] {
	return t.Find(ctx, TemplatesOptions{})
}

// Find is List for some of them.
func (t Templates) Find(ctx context.Context, o TemplatesOptions) iter.Seq2[Template, error] {
	q := url.Values{}
	if o.Name != "" {
		q.Set("name", o.Name)
	}
	if o.Own {
		q.Set("own", "true")
	}
	return pages(func(cursor string) ([]Template, string, error) {
		var page api.TemplateList
		err := t.c.do(ctx, call{method: http.MethodGet, path: "/v1/templates", query: withCursor(q, cursor)}, &page)
		return page.Templates, page.NextCursor, err
	})
}

// Get returns a template with its package list.
func (t Templates) Get(ctx context.Context, ref string) (Template, error) {
	p, err := path("v1", "templates", ref)
	if err != nil {
		return Template{}, err
	}
	var out Template
	return out, t.c.do(ctx, call{method: http.MethodGet, path: p}, &out)
}

// Create begins to make the next version of a template, and returns the operation that does it: see Operations.Wait. If no
// reply comes it is tried again, which makes no second one.
func (t Templates) Create(ctx context.Context, req CreateTemplateRequest) (Operation, error) {
	var out Operation
	return out, t.c.do(ctx, call{method: http.MethodPost, path: "/v1/templates", in: req, once: true, key: t.key}, &out)
}

// Delete deletes one version, or with a bare name all its versions.
func (t Templates) Delete(ctx context.Context, ref string) error {
	p, err := path("v1", "templates", ref)
	if err != nil {
		return err
	}
	return t.c.do(ctx, call{method: http.MethodDelete, path: p}, nil)
}

// Tag makes a tag point to a version, wherever it pointed before.
func (t Templates) Tag(ctx context.Context, ref, tag string) (Template, error) {
	p, err := path("v1", "templates", ref, "tags", tag)
	if err != nil {
		return Template{}, err
	}
	var out Template
	return out, t.c.do(ctx, call{method: http.MethodPut, path: p}, &out)
}

// Untag takes a tag of a name away.
func (t Templates) Untag(ctx context.Context, name, tag string) error {
	p, err := path("v1", "templates", name, "tags", tag)
	if err != nil {
		return err
	}
	return t.c.do(ctx, call{method: http.MethodDelete, path: p}, nil)
}

// Upload sends an archive for one use as CreateTemplateRequest.FromUpload: a tar in the OCI layout or of `docker save`. It can't be
// repeated, as r is read once.
func (t Templates) Upload(ctx context.Context, r io.Reader) (Upload, error) {
	var out Upload
	return out, t.c.do(ctx, call{
		method: http.MethodPost, path: "/v1/uploads", body: r, header: http.Header{"Content-Type": {"application/octet-stream"}},
	}, &out)
}

// DeleteUpload removes an upload that was not used.
func (t Templates) DeleteUpload(ctx context.Context, id string) error {
	p, err := path("v1", "uploads", id)
	if err != nil {
		return err
	}
	return t.c.do(ctx, call{method: http.MethodDelete, path: p}, nil)
}
