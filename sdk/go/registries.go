package shoal

import (
	"context"
	"iter"
	"net/http"

	"shoal/api"
)

// Registries keeps, lists and deletes the logins that the tenant's imports use. No call returns a password.
type Registries struct{ c *Client }

// Registries returns the calls on kept logins.
func (c *Client) Registries() Registries { return Registries{c} }

// Put keeps a login for a registry, in place of the one that was kept for it. The host is written as in the names of images, such as ghcr.io or
// registry.example:5000; docker.io is Docker Hub.
func (r Registries) Put(ctx context.Context, host string, req PutRegistryRequest) (Registry, error) {
	var out Registry
	p, err := path("v1", "registries", host)
	if err != nil {
		return out, err
	}
	return out, r.c.do(ctx, call{method: http.MethodPut, path: p, in: req}, &out)
}

// Get returns the login that is kept for a registry.
func (r Registries) Get(ctx context.Context, host string) (Registry, error) {
	var out Registry
	p, err := path("v1", "registries", host)
	if err != nil {
		return out, err
	}
	return out, r.c.do(ctx, call{method: http.MethodGet, path: p}, &out)
}

// List returns the registries that a login is kept for, by host. After an error it ends.
func (r Registries) List(ctx context.Context) iter.Seq2[Registry, error] {
	return pages(func(cursor string) ([]Registry, string, error) {
		var page api.RegistryList
		err := r.c.do(ctx, call{method: http.MethodGet, path: "/v1/registries", query: withCursor(nil, cursor)}, &page)
		return page.Registries, page.NextCursor, err
	})
}

// Delete keeps a login no longer.
func (r Registries) Delete(ctx context.Context, host string) error {
	p, err := path("v1", "registries", host)
	if err != nil {
		return err
	}
	return r.c.do(ctx, call{method: http.MethodDelete, path: p}, nil)
}
