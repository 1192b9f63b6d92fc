package e2b

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

const (
	// maxPage is the greatest page of a list, and the default.
	maxPage = 100
	// wholePage is the page in which a list without pages is gathered.
	wholePage = 1000
)

// listV1 is the list without pages, as older clients know it: everything that runs.
func (a *adapter) listV1(w http.ResponseWriter, r request) error {
	labels, err := parseMetadata(r.query.Get("metadata"))
	if err != nil {
		return err
	}
	out := []listedSandbox{}
	page := store.Page{Limit: wholePage}
	for {
		list, next, err := a.Control.ListSandboxes(r.Context(), r.principal, store.SandboxFilter{States: alive(), Labels: labels}, page)
		if err != nil {
			return asE2B(err)
		}
		for _, sb := range list {
			out = append(out, listed(sb))
		}
		if page.Cursor = next; next == "" {
			return writeJSON(w, http.StatusOK, out)
		}
	}
}

// alive are the states of sandboxes that clients see.
func alive() []core.State { return []core.State{core.StateRunning} }

// listV2 is the list with filters and pages.
func (a *adapter) listV2(w http.ResponseWriter, r request) error {
	filter, page, none, err := a.listQuery(r.query)
	if err != nil {
		return err
	}
	out := []listedSandbox{}
	if none {
		return writeJSON(w, http.StatusOK, out)
	}
	list, next, err := a.Control.ListSandboxes(r.Context(), r.principal, filter, page)
	if err != nil {
		return asE2B(err)
	}
	for _, sb := range list {
		out = append(out, listed(sb))
	}
	if next != "" {
		w.Header().Set("X-Next-Token", next)
	}
	return writeJSON(w, http.StatusOK, out)
}

// listQuery reads the filters of a list. none says that nothing can match: it asks for paused sandboxes only, and there are none.
func (a *adapter) listQuery(q url.Values) (f store.SandboxFilter, page store.Page, none bool, err error) {
	f.States, page.Cursor = alive(), q.Get("nextToken")
	if f.Labels, err = parseMetadata(q.Get("metadata")); err != nil {
		return f, page, false, err
	}
	wanted := strings.FieldsFunc(strings.Join(q["state"], ","), func(c rune) bool { return c == ',' })
	none = len(wanted) > 0
	for _, s := range wanted {
		switch s {
		case "running":
			none = false
		case "paused":
		default:
			return f, page, false, core.Invalid("state", "state: %q is neither running nor paused", clip(s))
		}
	}
	if text := q.Get("startedAfter"); text != "" {
		if f.StartedAfter, err = time.Parse(time.RFC3339, text); err != nil {
			return f, page, false, core.Invalid("startedAfter", "startedAfter is a time such as 2026-01-02T15:04:05Z")
		}
	}
	if name := q.Get("template"); name != "" {
		if strings.Contains(name, ":") {
			return f, page, false, core.Invalid("template", "template: name a template without a tag")
		}
		f.Template = a.template(name)
	}
	switch order := q.Get("order"); order {
	case "", "desc":
	case "asc":
		f.OldestFirst = true
	default:
		return f, page, false, core.Invalid("order", "order: %q is neither asc nor desc", clip(order))
	}
	page.Limit, err = limitOf(q)
	return f, page, none, err
}

// limitOf is how many things a page has.
func limitOf(q url.Values) (int, error) {
	text := q.Get("limit")
	if text == "" {
		return maxPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPage {
		return 0, core.Invalid("limit", "limit is 1 to %d", maxPage)
	}
	return n, nil
}

// pageOf cuts a page out of things that are all at hand. Its token is how many came before.
func pageOf[T any](w http.ResponseWriter, q url.Values, all []T) ([]T, error) {
	limit, err := limitOf(q)
	if err != nil {
		return nil, err
	}
	from := 0
	if text := q.Get("nextToken"); text != "" {
		if from, err = strconv.Atoi(text); err != nil || from < 0 {
			return nil, core.Invalid("nextToken", "nextToken is not one of a page before")
		}
	}
	from = min(from, len(all))
	to := min(from+limit, len(all))
	if to < len(all) {
		w.Header().Set("X-Next-Token", strconv.Itoa(to))
	}
	return all[from:to], nil
}
