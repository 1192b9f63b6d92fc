package control

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// quotas hold tenants to what they may have, within the transaction that gives it to them, so that no number of calls at once gets
// more.
type quotas struct {
	// defaults are for what a tenant's own quota says nothing of.
	defaults core.Quota
	clock    core.Clock
}

// of is what a tenant may have.
func (q *quotas) of(t core.Tenant) core.Quota { return t.Quota.Over(q.defaults) }

// Why a tenant can't act.
var (
	errTenantDeleted = core.Errorf(core.CodeDenied, "the tenant is deleted")
	errSuspended     = core.Errorf(core.CodeDenied, "the tenant is suspended: the server's operator can let it go on")
)

// liveTenant finds a tenant that may act.
func liveTenant(r store.Reader, id core.TenantID) (core.Tenant, error) {
	t, err := r.Tenant(string(id))
	switch {
	case core.IsCode(err, core.CodeNotFound):
		return t, errTenantDeleted
	case err == nil && !t.SuspendedAt.IsZero():
		return t, errSuspended
	}
	return t, err
}

// take checks that a tenant may have so many new sandboxes with these resources. It is called in the transaction that records
// them, before it does: all of them or none.
func (q *quotas) take(r store.Reader, id core.TenantID, now time.Time, want ...core.Resources) error {
	t, err := liveTenant(r, id)
	if err != nil {
		return err
	}
	quota := q.of(t)
	if err := pace(r, id, quota, now, int64(len(want))); err != nil {
		return err
	}
	more := core.TenantUse{Sandboxes: int64(len(want))}
	for _, w := range want {
		if err := neverEndless(quota, w); err != nil {
			return err
		}
		more.VCPUs += w.VCPUs
		more.MemoryBytes += w.MemoryBytes
		more.DiskBytes += w.DiskBytes
	}
	return q.fits(r, id, quota, more)
}

// grow checks that a tenant may have a sandbox's resources changed to others. It is called in the transaction that records them,
// before it does. What becomes less is never refused.
func (q *quotas) grow(r store.Reader, sb core.Sandbox, to core.Resources) error {
	t, err := liveTenant(r, sb.Tenant)
	if err != nil {
		return err
	}
	quota := q.of(t)
	if err := neverEndless(quota, to); err != nil {
		return err
	}
	more := core.TenantUse{DiskBytes: to.DiskBytes - sb.Resources.DiskBytes}
	if core.ClocksOf(sb.State).Memory { // else the rest counts when it is woken
		more.VCPUs, more.MemoryBytes = to.VCPUs-sb.Resources.VCPUs, to.MemoryBytes-sb.Resources.MemoryBytes
	}
	return q.fits(r, sb.Tenant, quota, more)
}

// wake checks that a tenant may have a sandbox run again. It is called in the transaction that records that, before it does.
func (q *quotas) wake(r store.Reader, sb core.Sandbox) error {
	t, err := liveTenant(r, sb.Tenant)
	if err != nil || sb.Operation == core.OpWake { // one that is tried again counts already
		return err
	}
	return q.fits(r, sb.Tenant, q.of(t), core.TenantUse{VCPUs: sb.Resources.VCPUs, MemoryBytes: sb.Resources.MemoryBytes})
}

// template checks that a tenant may have another template of so many bytes; none and a size for one that it has and that grows. It is
// called in the transaction that records it, before it does.
func (q *quotas) template(r store.Reader, id core.TenantID, templates, bytes int64) error {
	if id == core.SystemTenant {
		return nil
	}
	t, err := liveTenant(r, id)
	if err != nil {
		return err
	}
	return q.fits(r, id, q.of(t), core.TenantUse{Templates: templates, TemplateBytes: bytes})
}

