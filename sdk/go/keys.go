package shoal

import (
	"context"
	"iter"
	"net/http"

	"shoal/api"
)

// Keys makes, lists and deletes API keys. Its calls take the scope keys.
type Keys struct{ c *Client }

// Keys returns the calls on API keys.
func (c *Client) Keys() Keys { return Keys{c} }

// Create makes a key. Its Secret is in what is returned here and nowhere else. It is not tried again after an error: a key
// whose secret was lost with the connection can be found by its name, and deleted.
func (k Keys) Create(ctx context.Context, req CreateKeyRequest) (Key, error) {
	var out Key
	return out, k.c.do(ctx, call{method: http.MethodPost, path: "/v1/keys", in: req}, &out)
}

// List returns the tenant's keys, newest first, without their secrets. After an error it ends.
func (k Keys) List(ctx context.Context) iter.Seq2[Key, error] {
	return pages(func(cursor string) ([]Key, string, error) {
		var page api.KeyList
		err := k.c.do(ctx, call{method: http.MethodGet, path: "/v1/keys", query: withCursor(nil, cursor)}, &page)
		return page.Keys, page.NextCursor, err
	})
}

// Delete deletes a key by its id, with all that descend from it: no call is made with them any more, and those under way end.
func (k Keys) Delete(ctx context.Context, id string) error {
	p, err := path("v1", "keys", id)
	if err != nil {
		return err
	}
	return k.c.do(ctx, call{method: http.MethodDelete, path: p}, nil)
}
