package control

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// tenants looks after tenants, for the server's operator. Its methods are Service's.
type tenants struct {
	*deps
	removal    *removal
	operations *operations
	spool      Spool
}

// TenantSpec says what tenant to make.
type TenantSpec struct {
	Name   string
	Labels map[string]string
	Quota  core.Quota
}

// TenantPatch changes a tenant. A nil field is left as it is; Labels and Quota replace what is there.
type TenantPatch struct {
	Name      *string
	Labels    *map[string]string
	Quota     *core.Quota
	Suspended *bool
}

// TenantState is a tenant with what it may have, the server's defaults filled in, and what it has.
type TenantState struct {
	core.Tenant
	Limits core.Quota
	Use    core.TenantUse
}

// CreateTenant makes a tenant. It has no key yet.
func (t *tenants) CreateTenant(ctx context.Context, p Principal, spec TenantSpec) (TenantState, error) {
	if err := p.may("CreateTenant"); err != nil {
		return TenantState{}, err
	}
	rec := core.Tenant{
		ID: core.TenantID(core.NewID()), Name: spec.Name, Labels: spec.Labels, Quota: spec.Quota, CreatedAt: t.clock.Now(),
	}
	if err := t.checkTenant(rec); err != nil {
		return TenantState{}, err
	}
	err := t.store.Update(ctx, func(tx store.Tx) error {
		if err := tx.PutTenant(rec); err != nil {
			return err
		}
		return t.event(tx, p, rec, core.EventTenantCreated, nil)
	})
	if err != nil {
		return TenantState{}, err
	}
	t.waiters.wake(core.DefaultTenant)
	return TenantState{Tenant: rec, Limits: t.quotas.of(rec)}, nil
}

// checkTenant refuses a record that can't be.
func (t *tenants) checkTenant(rec core.Tenant) error {
	if err := core.CheckName("name", rec.Name); err != nil {
		return err
	}
	if (rec.Name == string(core.DefaultTenant)) != (rec.ID == core.DefaultTenant) || rec.Name == string(core.SystemTenant) {
		return core.Invalid("name", "the names default and system are taken by the server, and the tenant default keeps its own")
	}
	if err := checkLabels(rec.Labels); err != nil {
		return err
	}
	return t.limits.checkQuota(rec.Quota)
}

// maxQuota bounds a quota's numbers, so that sums with it never overflow.
const maxQuota = int64(1) << 60

// checkQuota refuses a quota with numbers that can't be, and one that this node can't enforce.
func (l Limits) checkQuota(q core.Quota) error {
	for name, n := range map[string]*int64{
		"sandboxes": q.Sandboxes, "creates_per_minute": q.CreatesPerMinute, "memory_bytes": q.MemoryBytes, "disk_bytes": q.DiskBytes,
		"templates": q.Templates, "template_bytes": q.TemplateBytes,
		"checkpoints": q.Checkpoints, "checkpoint_bytes": q.CheckpointBytes, "keys": q.Keys, "execs": q.Execs, "calls": q.Calls,
		"max_memory_bytes": q.MaxMemoryBytes, "max_disk_bytes": q.MaxDiskBytes,
	} {
		if n != nil && (*n < 0 || *n > maxQuota) {
			return core.Invalid("quota."+name, "%s is 0, for no limit, to %d", name, maxQuota)
		}
	}
	for name, n := range map[string]*float64{"vcpus": q.VCPUs, "max_vcpus": q.MaxVCPUs, "requests_per_second": q.RequestsPerSecond} {
		if n != nil && !(*n >= 0 && *n <= 1e9) { // also refuses NaN
			return core.Invalid("quota."+name, "%s is 0, for no limit, to 1000000000", name)
		}
	}
	if q.MaxTTL != nil && (*q.MaxTTL < 0 || *q.MaxTTL > 0 && *q.MaxTTL < minTTL) {
		return core.Invalid("quota.max_ttl_seconds", "max_ttl_seconds is 0, for the server's, or at least 1")
	}
	most, sum := core.Limited(q.DiskBytes)
	least, each := core.Limited(q.MaxDiskBytes)
	switch {
	case (sum || each) && !l.DiskQuota:
		return &core.Error{Code: core.CodeUnsupported, Field: "quota.disk_bytes", Message: "disk limits can't be enforced on this node: " + l.DiskQuotaReason}
	case each && least < minDiskBytes, sum && most < minDiskBytes:
		return core.Invalid("quota.disk_bytes", "a disk limit is at least %s", size(minDiskBytes))
	}
	if least, ok := core.Limited(q.MaxMemoryBytes); ok && least < minMemoryBytes {
		return core.Invalid("quota.max_memory_bytes", "a sandbox has at least %s of memory", size(minMemoryBytes))
	}
	if least, ok := core.Limited(q.MaxVCPUs); ok && least < minVCPUs {
		return core.Invalid("quota.max_vcpus", "a sandbox has at least %g vcpus", minVCPUs)
	}
	return nil
}

