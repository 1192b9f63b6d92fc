package shoal

import (
	"context"
	"iter"
	"net/http"

	"shoal/api"
)

// Templates finds what sandboxes start from.
type Templates struct{ c *Client }

// Templates returns the calls on templates.
func (c *Client) Templates() Templates { return Templates{c} }

// List returns the templates that may be used, without their package lists. After an error it ends.
func (t Templates) List(ctx context.Context) iter.Seq2[Template, error] {
	return pages(func(cursor string) ([]Template, string, error) {
		var page api.TemplateList
		err := t.c.do(ctx, call{method: http.MethodGet, path: "/v1/templates", query: withCursor(nil, cursor)}, &page)
		return page.Templates, page.NextCursor, err
	})
}

// Get returns a template by id, or by name its newest ready version, with its package list.
func (t Templates) Get(ctx context.Context, ref string) (Template, error) {
	p, err := path("v1", "templates", ref)
	if err != nil {
		return Template{}, err
	}
	var out Template
	return out, t.c.do(ctx, call{method: http.MethodGet, path: p}, &out)
}
