package sqlite

import (
	"strings"

	"shoal/internal/core"
	"shoal/internal/store"
)

const eventColumns = "tenant, seq, sandbox, type, at, actor_kind, actor_id, data"

// FindEvents returns a tenant's events that a filter selects. Each part of it but labels is looked up in an index: of several parts
// in that of the sandbox, else the actor, else the types.
func (r *reader) FindEvents(tenant core.TenantID, f store.EventFilter, after int64, limit int) (page store.EventPage, err error) {
	if err := checkLimit(limit); err != nil {
		return page, err
	}
	switch {
	case after < 0:
		return page, core.Invalid("after", "a sequence number is not negative")
	case len(f.Types) > store.MaxEventTypes:
		return page, core.Invalid("type", "a filter has at most %d types", store.MaxEventTypes)
	case len(f.Labels) > maxFilterLabels:
		return page, core.Invalid("label", "a filter has at most %d labels", maxFilterLabels)
	}
	// Without an event yet, the first one that will be kept is number 1. Each end is asked for by itself: both at once would be
	// looked for among all.
	err = r.tx.QueryRowContext(r.ctx, `SELECT coalesce((SELECT min(seq) FROM event WHERE tenant = ?), 1),
		coalesce((SELECT max(seq) FROM event WHERE tenant = ?), 0)`, tenant, tenant).Scan(&page.Oldest, &page.Through)
	if err != nil {
		return page, translate(r.ctx, err, "read the events' ends")
	}
	page.Through = max(page.Through, after)
	c := eventChoice{where: "tenant = ? AND seq > ?", args: []any{tenant, after}}
	if none, err := r.between(&c, tenant, f, after); none || err != nil {
		return page, err
	}
	query, args := c.query(f, limit+1)
	list, more, err := readPage(r, scanEvent, store.EventSize, limit, query, args...)
	if page.Events = list; more {
		page.Through = list[len(list)-1].Seq
	}
	return page, err
}

// eventChoice is a condition in the making.
type eventChoice struct {
	where string
	args  []any
}

func (c *eventChoice) and(condition string, args ...any) {
	c.where += " AND " + condition
	c.args = append(c.args, args...)
}

// between turns moments into sequence numbers, from the index of moments alone. Events are nearly in the order of their moments, and
// so it is a range; where they are not, the moments themselves decide. none says that there can be no event.
func (r *reader) between(c *eventChoice, tenant core.TenantID, f store.EventFilter, after int64) (none bool, err error) {
	bound := func(query string, args ...any) (n int64, ok bool, err error) {
		n, err = one(r, "", scanNumber, query, args...)
		return n, n != 0, err
	}
	if !f.Since.IsZero() {
		c.and("+at >= ?", nearest(f.Since))
	}
	if !f.Since.IsZero() && after == 0 { // whoever goes on is behind it
		first, ok, err := bound("SELECT coalesce(min(seq), 0) FROM event INDEXED BY event_by_time WHERE tenant = ? AND at >= ?", tenant, nearest(f.Since))
		if err != nil || !ok {
			return true, err
		}
		c.and("seq >= ?", first)
	}
	if !f.Until.IsZero() {
		last, ok, err := bound("SELECT coalesce(max(seq), 0) FROM event INDEXED BY event_by_time WHERE tenant = ? AND at < ? AND seq > ?", tenant, nearest(f.Until), after)
		if err != nil || !ok {
			return true, err
		}
		c.and("seq <= ? AND +at < ?", last, nearest(f.Until))
	}
	return false, nil
}

// query writes the query of a page.
func (c *eventChoice) query(f store.EventFilter, limit int) (string, []any) {
	for k, v := range f.Labels {
		// Those that a sandbox has, or had last: its usage remembers them when its record is forgotten.
		c.and(`sandbox <> '' AND (EXISTS (SELECT 1 FROM sandbox s, json_each(s.labels) WHERE s.id = event.sandbox AND key = ? AND value = ?)
			OR EXISTS (SELECT 1 FROM usage_meter m, json_each(m.labels) WHERE m.sandbox = event.sandbox AND key = ? AND value = ?
				AND NOT EXISTS (SELECT 1 FROM sandbox s WHERE s.id = event.sandbox)))`, k, v, k, v)
	}
	// Which index is said, since SQLite would rather look at all of the tenant's events in their order.
	index := ""
	if f.Actor != "" {
		index = "INDEXED BY event_by_actor "
		c.and("actor_id = ?", f.Actor)
	}
	if f.Sandbox != "" {
		index = "INDEXED BY event_by_sandbox "
		c.and("sandbox = ? AND sandbox <> ''", f.Sandbox)
	}
	if len(f.Types) > 0 && index == "" {
		return c.byType(f.Types, limit)
	}
	if len(f.Types) > 0 {
		var types []any
		for _, t := range f.Types {
			types = append(types, t)
		}
		c.and("type IN (?"+strings.Repeat(", ?", len(types)-1)+")", types...)
	}
	return "SELECT " + eventColumns + " FROM event " + index + "WHERE " + c.where + " ORDER BY seq LIMIT ?", append(c.args, limit)
}

// byType takes the first of each type, and of these the first.
func (c *eventChoice) byType(types []core.EventType, limit int) (string, []any) {
	var parts []string
	var args []any
	for _, t := range types {
		parts = append(parts, "SELECT * FROM (SELECT "+eventColumns+" FROM event INDEXED BY event_by_type WHERE "+c.where+" AND type = ? ORDER BY seq LIMIT ?)")
		args = append(append(append(args, c.args...), t), limit)
	}
	return strings.Join(parts, " UNION ALL ") + " ORDER BY seq LIMIT ?", append(args, limit)
}
