package sqlite

import (
	"database/sql"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

const dayMillis = 24 * 60 * 60 * 1000

// spentSince is what meters have counted since their rates began, by day: for the days of the table days, until :now. It is
// the only place that multiplies time by rates. The product of bytes and time is kept in two parts.
const spentSince = `SELECT tenant, sandbox, d AS day, awake * ms AS awake_ms, kept * ms AS kept_ms, awake * milli_vcpus * ms AS vcpu_ms,
	memory * (memory_bytes / 65536) * ms AS memory_large, memory * (memory_bytes % 65536) * ms AS memory_small,
	measured * (kept_bytes / 65536) * ms AS disk_large, measured * (kept_bytes % 65536) * ms AS disk_small, measured * ms AS measured_ms,
	0 AS execs, 0 AS exec_ms, 0 AS template_large, 0 AS template_small, 0 AS checkpoint_large, 0 AS checkpoint_small
	FROM (SELECT usage_meter.*, d, kept AND kept_bytes >= 0 AS measured,
		min(:now, (d + 1) * 86400000) - max(since, d * 86400000) AS ms FROM days CROSS JOIN usage_meter WHERE ended IS NULL `

const usageColumns = `awake_ms, kept_ms, vcpu_ms, memory_large, memory_small, disk_large, disk_small, measured_ms, execs, exec_ms, template_large, template_small,
	checkpoint_large, checkpoint_small`

// goOn is from when on a meter counts that is changed at ?1, until when it has counted if that is not before.
const goOn = "CASE WHEN since > ?1 AND since - ?1 <= 60000 THEN since ELSE ?1 END"

// addUsage is the end of an INSERT that adds to what is there.
const addUsage = ` ON CONFLICT (day, tenant, sandbox) DO UPDATE SET awake_ms = awake_ms + excluded.awake_ms,
	kept_ms = kept_ms + excluded.kept_ms, vcpu_ms = vcpu_ms + excluded.vcpu_ms,
	memory_large = memory_large + excluded.memory_large, memory_small = memory_small + excluded.memory_small,
	disk_large = disk_large + excluded.disk_large, disk_small = disk_small + excluded.disk_small,
	measured_ms = measured_ms + excluded.measured_ms, execs = execs + excluded.execs, exec_ms = exec_ms + excluded.exec_ms,
	template_large = template_large + excluded.template_large, template_small = template_small + excluded.template_small,
	checkpoint_large = checkpoint_large + excluded.checkpoint_large, checkpoint_small = checkpoint_small + excluded.checkpoint_small`

// millis is a time as usage counts it. There is none before 1970.
func millis(t time.Time) int64 { return max(t.UnixMilli(), 0) }

// PutMeter counts until m.Since and sets the rates from then on.
func (w *writer) PutMeter(m core.Meter) error {
	if m.Sandbox == "" || m.Tenant == "" || m.Since.IsZero() || m.Resources.VCPUs < 0 || m.Resources.MemoryBytes < 0 {
		return core.Errorf(core.CodeInvalid, "a meter has a sandbox, a tenant, a time and rates that are not negative")
	}
	if err := checkText("labels", m.Labels); err != nil {
		return err
	}
	if err := w.fold(m.Sandbox, millis(m.Since)); err != nil {
		return err
	}
	var ended sql.Null[int64]
	if m.Ended {
		ended = sql.Null[int64]{V: millis(m.Since), Valid: true}
	}
	n, err := w.change("set a meter", "UPDATE usage_meter SET since = "+goOn+`, name = ?, template = ?, labels = ?, awake = ?, memory = ?,
		kept = ?, milli_vcpus = ?, memory_bytes = ?, ended = ? WHERE sandbox = ? AND ended IS NULL`,
		millis(m.Since), m.Name, m.Template, jsonOf(&m.Labels), m.Clocks.Awake, m.Clocks.Memory, m.Clocks.Kept,
		m.MilliVCPUs(), m.Resources.MemoryBytes, ended, m.Sandbox)
	if err != nil || n > 0 || m.Ended {
		return err
	}
	_, err = w.change("begin a meter", `INSERT INTO usage_meter
		(sandbox, tenant, name, template, labels, since, awake, memory, kept, milli_vcpus, memory_bytes, kept_bytes)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (sandbox) DO NOTHING`,
		m.Sandbox, m.Tenant, m.Name, m.Template, jsonOf(&m.Labels), millis(m.Since), m.Clocks.Awake, m.Clocks.Memory, m.Clocks.Kept,
		m.MilliVCPUs(), m.Resources.MemoryBytes, max(m.KeptBytes, -1))
	return err
}

// PutKeptBytes counts until at and sets what is kept from then on.
func (w *writer) PutKeptBytes(id core.SandboxID, bytes int64, at time.Time) error {
	if err := w.fold(id, millis(at)); err != nil {
		return err
	}
	_, err := w.change("set what is kept", "UPDATE usage_meter SET since = "+goOn+", kept_bytes = ? WHERE sandbox = ? AND ended IS NULL",
		millis(at), max(bytes, -1), id)
	return err
}

// fold adds what a sandbox has used until a moment to the rows of its days. Its meter still says since when: the caller sets that.
func (w *writer) fold(id core.SandboxID, until int64) error {
	_, err := w.change("count usage", `WITH days (d) AS (
			SELECT max(since, :now - :most * 86400000) / 86400000 FROM usage_meter WHERE sandbox = :sandbox AND ended IS NULL AND since < :now
			UNION ALL SELECT d + 1 FROM days WHERE (d + 1) * 86400000 < :now)
		INSERT INTO usage_day (tenant, sandbox, day, `+usageColumns+") "+
		spentSince+"AND sandbox = :sandbox) WHERE ms > 0"+addUsage,
		sql.Named("now", until), sql.Named("most", store.MaxUsageDays), sql.Named("sandbox", id))
	return err
}

// CountExec adds a process to the days in which it ran.
func (w *writer) CountExec(tenant core.TenantID, sandbox core.SandboxID, from, to time.Time) error {
	if tenant == "" || sandbox == "" {
		return core.Errorf(core.CodeInvalid, "an exec has a tenant and a sandbox")
	}
	begin, end := millis(from), millis(to)
	begin = max(min(begin, end), end-store.MaxUsageDays*dayMillis)
	for day := begin / dayMillis; day <= end/dayMillis; day++ {
		count, ms := 0, min(end, (day+1)*dayMillis)-max(begin, day*dayMillis)
		if day == end/dayMillis {
			count = 1
		}
		_, err := w.change("count an exec", "INSERT INTO usage_day (tenant, sandbox, day, "+usageColumns+`)
			VALUES (?, ?, ?, 0, 0, 0, 0, 0, 0, 0, 0, ?, ?, 0, 0, 0, 0)`+addUsage, tenant, sandbox, day, count, ms)
		if err != nil {
			return err
		}
	}
	return nil
}

// How many rows, and meters of each tenant, one call drops at most, so that no other write waits for long.
const (
	forgetMost   = 2000
	forgetMeters = 300
)

// ForgetUsage sums up what need not be told apart any more, some of it at a time.
func (w *writer) ForgetUsage(keep store.UsageKeep) (int, error) {
	if keep.Detail < keep.First || keep.Ended < 0 {
		return 0, core.Errorf(core.CodeInvalid, "what is kept by itself is kept")
	}
	dropped, err := w.change("drop old usage", `DELETE FROM usage_day WHERE (day, tenant, sandbox) IN
		(SELECT day, tenant, sandbox FROM usage_day WHERE day < ? LIMIT ?)`, keep.First, forgetMost)
	if err != nil {
		return 0, err
	}
	tenants, err := many(&w.reader, func(r row) (t core.TenantID, err error) {
		err = r.Scan(&t)
		return t, err
	}, "SELECT DISTINCT tenant FROM usage_meter WHERE ended IS NOT NULL")
	if err != nil {
		return 0, err
	}
	for _, t := range tenants {
		n, err := w.forgetEnded(t, keep)
		if err != nil {
			return 0, err
		}
		dropped += n
	}
	n, err := w.sumUp(`(day, tenant, sandbox) IN (SELECT day, tenant, sandbox FROM usage_day WHERE day < ? AND sandbox <> ''
		ORDER BY day, tenant, sandbox LIMIT ?)`, keep.Detail, forgetMost)
	return int(dropped + n), err
}

// forgetEnded drops the meters of a tenant's sandboxes that were deleted before the days that are told apart, or beyond how many of
// them are.
func (w *writer) forgetEnded(tenant core.TenantID, keep store.UsageKeep) (int64, error) {
	before := int64(keep.Detail) * dayMillis
	beyond, err := one(&w.reader, "", scanNumber,
		"SELECT ended FROM usage_meter WHERE tenant = ? AND ended IS NOT NULL ORDER BY ended DESC LIMIT 1 OFFSET ?", tenant, keep.Ended)
	if err != nil && !core.IsCode(err, core.CodeNotFound) {
		return 0, err
	}
	if err == nil {
		before = max(before, beyond+1)
	}
	const old = "(SELECT sandbox FROM usage_meter WHERE tenant = ? AND ended IS NOT NULL AND ended < ? ORDER BY ended, sandbox LIMIT ?)"
	_, err = w.sumUp(`(day, tenant, sandbox) IN (WITH days AS (SELECT DISTINCT day AS d FROM usage_day), gone AS MATERIALIZED `+old+`
		SELECT day, tenant, u.sandbox FROM days CROSS JOIN gone CROSS JOIN usage_day u WHERE day = d AND tenant = ? AND u.sandbox = gone.sandbox)`,
		tenant, before, forgetMeters, tenant)
	if err != nil {
		return 0, err
	}
	return w.change("drop meters", "DELETE FROM usage_meter WHERE sandbox IN "+old, tenant, before, forgetMeters)
}

// sumUp adds rows to those of their tenants and drops them.
func (w *writer) sumUp(which string, args ...any) (int64, error) {
	_, err := w.change("sum up usage", "INSERT INTO usage_day (tenant, sandbox, day, "+usageColumns+`)
		SELECT tenant, '', day, sum(awake_ms), sum(kept_ms), sum(vcpu_ms), sum(memory_large), sum(memory_small), sum(disk_large),
			sum(disk_small), sum(measured_ms), sum(execs), sum(exec_ms), sum(template_large), sum(template_small),
			sum(checkpoint_large), sum(checkpoint_small) FROM usage_day WHERE `+which+" GROUP BY tenant, day"+addUsage, args...)
	if err != nil {
		return 0, err
	}
	return w.change("drop what was summed up", "DELETE FROM usage_day WHERE "+which, args...)
}
