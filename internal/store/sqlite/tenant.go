package sqlite

import (
	"fmt"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

const (
	noTenant      = "no such tenant"
	tenantColumns = "id, name, labels, quota, created_at, suspended_at, deleted_at, purged_at"
	selectTenant  = "SELECT " + tenantColumns + " FROM tenant "
)

func scanTenant(r row) (t core.Tenant, err error) {
	err = r.Scan(&t.ID, &t.Name, jsonOf(&t.Labels), jsonOf(&t.Quota), (*instant)(&t.CreatedAt),
		(*instant)(&t.SuspendedAt), (*instant)(&t.DeletedAt), (*instant)(&t.PurgedAt))
	return t, err
}

// Tenant finds a tenant that isn't deleted, first by id, then by name.
func (r *reader) Tenant(idOrName string) (core.Tenant, error) {
	t, err := one(r, noTenant, scanTenant, selectTenant+"WHERE id = ? AND deleted_at IS NULL", idOrName)
	if !core.IsCode(err, core.CodeNotFound) {
		return t, err
	}
	return one(r, noTenant, scanTenant, selectTenant+"WHERE name = ? AND deleted_at IS NULL", idOrName)
}

// ListTenants returns a page of the tenants, newest first.
func (r *reader) ListTenants(page store.Page) (list []core.Tenant, next string, err error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, "", err
	}
	after, ok, err := parseCursor("tenants", page.Cursor)
	if err != nil {
		return nil, "", err
	}
	query, args := selectTenant+"WHERE deleted_at IS NULL", []any{}
	if ok {
		query += " AND (created_at, id) < (?, ?)"
		args = append(args, after.At, after.ID)
	}
	list, more, err := readPage(r, scanTenant, store.TenantSize, page.Limit, query+" ORDER BY created_at DESC, id DESC LIMIT ?",
		append(args, page.Limit+1)...)
	if err != nil || !more {
		return list, "", err
	}
	last := list[len(list)-1]
	return list, position{Kind: "tenants", At: nanoseconds(last.CreatedAt), ID: string(last.ID)}.String(), nil
}

// TenantsToPurge returns the tenants that are deleted and of which something may be left.
func (r *reader) TenantsToPurge() ([]core.Tenant, error) {
	return many(r, scanTenant, selectTenant+"WHERE deleted_at IS NOT NULL AND purged_at IS NULL ORDER BY deleted_at, id")
}

// TenantUse sums up what a tenant has.
func (r *reader) TenantUse(tenant core.TenantID, now time.Time) (core.TenantUse, error) {
	return one(r, "", func(r row) (u core.TenantUse, err error) {
		err = r.Scan(&u.Sandboxes, &u.VCPUs, &u.MemoryBytes, &u.DiskBytes, &u.Templates, &u.TemplateBytes, &u.Keys, &u.Execs,
			&u.Checkpoints, &u.CheckpointBytes)
		return u, err
	}, `SELECT count(*),
		coalesce(sum(CASE WHEN state IN ('creating', 'running', 'frozen') OR operation IN ('wake', 'restore') THEN vcpus ELSE 0.0 END), 0.0),
		coalesce(sum(CASE WHEN state IN ('creating', 'running', 'frozen') OR operation IN ('wake', 'restore') THEN memory_bytes ELSE 0 END), 0),
		CAST(min(total(disk_bytes), 9e18) AS INTEGER), -- an exact sum that grows too large is an error
		(SELECT count(*) FROM template WHERE tenant = ?1), (SELECT coalesce(sum(size_bytes), 0) FROM template WHERE tenant = ?1),
		(SELECT count(*) FROM api_key WHERE tenant = ?1 AND (expires_at IS NULL OR expires_at > ?2)),
		(SELECT count(*) FROM exec x CROSS JOIN sandbox s ON s.id = x.sandbox WHERE x.outcome = '' AND s.tenant = ?1 AND s.state <> 'deleted'),
		(SELECT count(*) FROM checkpoint WHERE tenant = ?1 AND state <> 'deleting'),
		(SELECT CAST(min(total(most), 9e18) AS INTEGER) FROM (SELECT max(max(written_bytes), 0) AS most FROM checkpoint
			WHERE tenant = ?1 AND state <> 'deleting' GROUP BY origin))
		FROM sandbox WHERE tenant = ?1 AND state <> 'deleted'`, tenant, instant(now))
}