// checkpoint checks that a tenant may have another checkpoint. It is called in the transaction that records it, before it does. How large it
// is, nobody knows yet: see checkpointFits.
func (q *quotas) checkpoint(r store.Reader, id core.TenantID) error {
	t, err := liveTenant(r, id)
	if err != nil {
		return err
	}
	return q.fits(r, id, q.of(t), core.TenantUse{Checkpoints: 1})
}

// checkpointFits checks that what a tenant's checkpoints have, one that was just recorded among them, is not more than they may.
func (q *quotas) checkpointFits(r store.Reader, id core.TenantID) error {
	t, err := liveTenant(r, id)
	if err != nil {
		return err
	}
	most, ok := core.Limited(q.of(t).CheckpointBytes)
	if !ok {
		return nil
	}
	has, err := r.TenantUse(id, q.clock.Now())
	if err == nil && has.CheckpointBytes > most {
		err = overQuota("checkpoint_bytes", "it may have %s of files in checkpoints, and with this one it would have %s",
			size(most), size(has.CheckpointBytes))
	}
	return err
}

// key checks that a tenant may have another key.
func (q *quotas) key(r store.Reader, id core.TenantID) error {
	t, err := liveTenant(r, id)
	if err != nil {
		return err
	}
	return q.fits(r, id, q.of(t), core.TenantUse{Keys: 1})
}

// exec checks that a tenant may have another exec that runs. It is called in the transaction that records it, before it does.
func (q *quotas) exec(r store.Reader, id core.TenantID) error {
	t, err := liveTenant(r, id)
	if err != nil {
		return err
	}
	return q.fits(r, id, q.of(t), core.TenantUse{Execs: 1})
}

// neverEndless refuses a sandbox without a limit of its own on what the tenant has a sum of.
func neverEndless(quota core.Quota, r core.Resources) error {
	if most, ok := core.Limited(quota.DiskBytes); ok && r.DiskBytes == 0 {
		return core.Invalid("disk_bytes", "the tenant may have %s of disk, so each of its sandboxes has a limit: say how much", size(most))
	}
	return nil
}

// pace refuses n creates if they are more than the tenant may begin within a minute.
func pace(r store.Reader, id core.TenantID, quota core.Quota, now time.Time, n int64) error {
	most, ok := core.Limited(quota.CreatesPerMinute)
	if !ok {
		return nil
	}
	if n > most {
		return overQuota("creates_per_minute", "it may begin %d sandboxes a minute, and this asks for %d at once", most, n)
	}
	// With n more there must be no more than most: of those there are, the one at that place is old enough, or isn't there.
	at, ok, err := r.NthCreate(id, most-n+1)
	if err != nil || !ok {
		return err
	}
	wait := at.Add(time.Minute).Sub(now)
	if wait <= 0 {
		return nil
	}
	e := overQuota("creates_per_minute", "it may begin %d sandboxes a minute, and has begun %d in the last one", most, most-n+1)
	e.RetryAfter = wait
	return e
}

// slack forgives what sums of fractions lose.
const slack = 1e-6

// fits refuses more of anything of which the tenant would then have too much.
func (q *quotas) fits(r store.Reader, id core.TenantID, quota core.Quota, more core.TenantUse) error {
	if !bounded(quota, more) {
		return nil
	}
	has, err := r.TenantUse(id, q.clock.Now())
	if err != nil {
		return err
	}
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	for _, c := range []struct {
		name      string
		limit     *int64
		has, more int64
		show      func(int64) string
		noun      string
	}{
		{"sandboxes", quota.Sandboxes, has.Sandboxes, more.Sandboxes, count, "sandboxes"},
		{"memory_bytes", quota.MemoryBytes, has.MemoryBytes, more.MemoryBytes, size, "of memory in sandboxes that run"},
		{"disk_bytes", quota.DiskBytes, has.DiskBytes, more.DiskBytes, size, "of disk in sandboxes"},
		{"templates", quota.Templates, has.Templates, more.Templates, count, "templates"},
		{"template_bytes", quota.TemplateBytes, has.TemplateBytes, more.TemplateBytes, size, "of templates"},
		{"checkpoints", quota.Checkpoints, has.Checkpoints, more.Checkpoints, count, "checkpoints"},
		{"keys", quota.Keys, has.Keys, more.Keys, count, "API keys"},
		{"execs", quota.Execs, has.Execs, more.Execs, count, "execs that run"},
	} {
		if most, ok := core.Limited(c.limit); ok && c.more > 0 && c.has > most-c.more {
			return overQuota(c.name, "it has %s of %s %s, and this takes %s more", c.show(c.has), c.show(most), c.noun, c.show(c.more))
		}
	}
	if most, ok := core.Limited(quota.VCPUs); ok && more.VCPUs > 0 && has.VCPUs+more.VCPUs > most+slack {
		return overQuota("vcpus", "it has %.4g of %.4g vcpus in sandboxes that run, and this takes %.4g more", has.VCPUs, most, more.VCPUs)
	}
	return nil
}

