package sqlite

import (
	"database/sql"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// treeMeter is a table of what tenants keep in trees that are no sandbox's, from a moment on.
type treeMeter string

const (
	templateMeter   treeMeter = "template"
	checkpointMeter treeMeter = "checkpoint"
)

// since is for trees what spentSince is for sandboxes, with the same columns: they count for their tenant and for no sandbox.
func (m treeMeter) since() string {
	text := `SELECT tenant, sandbox, d AS day, 0 AS awake_ms, 0 AS kept_ms, 0 AS vcpu_ms, 0 AS memory_large, 0 AS memory_small,
	0 AS disk_large, 0 AS disk_small, 0 AS measured_ms, 0 AS execs, 0 AS exec_ms`
	for _, of := range []treeMeter{templateMeter, checkpointMeter} {
		if of == m {
			text += ", (bytes / 65536) * ms AS KIND_large, (bytes % 65536) * ms AS KIND_small"
		} else {
			text += ", 0 AS KIND_large, 0 AS KIND_small"
		}
		text = strings.ReplaceAll(text, "KIND", string(of))
	}
	return text + ` FROM (SELECT tenant, '' AS sandbox, bytes, d, min(:now, (d + 1) * 86400000) - max(since, d * 86400000) AS ms
		FROM days CROSS JOIN ` + string(m) + "_meter WHERE bytes > 0 "
}

// fold adds what a tenant's trees have kept until a moment to its rows. The meter still says since when.
func (m treeMeter) fold(w *writer, tenant core.TenantID, until int64) error {
	_, err := w.change("count trees", strings.ReplaceAll(`WITH days (d) AS (
			SELECT max(since, :now - :most * 86400000) / 86400000 FROM KIND_meter WHERE tenant = :tenant AND since < :now
			UNION ALL SELECT d + 1 FROM days WHERE (d + 1) * 86400000 < :now)`, "KIND", string(m))+`
		INSERT INTO usage_day (tenant, sandbox, day, `+usageColumns+") "+
		m.since()+"AND tenant = :tenant) WHERE ms > 0"+addUsage,
		sql.Named("now", until), sql.Named("most", store.MaxUsageDays), sql.Named("tenant", tenant))
	return err
}

// set counts what a tenant's trees have kept until a moment, and has them keep what an expression says from then on. ?1 is the moment, ?2 the
// tenant; others follow.
func (m treeMeter) set(w *writer, tenant core.TenantID, at time.Time, bytes string, args ...any) error {
	if tenant == "" || at.IsZero() {
		return core.Errorf(core.CodeInvalid, "trees are metered for a tenant and from a time on")
	}
	if err := m.fold(w, tenant, millis(at)); err != nil {
		return err
	}
	_, err := w.change("set what trees keep", "INSERT INTO "+string(m)+"_meter (tenant, since, bytes) VALUES (?2, ?1, "+bytes+`)
		ON CONFLICT (tenant) DO UPDATE SET since = `+goOn+", bytes = excluded.bytes", append([]any{millis(at), tenant}, args...)...)
	return err
}

// MeterTemplates counts what a tenant's own templates kept until a moment, and those that are ready now from then on.
func (w *writer) MeterTemplates(tenant core.TenantID, at time.Time) error {
	return templateMeter.set(w, tenant, at, `(SELECT CAST(min(total(own), 9e18) AS INTEGER) FROM
		(SELECT max(own_bytes) AS own FROM template WHERE tenant = ?2 AND state = 'ready' GROUP BY CASE digest WHEN '' THEN id ELSE digest END))`)
}

// MeterCheckpoints counts what a tenant's checkpoints kept until a moment, and so many bytes from then on.
func (w checkpointWriter) MeterCheckpoints(tenant core.TenantID, bytes int64, at time.Time) error {
	return checkpointMeter.set(w.in, tenant, at, "max(?3, 0)", bytes)
}

// RollTrees counts until a moment for the tenants of whom nothing was counted on its day yet.
func (w *writer) RollTrees(at time.Time) error {
	for _, m := range []treeMeter{templateMeter, checkpointMeter} {
		tenants, err := many(&w.reader, func(r row) (t core.TenantID, err error) {
			err = r.Scan(&t)
			return t, err
		}, "SELECT tenant FROM "+string(m)+"_meter WHERE bytes > 0 AND since < ?", core.DayOf(at).Start().UnixMilli())
		if err != nil {
			return err
		}
		for _, t := range tenants {
			if err := m.fold(w, t, millis(at)); err != nil {
				return err
			}
			if _, err := w.change("count trees", "UPDATE "+string(m)+"_meter SET since = "+goOn+" WHERE tenant = ?2", millis(at), t); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckpointOrigins returns the origins of every tenant's checkpoints.
func (r checkpointReader) CheckpointOrigins() ([]store.CheckpointOrigin, error) {
	return many(r.in, func(r row) (o store.CheckpointOrigin, err error) {
		err = r.Scan(&o.Tenant, &o.Sandbox, &o.Origin)
		return o, err
	}, "SELECT DISTINCT tenant, sandbox, origin FROM checkpoint WHERE state <> 'deleting' AND origin <> '' ORDER BY tenant, sandbox, origin")
}

// CheckpointBytes returns what each tenant's checkpoints keep.
func (r checkpointReader) CheckpointBytes() (map[core.TenantID]int64, error) {
	bytes := map[core.TenantID]int64{}
	_, err := many(r.in, func(r row) (t core.TenantID, err error) {
		var n int64
		err = r.Scan(&t, &n)
		bytes[t] = n
		return t, err
	}, "SELECT tenant, bytes FROM checkpoint_meter WHERE bytes > 0")
	return bytes, err
}