// TenantTemplates returns the ids of a tenant's own templates.
func (r *reader) TenantTemplates(tenant core.TenantID) ([]core.TemplateID, error) {
	return many(r, func(r row) (id core.TemplateID, err error) {
		err = r.Scan(&id)
		return id, err
	}, "SELECT id FROM template WHERE tenant = ? ORDER BY id", tenant)
}

// NthCreate returns when the sandbox was begun before which n-1 newer ones were.
func (r *reader) NthCreate(tenant core.TenantID, n int64) (at time.Time, ok bool, err error) {
	at, err = one(r, "", func(r row) (t time.Time, err error) {
		err = r.Scan((*instant)(&t))
		return t, err
	}, "SELECT created_at FROM sandbox WHERE tenant = ? ORDER BY created_at DESC LIMIT 1 OFFSET ?", tenant, max(n-1, 0))
	if core.IsCode(err, core.CodeNotFound) {
		return time.Time{}, false, nil
	}
	return at, err == nil, err
}

// PutTenant inserts or replaces a tenant. One that is deleted stays so.
func (w *writer) PutTenant(t core.Tenant) error {
	if t.ID == "" || t.Name == "" || t.ID == core.SystemTenant {
		return core.Errorf(core.CodeInvalid, "a tenant has an id and a name")
	}
	if err := checkText("labels", t.Labels); err != nil {
		return err
	}
	n, err := w.change("write tenant", "INSERT INTO tenant ("+tenantColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, labels = excluded.labels, quota = excluded.quota,
		created_at = excluded.created_at, suspended_at = excluded.suspended_at, deleted_at = excluded.deleted_at,
		purged_at = excluded.purged_at
		WHERE tenant.deleted_at IS NULL OR (tenant.deleted_at = excluded.deleted_at AND tenant.purged_at IS NULL)`,
		t.ID, t.Name, jsonOf(&t.Labels), jsonOf(&t.Quota), instant(t.CreatedAt),
		instant(t.SuspendedAt), instant(t.DeletedAt), instant(t.PurgedAt))
	if isUnique(err) {
		return &core.Error{Code: core.CodeConflict, Field: "name", Message: fmt.Sprintf("another tenant has the name %q", t.Name), Err: err}
	}
	if err == nil && n == 0 {
		err = core.Errorf(core.CodeConflict, "the tenant is deleted")
	}
	return err
}

// PurgeTenant removes what is on record of a tenant's property, keys too. Sandboxes of which something may still be on a node stay, and then
// more is true.
func (w *writer) PurgeTenant(tenant core.TenantID) (more bool, err error) {
	for _, q := range []string{
		"DELETE FROM sandbox WHERE tenant = ? AND state = 'deleted' AND operation = ''",
		"DELETE FROM template WHERE tenant = ?",
		"DELETE FROM template_head WHERE tenant = ?",
		"DELETE FROM checkpoint WHERE tenant = ?",
		"DELETE FROM operation WHERE tenant = ?",
		"DELETE FROM api_key WHERE tenant = ?",
		"DELETE FROM registry_login WHERE tenant = ?",
		"DELETE FROM operation WHERE tenant = ? AND state <> 'running'",
		"DELETE FROM keyed_call WHERE tenant = ?",
		"DELETE FROM keyed_call_head WHERE tenant = ?",
		"DELETE FROM usage_day WHERE tenant = ?",
		"DELETE FROM usage_meter WHERE tenant = ?",
		"DELETE FROM template_meter WHERE tenant = ?",
		"DELETE FROM checkpoint_meter WHERE tenant = ?",
		"DELETE FROM event WHERE tenant = ?",
		"DELETE FROM event_head WHERE tenant = ?",
	} {
		if _, err := w.change("purge tenant", q, tenant); err != nil {
			return false, err
		}
	}
	n, err := one(&w.reader, "", scanNumber,
		"SELECT (SELECT count(*) FROM sandbox WHERE tenant = ?1) + (SELECT count(*) FROM operation WHERE tenant = ?1)", tenant)
	return n > 0, err
}
