package sqlite

import (
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

func scanAudit(r row) (e core.AuditEntry, err error) {
	err = r.Scan(&e.Tenant, &e.Seq, (*instant)(&e.At), &e.Actor.Kind, &e.Actor.ID, &e.ActorName, &e.Remote, &e.Operation, &e.Target,
		&e.Code, &e.RequestID, &e.Detail)
	return e, err
}

// Audit returns a page of a tenant's entries, newest first.
func (r *reader) Audit(tenant core.TenantID, filter store.AuditFilter, page store.Page) (list []core.AuditEntry, next string, err error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, "", err
	}
	before, ok, err := parseCursor("audit", page.Cursor)
	if err != nil {
		return nil, "", err
	}
	query := "SELECT tenant, seq, at, actor_kind, actor_id, actor_name, remote, operation, target, code, request_id, detail FROM audit WHERE tenant = ?1"
	if ok {
		query += " AND seq < ?2"
	}
	if filter.Actor != "" {
		query += " AND actor_id = ?3"
	}
	if filter.Failed {
		query += " AND code <> ''"
	}
	list, more, err := readPage(r, scanAudit, store.AuditSize, page.Limit, query+" ORDER BY seq DESC LIMIT ?4",
		tenant, before.Number, filter.Actor, page.Limit+1)
	if err != nil || !more {
		return list, "", err
	}
	return list, position{Kind: "audit", Number: list[len(list)-1].Seq}.String(), nil
}

// AppendAudit gives the entries, all of one tenant, its next numbers and drops what is older than the newest KeepAudit.
func (w *writer) AppendAudit(tenant core.TenantID, list []core.AuditEntry) error {
	if tenant == "" || len(list) == 0 {
		return core.Errorf(core.CodeInvalid, "entries of an audit have a tenant")
	}
	last, err := one(&w.reader, "", scanNumber, `INSERT INTO audit_head (tenant, seq) VALUES (?1, ?2)
		ON CONFLICT (tenant) DO UPDATE SET seq = seq + ?2 RETURNING seq`, tenant, len(list))
	if err != nil {
		return err
	}
	for i, e := range list {
		if err := checkText("target", nil, e.ActorName, e.Remote, e.Operation, e.Target, e.Actor.ID, e.Detail); err != nil {
			return err
		}
		_, err := w.change("append to the audit", "INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			tenant, last-int64(len(list)-1-i), instant(e.At), e.Actor.Kind, e.Actor.ID, e.ActorName, e.Remote, e.Operation, e.Target,
			e.Code, e.RequestID, e.Detail)
		if err != nil {
			return err
		}
	}
	_, err = w.change("trim the audit", "DELETE FROM audit WHERE tenant = ? AND seq <= ?", tenant, last-store.KeepAudit)
	return err
}

// ForgetAudit drops the entries of all tenants that are older than t.
func (w *writer) ForgetAudit(before time.Time) error {
	_, err := w.change("forget the audit", "DELETE FROM audit WHERE at < ?", instant(before))
	return err
}
