package sqlite

import (
	"database/sql"
	"math"
	"slices"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

const selectMeter = `SELECT sandbox, tenant, name, template, labels, since, awake, memory, kept, milli_vcpus, memory_bytes, kept_bytes,
	ended IS NOT NULL FROM usage_meter `

func scanMeter(r row) (m core.Meter, err error) {
	var since, milli int64
	err = r.Scan(&m.Sandbox, &m.Tenant, &m.Name, &m.Template, jsonOf(&m.Labels), &since, &m.Clocks.Awake, &m.Clocks.Memory, &m.Clocks.Kept,
		&milli, &m.Resources.MemoryBytes, &m.KeptBytes, &m.Ended)
	m.Since, m.Resources.VCPUs = time.UnixMilli(since).UTC(), float64(milli)/1000
	return m, err
}

// Meter returns what counts for a sandbox.
func (r *reader) Meter(id core.SandboxID) (core.Meter, error) {
	return one(r, "no usage of such a sandbox", scanMeter, selectMeter+"WHERE sandbox = ?", id)
}

// OpenMeters returns what has not ended.
func (r *reader) OpenMeters(after core.SandboxID, limit int) ([]core.Meter, error) {
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	return many(r, scanMeter, selectMeter+"WHERE ended IS NULL AND sandbox > ? ORDER BY sandbox LIMIT ?", after, limit)
}

// usageKeys are the columns by which a query tells apart, in their order.
func usageKeys(q store.UsageQuery) (keys []string) {
	for _, k := range []struct {
		name string
		on   bool
	}{{"tenant", q.ByTenant}, {"sandbox", q.BySandbox}, {"label", q.ByLabel != ""}, {"day", q.ByDay}} {
		if k.on {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// key returns the values of some keys of a row.
func usageKey(keys []string, u core.UsageRow) (values []any) {
	for _, k := range keys {
		switch k {
		case "tenant":
			values = append(values, u.Tenant)
		case "sandbox":
			values = append(values, u.Sandbox)
		case "label":
			values = append(values, u.Label)
		case "day":
			values = append(values, u.Day)
		}
	}
	return values
}

// usageSelect is a query in the making. Its arguments have names, since some are used more than once.
type usageSelect struct {
	where string
	args  []any
}

func (s *usageSelect) and(condition string, args ...any) {
	s.where += " AND " + condition
	s.args = append(s.args, args...)
}

// Usage returns a page of what was used.
func (r *reader) Usage(q store.UsageQuery, page store.Page) (list []core.UsageRow, next string, err error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, "", err
	}
	if q.To < q.From || q.To-q.From >= store.MaxUsageDays {
		return nil, "", core.Invalid("to", "usage is asked for 1 to %d days, and the last is not before the first", store.MaxUsageDays)
	}
	keys := usageKeys(q)
	kind := "usage " + strings.Join(keys, ",")
	after, ok, err := parseCursor(kind, page.Cursor)
	if err != nil {
		return nil, "", err
	}
	s := usageSelect{args: []any{
		sql.Named("now", millis(q.Now)), sql.Named("from", q.From), sql.Named("to", q.To), sql.Named("key", q.ByLabel), sql.Named("limit", page.Limit+1),
	}}
	if q.Tenant != "" {
		s.and("tenant = :tenant", sql.Named("tenant", q.Tenant))
	}
	if q.Sandbox != "" {
		s.and("sandbox = :sandbox", sql.Named("sandbox", q.Sandbox))
	}
	begin := core.UsageRow{Tenant: core.TenantID(after.Tenant), Sandbox: core.SandboxID(after.ID), Label: after.Name, Day: core.Day(after.Number)}
	end, more, err := usageBound(r, q, &s, begin, ok, page.Limit)
	if err != nil {
		return nil, "", err
	}
	having := ""
	if ok {
		having = " AND " + s.tuple(keys, ">", "after", begin)
	}
	list, over, err := readPage(r, scanUsage, store.UsageSize, page.Limit, usageQuery(q, keys, s.where, having), s.args...)
	if len(keys) == 0 && len(list) == 1 && list[0].Usage == (core.Usage{}) {
		list = nil // a sum over nothing
	}
	if err != nil || len(keys) == 0 {
		return list, "", err
	}
	switch {
	case over:
		end = list[len(list)-1]
	case !more:
		return list, "", nil
	}
	return list, position{Kind: kind, Tenant: string(end.Tenant), ID: string(end.Sandbox), Name: end.Label, Number: int64(end.Day)}.String(), nil
}

// usageBound bounds a page of many sandboxes to so many of them: without it all would be summed up for every page. It returns
// what comes at the end of a page that is not filled, and whether there is more behind it.
func usageBound(r *reader, q store.UsageQuery, s *usageSelect, begin core.UsageRow, ok bool, limit int) (end core.UsageRow, more bool, err error) {
	if !q.BySandbox || q.Sandbox != "" {
		return end, false, nil
	}
	keys := []string{"tenant", "sandbox"}
	query, args := "SELECT tenant, sandbox FROM usage_meter WHERE 1", []any{}
	if q.Tenant != "" {
		keys = keys[1:] // so that rows are found by it
		query, args, begin.Tenant = query+" AND tenant = ?", append(args, q.Tenant), q.Tenant
	}
	if ok {
		s.and(s.tuple(keys, ">=", "begin", begin))
		query, args = query+" AND (tenant, sandbox) > (?, ?)", append(args, begin.Tenant, begin.Sandbox)
	}
	if !q.ByTenant && q.Tenant == "" {
		return end, false, core.Errorf(core.CodeInvalid, "sandboxes of everybody are told apart by their tenants")
	}
	end, err = one(r, "", func(r row) (u core.UsageRow, err error) {
		err = r.Scan(&u.Tenant, &u.Sandbox)
		return u, err
	}, query+" ORDER BY tenant, sandbox LIMIT 1 OFFSET ?", append(args, limit-1)...)
	if core.IsCode(err, core.CodeNotFound) {
		return end, false, nil
	}
	if err != nil {
		return end, false, err
	}
	s.and(s.tuple(keys, "<=", "end", end))
	// Behind all of its rows, whatever else they are told apart by.
	end.Label, end.Day = "\U0010FFFF", math.MaxInt64
	return end, true, nil
}

// tuple compares columns with a row's.
func (s *usageSelect) tuple(keys []string, compare, prefix string, u core.UsageRow) string {
	var names []string
	for i, v := range usageKey(keys, u) {
		s.args = append(s.args, sql.Named(prefix+keys[i], v))
		names = append(names, ":"+prefix+keys[i])
	}
	return "(" + strings.ReplaceAll(strings.Join(keys, ", "), "label", "coalesce(value, '')") + ") " + compare + " (" + strings.Join(names, ", ") + ")"
}

// usageQuery writes the query: what was counted and what goes on, each summed up, and then together. A label is the column value until it
// is summed up.
func usageQuery(q store.UsageQuery, keys []string, where, having string) string {
	const days = "WITH RECURSIVE days (d) AS (VALUES (:from) UNION ALL SELECT d + 1 FROM days WHERE d < :to)"
	const sinceDays = `, since_days (d) AS (SELECT max(:from, (SELECT min(since) FROM (SELECT since FROM usage_meter WHERE ended IS NULL
		UNION ALL SELECT since FROM template_meter WHERE bytes > 0
		UNION ALL SELECT since FROM checkpoint_meter WHERE bytes > 0)) / 86400000)
		UNION ALL SELECT d + 1 FROM since_days WHERE d < :to)`
	text, join := days+sinceDays, ""
	if q.ByLabel != "" {
		// Written so that SQLite takes it for large, and makes an index of its own for it: each label is read once.
		text += `, who AS MATERIALIZED (SELECT sandbox AS id, (SELECT substr(value, 1, 256) FROM json_each(labels) WHERE key = :key) AS value
			FROM usage_meter WHERE +tenant = +tenant` + strings.ReplaceAll(where, "tenant =", "+tenant =") + ")"
		join = " LEFT JOIN who ON id = sandbox"
	}
	text += ", parts AS (" + summedUp(keys, "days CROSS JOIN usage_day"+join+" WHERE day = d"+where+having) + "), live AS (" +
		summedUp(keys, "("+live(spentSince, where)+" UNION ALL "+live(templateMeter.since(), where)+
			" UNION ALL "+live(checkpointMeter.since(), where)+")"+join+" WHERE 1"+having) +
		"), summed AS (" + strings.ReplaceAll(summedUp(keys, "(SELECT * FROM parts UNION ALL SELECT * FROM live)"), "coalesce(value, '')", "label")
	order := ""
	if len(keys) > 0 {
		order = " ORDER BY " + strings.Join(keys, ", ")
		text += order + " LIMIT :limit"
	}
	if q.BySandbox {
		return text + `) SELECT summed.*, coalesce(m.name, ''), coalesce(m.template, ''), m.labels
			FROM summed LEFT JOIN (SELECT sandbox AS id, name, template, labels FROM usage_meter) m ON m.id = sandbox` + order
	}
	return text + ") SELECT *, '', '', NULL FROM summed" + order
}

// live is a part of a query for what goes on.
func live(spent, where string) string {
	return strings.ReplaceAll(spent, "days CROSS", "since_days CROSS") + where + ") WHERE ms > 0"
}

// summedUp writes the sums of some rows by some keys. What is no key is empty.
func summedUp(keys []string, from string) string {
	text := "SELECT "
	for _, k := range []string{"tenant", "sandbox", "label"} {
		switch {
		case !slices.Contains(keys, k):
			text += "'' AS "
		case k == "label":
			text += "coalesce(value, '') AS "
		}
		text += k + ", "
	}
	if !slices.Contains(keys, "day") {
		text += "0 AS "
	}
	text += "day"
	for c := range strings.FieldsFuncSeq(usageColumns, func(r rune) bool { return strings.ContainsRune(", \n\t", r) }) {
		text += ", coalesce(sum(" + c + "), 0) AS " + c
	}
	text += " FROM " + from
	if len(keys) > 0 {
		text += " GROUP BY " + strings.Join(keys, ", ")
	}
	return text
}

func scanUsage(r row) (u core.UsageRow, err error) {
	err = r.Scan(&u.Tenant, &u.Sandbox, &u.Label, &u.Day,
		&u.AwakeMillis, &u.KeptMillis, &u.VCPUMillis, &u.Memory.Large, &u.Memory.Small, &u.Disk.Large, &u.Disk.Small, &u.MeasuredMillis,
		&u.Execs, &u.ExecMillis, &u.Templates.Large, &u.Templates.Small, &u.Checkpoints.Large, &u.Checkpoints.Small,
		&u.Name, &u.Template, jsonOf(&u.Labels))
	return u, err
}