// bounded reports whether any of what is to become more has a limit: without one nothing need be summed up.
func bounded(quota core.Quota, more core.TenantUse) bool {
	is := func(limit *int64, more int64) bool { _, ok := core.Limited(limit); return ok && more > 0 }
	_, vcpus := core.Limited(quota.VCPUs)
	return vcpus && more.VCPUs > 0 || is(quota.Sandboxes, more.Sandboxes) || is(quota.MemoryBytes, more.MemoryBytes) ||
		is(quota.DiskBytes, more.DiskBytes) || is(quota.Templates, more.Templates) || is(quota.TemplateBytes, more.TemplateBytes) ||
		is(quota.Checkpoints, more.Checkpoints) || is(quota.Keys, more.Keys) || is(quota.Execs, more.Execs)
}

// overQuota says of what a tenant has too much already.
func overQuota(what, format string, args ...any) *core.Error {
	return &core.Error{Code: core.CodeQuota, Field: "quota." + what, Message: "the tenant's quota: " + fmt.Sprintf(format, args...)}
}

// limitsOf are the defaults and ceilings of what a caller may ask for: the server's, or lower ones of its tenant.
func (d *deps) limitsOf(ctx context.Context, p Principal) (l Limits, err error) {
	err = d.store.View(ctx, func(r store.Reader) error {
		l, err = d.limitsIn(r, p.Tenant)
		return err
	})
	return l, err
}

// limitsIn is limitsOf within a transaction.
func (d *deps) limitsIn(r store.Reader, id core.TenantID) (Limits, error) {
	t, err := liveTenant(r, id)
	return d.limits.within(d.quotas.of(t)), err
}

// within lowers defaults and ceilings to those of a quota.
func (l Limits) within(quota core.Quota) Limits {
	if most, ok := core.Limited(quota.MaxVCPUs); ok {
		l.Max.VCPUs = min(l.Max.VCPUs, most)
	}
	if most, ok := core.Limited(quota.MaxMemoryBytes); ok {
		l.Max.MemoryBytes = min(l.Max.MemoryBytes, most)
	}
	if most, ok := core.Limited(quota.MaxDiskBytes); ok && (l.Max.DiskBytes == 0 || most < l.Max.DiskBytes) {
		l.Max.DiskBytes = most
	}
	if most, ok := core.Limited(quota.MaxTTL); ok {
		l.MaxTTL = min(l.MaxTTL, most)
	}
	l.DefaultTTL = min(l.DefaultTTL, l.MaxTTL)
	l.Default.VCPUs = min(l.Default.VCPUs, l.Max.VCPUs)
	l.Default.MemoryBytes = min(l.Default.MemoryBytes, l.Max.MemoryBytes)
	if l.Max.DiskBytes != 0 && l.DiskQuota && (l.Default.DiskBytes == 0 || l.Default.DiskBytes > l.Max.DiskBytes) {
		l.Default.DiskBytes = l.Max.DiskBytes
	}
	return l
}