// GetTenant finds a tenant by id or name.
func (t *tenants) GetTenant(ctx context.Context, p Principal, ref string) (TenantState, error) {
	if err := p.may("GetTenant"); err != nil {
		return TenantState{}, err
	}
	return t.state(ctx, ref)
}

// Quota tells a caller what its own tenant may have and has.
func (t *tenants) Quota(ctx context.Context, p Principal) (TenantState, error) {
	if err := p.may("Quota"); err != nil {
		return TenantState{}, err
	}
	if err := p.needAll(); err != nil {
		return TenantState{}, err
	}
	return t.state(ctx, string(p.Tenant))
}

func (t *tenants) state(ctx context.Context, ref string) (s TenantState, err error) {
	err = t.store.View(ctx, func(r store.Reader) error {
		if s.Tenant, err = r.Tenant(ref); err != nil {
			return err
		}
		s.Limits = t.quotas.of(s.Tenant)
		s.Use, err = r.TenantUse(s.ID, t.clock.Now())
		return err
	})
	return s, err
}

// ListTenants returns a page of all tenants, newest first.
func (t *tenants) ListTenants(ctx context.Context, p Principal, page store.Page) (list []TenantState, next string, err error) {
	if err := p.may("ListTenants"); err != nil {
		return nil, "", err
	}
	err = t.store.View(ctx, func(r store.Reader) error {
		var recs []core.Tenant
		if recs, next, err = r.ListTenants(page); err != nil {
			return err
		}
		for _, rec := range recs {
			use, err := r.TenantUse(rec.ID, t.clock.Now())
			if err != nil {
				return err
			}
			list = append(list, TenantState{Tenant: rec, Limits: t.quotas.of(rec), Use: use})
		}
		return nil
	})
	return list, next, err
}

// UpdateTenant changes a tenant. One that is suspended has its keys turned away, and the calls that were let in by them end; its
// sandboxes go on, and end by their rules. A quota that is less than what it has takes nothing away from it.
func (t *tenants) UpdateTenant(ctx context.Context, p Principal, ref string, patch TenantPatch) (TenantState, error) {
	if err := p.may("UpdateTenant"); err != nil {
		return TenantState{}, err
	}
	now := t.clock.Now()
	suspends := patch.Suspended != nil && *patch.Suspended
	var rec core.Tenant
	err := t.store.Update(ctx, func(tx store.Tx) (err error) {
		if rec, err = tx.Tenant(ref); err != nil {
			return err
		}
		if suspends && rec.ID == core.DefaultTenant {
			return core.Errorf(core.CodeConflict, "the tenant default can't be suspended: the operator's own keys are in it")
		}
		if err := t.patch(&rec, patch, now); err != nil {
			return err
		}
		if err := tx.PutTenant(rec); err != nil {
			return err
		}
		var data map[string]string
		if patch.Suspended != nil {
			data = map[string]string{"suspended": map[bool]string{true: "true", false: "false"}[suspends]}
		}
		return t.event(tx, p, rec, core.EventTenantUpdated, data)
	})
	if err != nil {
		return TenantState{}, err
	}
	if suspends {
		t.live.tenantGone(rec.ID, errSuspended)
	}
	t.waiters.wake(core.DefaultTenant)
	return t.state(ctx, string(rec.ID))
}

// patch changes a record.
func (t *tenants) patch(rec *core.Tenant, patch TenantPatch, now time.Time) error {
	if patch.Name != nil {
		rec.Name = *patch.Name
	}
	if patch.Labels != nil {
		rec.Labels = maps.Clone(*patch.Labels)
	}
	if patch.Quota != nil {
		rec.Quota = *patch.Quota
	}
	switch {
	case patch.Suspended == nil:
	case !*patch.Suspended:
		rec.SuspendedAt = time.Time{}
	case rec.SuspendedAt.IsZero():
		rec.SuspendedAt = now
	}
	return t.checkTenant(*rec)
}

