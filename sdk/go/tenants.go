package shoal

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"shoal/api"
)

// Tenants makes, lists, changes and deletes tenants. Its calls take the operator's key.
type Tenants struct{ c *Client }

// Tenants returns the calls on tenants.
func (c *Client) Tenants() Tenants { return Tenants{c} }

// Create makes a tenant. It has no key yet: make one with a client whose Tenant is the new one's id.
func (t Tenants) Create(ctx context.Context, req CreateTenantRequest) (Tenant, error) {
	var out Tenant
	return out, t.c.do(ctx, call{method: http.MethodPost, path: "/v1/tenants", in: req}, &out)
}

// List returns all tenants, newest first. After an error it ends.
func (t Tenants) List(ctx context.Context) iter.Seq2[Tenant, error] {
	return pages(func(cursor string) ([]Tenant, string, error) {
		var page api.TenantList
		err := t.c.do(ctx, call{method: http.MethodGet, path: "/v1/tenants", query: withCursor(nil, cursor)}, &page)
		return page.Tenants, page.NextCursor, err
	})
}

// Get returns a tenant by id or name, with what it may have and what it has.
func (t Tenants) Get(ctx context.Context, ref string) (Tenant, error) {
	p, err := path("v1", "tenants", ref)
	if err != nil {
		return Tenant{}, err
	}
	var out Tenant
	return out, t.c.do(ctx, call{method: http.MethodGet, path: p}, &out)
}

// Update changes a tenant and returns it as it is then.
func (t Tenants) Update(ctx context.Context, ref string, req UpdateTenantRequest) (Tenant, error) {
	p, err := path("v1", "tenants", ref)
	if err != nil {
		return Tenant{}, err
	}
	var out Tenant
	return out, t.c.do(ctx, call{method: http.MethodPatch, path: p, in: req}, &out)
}

// Delete deletes a tenant with its keys, templates and events. One that has sandboxes is only deleted with force, and they with it.
func (t Tenants) Delete(ctx context.Context, ref string, force bool) error {
	p, err := path("v1", "tenants", ref)
	if err != nil {
		return err
	}
	var query url.Values
	if force {
		query = url.Values{"force": {"true"}}
	}
	return t.c.do(ctx, call{method: http.MethodDelete, path: p, query: query}, nil)
}

// Quota returns the caller's own tenant, with what it may have and what it has.
func (c *Client) Quota(ctx context.Context) (Tenant, error) {
	var out Tenant
	return out, c.do(ctx, call{method: http.MethodGet, path: "/v1/quota"}, &out)
}

// AuditOptions select entries of the audit.
type AuditOptions struct {
	// Actor is the id of the key that did it; Failed selects what was refused or failed.
	Actor  string
	Failed bool
}

// Audit returns who did what in the tenant, newest first. After an error it ends.
func (c *Client) Audit(ctx context.Context, o AuditOptions) iter.Seq2[AuditEntry, error] {
	query := url.Values{}
	if o.Actor != "" {
		query.Set("actor", o.Actor)
	}
	if o.Failed {
		query.Set("failed", "true")
	}
	return pages(func(cursor string) ([]AuditEntry, string, error) {
		var page api.AuditList
		err := c.do(ctx, call{method: http.MethodGet, path: "/v1/audit", query: withCursor(query, cursor)}, &page)
		return page.Entries, page.NextCursor, err
	})
}
