package shoal

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"shoal/api"
)

// UsageRow is what was used by those who have in common what the row says of them.
type UsageRow = api.UsageRow

// Usage tells what was used.
type Usage struct{ c *Client }

// Usage returns the calls on usage.
func (c *Client) Usage() Usage { return Usage{c} }

// UsageOptions says what to tell of.
type UsageOptions struct {
	// From and To are the first and the last day of UTC, such as 2026-11-30; empty means the last 30 days.
	From, To string
	// By is what is told apart: "tenant", "sandbox", "day", and of the labels one, "label:KEY".
	By []string
	// Sandbox selects one sandbox, by id or name; empty means all.
	Sandbox string
}

// List returns rows of usage in the order of tenant, sandbox, label and day; without By a single one, or none if nothing was used. After
// an error it ends.
func (u Usage) List(ctx context.Context, o UsageOptions) iter.Seq2[UsageRow, error] {
	q := url.Values{}
	for name, v := range map[string]string{"from": o.From, "to": o.To, "sandbox": o.Sandbox} {
		if v != "" {
			q.Set(name, v)
		}
	}
	for _, by := range o.By {
		q.Add("by", by)
	}
	return pages(func(cursor string) ([]UsageRow, string, error) {
		var page api.UsageList
		err := u.c.do(ctx, call{method: http.MethodGet, path: "/v1/usage", query: withCursor(q, cursor)}, &page)
		return page.Usage, page.NextCursor, err
	})
}