// DeleteTenant makes a tenant gone: durably at once, with all its keys. Its sandboxes, templates and events are removed in the
// background, however often the server is killed meanwhile. One that has sandboxes is only deleted by force. Its id is never used again.
func (t *tenants) DeleteTenant(ctx context.Context, p Principal, ref string, force bool) error {
	if err := p.may("DeleteTenant"); err != nil {
		return err
	}
	now := t.clock.Now()
	var rec core.Tenant
	err := t.store.Update(ctx, func(tx store.Tx) (err error) {
		if rec, err = tx.Tenant(ref); err != nil {
			return err
		}
		if rec.ID == core.DefaultTenant {
			return core.Errorf(core.CodeConflict, "the tenant default can't be deleted: the operator's own keys are in it")
		}
		use, err := tx.TenantUse(rec.ID, now)
		if err != nil {
			return err
		}
		if use.Sandboxes > 0 && !force {
			return core.Errorf(core.CodeConflict, "the tenant has %d sandboxes: delete them first, or delete it by force with all that it has", use.Sandboxes)
		}
		rec.DeletedAt = now
		if err := tx.PutTenant(rec); err != nil {
			return err
		}
		return t.event(tx, p, rec, core.EventTenantDeleted, nil)
	})
	if err != nil {
		return err
	}
	t.live.tenantGone(rec.ID, errTenantDeleted)
	t.waiters.wake(core.DefaultTenant)
	t.purgeSoon(rec)
	return failpoint.Hit(failpoint.ControlTenantDeleted)
}

// event tells the operator's tenant about another one, in the transaction that makes it true.
func (t *tenants) event(tx store.Tx, p Principal, rec core.Tenant, kind core.EventType, data map[string]string) error {
	facts := map[string]string{"tenant_id": string(rec.ID), "name": rec.Name}
	maps.Copy(facts, data)
	_, err := tx.AppendEvent(core.Event{Tenant: core.DefaultTenant, Type: kind, At: t.clock.Now(), Actor: p.Actor, Data: facts})
	return err
}

// resume goes on with the deletes that a restart cut off.
func (t *tenants) resume(ctx context.Context) error {
	return t.store.View(ctx, func(r store.Reader) error {
		list, err := r.TenantsToPurge()
		for _, rec := range list {
			t.purgeSoon(rec)
		}
		return err
	})
}

// purgeSoon removes all that a deleted tenant had, in the background, for as long as it takes.
func (t *tenants) purgeSoon(rec core.Tenant) {
	t.persist(
		func(ctx context.Context) error { return t.purge(ctx, rec) },
		func(err error) {
			t.log.Warn("removal of a deleted tenant will be tried again", slog.String("tenant_id", string(rec.ID)), slog.Any("err", err))
		})
}

// purgeAgain is how often is looked whether the last of a tenant's sandboxes is removed.
const purgeAgain = 250 * time.Millisecond

// purge removes what a tenant had: first the sandboxes with their machines, then the templates, then what is on record.
func (t *tenants) purge(ctx context.Context, rec core.Tenant) error {
	for {
		if err := t.endSandboxes(ctx, rec.ID); err != nil {
			return err
		}
		if err := t.operations.endAll(ctx, rec.ID); err != nil {
			return err
		}
		if err := t.spool.DeleteAll(rec.ID); err != nil {
			return err
		}
		if err := t.removeTrees(ctx, rec.ID); err != nil {
			return err
		}
		if err := failpoint.Hit(failpoint.ControlTenantEmptied); err != nil {
			return err
		}
		var more bool
		err := t.store.Update(ctx, func(tx store.Tx) (err error) {
			if more, err = tx.PurgeTenant(rec.ID); err != nil || more {
				return err
			}
			done := rec
			done.PurgedAt = t.clock.Now()
			return tx.PutTenant(done)
		})
		if err != nil || !more {
			return err
		}
		if !pause(ctx, t.clock, purgeAgain) {
			return ctx.Err()
		}
	}
}

// removeTrees removes the trees of a tenant's own templates and of its checkpoints; their records go with the rest.
func (t *tenants) removeTrees(ctx context.Context, id core.TenantID) error {
	var list []core.TemplateID
	var saved []core.CheckpointID
	err := t.store.View(ctx, func(r store.Reader) (err error) {
		if list, err = r.TenantTemplates(id); err != nil {
			return err
		}
		saved, err = r.TenantCheckpoints(id)
		return err
	})
	for _, c := range saved {
		if err == nil {
			err = t.node.DeleteCheckpoint(ctx, c)
		}
	}
	for _, tmpl := range list {
		if err == nil {
			err = t.node.DeleteTemplate(ctx, tmpl)
		}
	}
	return err
}

// endSandboxes deletes every sandbox of a tenant. Since the tenant is deleted, no other begins.
func (t *tenants) endSandboxes(ctx context.Context, id core.TenantID) error {
	for {
		var list []core.Sandbox
		err := t.store.View(ctx, func(r store.Reader) (err error) {
			list, _, err = r.ListSandboxes(id, store.SandboxFilter{}, store.Page{Limit: 100})
			return err
		})
		if err != nil || len(list) == 0 {
			return err
		}
		for _, sb := range list {
			err := t.removal.start(ctx, system("tenant"), "the tenant was deleted", byID(sb.ID))
			if err != nil && !slices.Contains([]core.Code{core.CodeNotFound, core.CodeConflict}, core.CodeOf(err)) {
				return err
			}
		}
	}
}
