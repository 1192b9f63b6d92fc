package sqlite

import (
	"database/sql"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// templatesSince is for templates what spentSince is for sandboxes, with the same columns: they count for their tenant and for no sandbox.
const templatesSince = `SELECT tenant, sandbox, d AS day, 0 AS awake_ms, 0 AS kept_ms, 0 AS vcpu_ms, 0 AS memory_large, 0 AS memory_small,
	0 AS disk_large, 0 AS disk_small, 0 AS measured_ms, 0 AS execs, 0 AS exec_ms,
	(bytes / 65536) * ms AS template_large, (bytes % 65536) * ms AS template_small
	FROM (SELECT tenant, '' AS sandbox, bytes, d, min(:now, (d + 1) * 86400000) - max(since, d * 86400000) AS ms
		FROM days CROSS JOIN template_meter WHERE bytes > 0 `

// MeterTemplates counts what a tenant's own templates kept until a moment, and those that are ready now from then on.
func (w *writer) MeterTemplates(tenant core.TenantID, at time.Time) error {
	if tenant == "" || at.IsZero() {
		return core.Errorf(core.CodeInvalid, "templates are metered for a tenant and from a time on")
	}
	if err := foldTemplates(w, tenant, millis(at)); err != nil {
		return err
	}
	_, err := w.change("set what templates keep", `INSERT INTO template_meter (tenant, since, bytes) VALUES (?2, ?1,
			(SELECT CAST(min(total(own), 9e18) AS INTEGER) FROM (SELECT max(own_bytes) AS own FROM template WHERE tenant = ?2 AND state = 'ready'
				GROUP BY CASE digest WHEN '' THEN id ELSE digest END)))
		ON CONFLICT (tenant) DO UPDATE SET since = `+goOn+", bytes = excluded.bytes", millis(at), tenant)
	return err
}

// RollTemplates counts until a moment for the tenants of whom nothing was counted on its day yet.
func (w *writer) RollTemplates(at time.Time) error {
	tenants, err := many(&w.reader, func(r row) (t core.TenantID, err error) {
		err = r.Scan(&t)
		return t, err
	}, "SELECT tenant FROM template_meter WHERE bytes > 0 AND since < ?", core.DayOf(at).Start().UnixMilli())
	if err != nil {
		return err
	}
	for _, t := range tenants {
		if err := foldTemplates(w, t, millis(at)); err != nil {
			return err
		}
		if _, err := w.change("count templates", "UPDATE template_meter SET since = "+goOn+" WHERE tenant = ?2", millis(at), t); err != nil {
			return err
		}
	}
	return nil
}

// foldTemplates adds what a tenant's templates have kept until a moment to its rows. The meter still says since when.
func foldTemplates(w *writer, tenant core.TenantID, until int64) error {
	_, err := w.change("count templates", `WITH days (d) AS (
			SELECT max(since, :now - :most * 86400000) / 86400000 FROM template_meter WHERE tenant = :tenant AND since < :now
			UNION ALL SELECT d + 1 FROM days WHERE (d + 1) * 86400000 < :now)
		INSERT INTO usage_day (tenant, sandbox, day, `+usageColumns+") "+
		templatesSince+"AND tenant = :tenant) WHERE ms > 0"+addUsage,
		sql.Named("now", until), sql.Named("most", store.MaxUsageDays), sql.Named("tenant", tenant))
	return err
}
