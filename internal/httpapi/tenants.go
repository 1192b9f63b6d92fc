package httpapi

import (
	"math"
	"net/http"
	"time"

	"shoal/api"
	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

func (a tenantAPI) createTenant(w http.ResponseWriter, r *request) error {
	var body api.CreateTenantRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	quota, err := decodeQuota(body.Quota)
	if err != nil {
		return err
	}
	made, err := a.control.CreateTenant(r.Context(), r.principal, control.TenantSpec{Name: body.Name, Labels: body.Labels, Quota: quota})
	if err != nil {
		return err
	}
	r.target = string(made.ID)
	return writeJSON(w, http.StatusCreated, encodeTenant(made))
}

func (a tenantAPI) listTenants(w http.ResponseWriter, r *request) error {
	list, next, err := a.control.ListTenants(r.Context(), r.principal, r.page())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, api.TenantList{Tenants: convert(list, encodeTenant), NextCursor: next})
}

func (a tenantAPI) getTenant(w http.ResponseWriter, r *request) error {
	ref, err := r.ref("id", "tenant")
	if err != nil {
		return err
	}
	got, err := a.control.GetTenant(r.Context(), r.principal, ref)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeTenant(got))
}

func (a tenantAPI) getQuota(w http.ResponseWriter, r *request) error {
	own, err := a.control.Quota(r.Context(), r.principal)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeTenant(own))
}

func (a tenantAPI) updateTenant(w http.ResponseWriter, r *request) error {
	ref, err := r.ref("id", "tenant")
	if err != nil {
		return err
	}
	var body api.UpdateTenantRequest
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	patch := control.TenantPatch{Name: body.Name, Labels: body.Labels, Suspended: body.Suspended}
	if body.Quota != nil {
		quota, err := decodeQuota(*body.Quota)
		if err != nil {
			return err
		}
		patch.Quota = &quota
	}
	changed, err := a.control.UpdateTenant(r.Context(), r.principal, ref, patch)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeTenant(changed))
}

func (a tenantAPI) deleteTenant(w http.ResponseWriter, r *request) error {
	ref, err := r.ref("id", "tenant")
	if err != nil {
		return err
	}
	if err := a.control.DeleteTenant(r.Context(), r.principal, ref, r.flag("force")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a tenantAPI) listAudit(w http.ResponseWriter, r *request) error {
	filter := store.AuditFilter{Actor: r.query.Get("actor"), Failed: r.flag("failed")}
	list, next, err := a.control.ListAudit(r.Context(), r.principal, filter, r.page())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, api.AuditList{Entries: convert(list, encodeAudit), NextCursor: next})
}

func decodeQuota(q api.TenantQuota) (core.Quota, error) {
	out := core.Quota{
		Sandboxes: q.Sandboxes, CreatesPerMinute: q.CreatesPerMinute, VCPUs: q.VCPUs, MemoryBytes: q.MemoryBytes, DiskBytes: q.DiskBytes,
		Templates: q.Templates, TemplateBytes: q.TemplateBytes,
		Checkpoints: q.Checkpoints, CheckpointBytes: q.CheckpointBytes, Keys: q.Keys, Execs: q.Execs, RequestsPerSecond: q.RequestsPerSecond, Calls: q.Calls,
		MaxVCPUs: q.MaxVCPUs, MaxMemoryBytes: q.MaxMemoryBytes, MaxDiskBytes: q.MaxDiskBytes,
	}
	if q.MaxTTLSeconds != nil {
		if *q.MaxTTLSeconds < 0 || *q.MaxTTLSeconds > math.MaxInt64/int64(time.Second) {
			return out, core.Invalid("quota.max_ttl_seconds", "max_ttl_seconds is 0 or more, and not beyond what can be counted")
		}
		ttl := time.Duration(*q.MaxTTLSeconds) * time.Second
		out.MaxTTL = &ttl
	}
	return out, nil
}

func encodeQuota(q core.Quota) api.TenantQuota {
	out := api.TenantQuota{
		Sandboxes: q.Sandboxes, CreatesPerMinute: q.CreatesPerMinute, VCPUs: q.VCPUs, MemoryBytes: q.MemoryBytes, DiskBytes: q.DiskBytes,
		Templates: q.Templates, TemplateBytes: q.TemplateBytes,
		Checkpoints: q.Checkpoints, CheckpointBytes: q.CheckpointBytes, Keys: q.Keys, Execs: q.Execs, RequestsPerSecond: q.RequestsPerSecond, Calls: q.Calls,
		MaxVCPUs: q.MaxVCPUs, MaxMemoryBytes: q.MaxMemoryBytes, MaxDiskBytes: q.MaxDiskBytes,
	}
	if q.MaxTTL != nil {
		seconds := int64(*q.MaxTTL / time.Second)
		out.MaxTTLSeconds = &seconds
	}
	return out
}

func encodeTenant(t control.TenantState) api.Tenant {
	u := t.Use
	return api.Tenant{
		ID: string(t.ID), Name: t.Name, Labels: t.Labels, Suspended: !t.SuspendedAt.IsZero(), SuspendedAt: t.SuspendedAt,
		Quota: encodeQuota(t.Quota), Limits: encodeQuota(t.Limits), CreatedAt: t.CreatedAt,
		Use: api.TenantUse{
			Sandboxes: u.Sandboxes, VCPUs: u.VCPUs, MemoryBytes: u.MemoryBytes, DiskBytes: u.DiskBytes, Templates: u.Templates,
			TemplateBytes: u.TemplateBytes, Checkpoints: u.Checkpoints, CheckpointBytes: u.CheckpointBytes, Keys: u.Keys, Execs: u.Execs,
		},
	}
}

func encodeAudit(e core.AuditEntry) api.AuditEntry {
	outcome := string(e.Code)
	if outcome == "" {
		outcome = "ok"
	}
	return api.AuditEntry{
		Seq: e.Seq, At: e.At, Actor: api.Actor{Kind: e.Actor.Kind, ID: e.Actor.ID}, ActorName: e.ActorName, Remote: e.Remote,
		Operation: e.Operation, Target: e.Target, Outcome: outcome, Detail: e.Detail, RequestID: e.RequestID,
	}
}
