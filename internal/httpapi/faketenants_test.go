package httpapi_test

import (
	"context"
	"slices"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// fakeTenants is what the fake has of tenants, and of the calls that are being answered.
type fakeTenants struct {
	tenants []control.TenantState
	noted   []core.AuditEntry
	// ends are those of the calls that are tied.
	ends map[int]func(error)
	next int
}

func (f *fakeControl) ActFor(_ context.Context, p control.Principal, ref string) (control.Principal, error) {
	switch {
	case ref == string(p.Tenant):
		return p, nil
	case !p.Admin:
		return p, core.Errorf(core.CodeDenied, "a key acts for its own tenant")
	case ref != "t1":
		return p, core.Errorf(core.CodeNotFound, "no such tenant")
	}
	p.Tenant = "t1"
	return p, nil
}

func (f *fakeControl) Tie(_ control.Principal, end func(error)) (func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ends == nil {
		f.ends = map[int]func(error){}
	}
	f.next++
	n := f.next
	f.ends[n] = end
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.ends, n)
	}, nil
}

// revoke ends every call that is being answered.
func (f *fakeControl) revoke(cause error) (ended int) {
	f.mu.Lock()
	var list []func(error)
	for _, end := range f.ends {
		list = append(list, end)
	}
	f.mu.Unlock()
	for _, end := range list {
		end(cause)
	}
	return len(list)
}

func (f *fakeControl) Note(p control.Principal, e core.AuditEntry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.Seq, e.Tenant, e.Actor = int64(len(f.noted)+1), p.Tenant, p.Actor
	f.noted = append(f.noted, e)
}

func (f *fakeControl) ListAudit(_ context.Context, p control.Principal, filter store.AuditFilter, page store.Page) ([]core.AuditEntry, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []core.AuditEntry
	for _, e := range slices.Backward(f.noted) {
		if e.Tenant == p.Tenant && (!filter.Failed || e.Code != "") && (filter.Actor == "" || filter.Actor == e.Actor.ID) {
			e.At, e.Remote, e.RequestID = epoch, "192.0.2.7", "r000000000000000000001" // what differs between two runs
			list = append(list, e)
		}
	}
	return paged(list, page)
}

func (f *fakeControl) CreateTenant(_ context.Context, p control.Principal, spec control.TenantSpec) (control.TenantState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !p.Admin {
		return control.TenantState{}, core.Errorf(core.CodeDenied, "the key lacks the scope admin, which this takes")
	}
	calls := int64(2000)
	t := control.TenantState{
		Tenant: core.Tenant{ID: core.TenantID(f.id("t")), Name: spec.Name, Labels: spec.Labels, Quota: spec.Quota, CreatedAt: f.now},
		Limits: spec.Quota.Over(core.Quota{Calls: &calls}),
	}
	f.tenants = append(f.tenants, t)
	return t, nil
}

func (f *fakeControl) tenant(p control.Principal, ref string) (*control.TenantState, error) {
	if !p.Admin {
		return nil, core.Errorf(core.CodeDenied, "the key lacks the scope admin, which this takes")
	}
	for i := range f.tenants {
		if t := &f.tenants[i]; string(t.ID) == ref || t.Name == ref {
			return t, nil
		}
	}
	return nil, core.Errorf(core.CodeNotFound, "no such tenant")
}

func (f *fakeControl) GetTenant(_ context.Context, p control.Principal, ref string) (control.TenantState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.tenant(p, ref)
	if err != nil {
		return control.TenantState{}, err
	}
	return *t, nil
}

func (f *fakeControl) ListTenants(_ context.Context, p control.Principal, page store.Page) ([]control.TenantState, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !p.Admin {
		return nil, "", core.Errorf(core.CodeDenied, "the key lacks the scope admin, which this takes")
	}
	return paged(f.tenants, page)
}

func (f *fakeControl) UpdateTenant(_ context.Context, p control.Principal, ref string, patch control.TenantPatch) (control.TenantState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.tenant(p, ref)
	if err != nil {
		return control.TenantState{}, err
	}
	if patch.Quota != nil {
		t.Quota, t.Limits = *patch.Quota, patch.Quota.Over(t.Limits)
	}
	if patch.Suspended != nil && *patch.Suspended {
		t.SuspendedAt = f.now
	}
	return *t, nil
}

func (f *fakeControl) DeleteTenant(_ context.Context, p control.Principal, ref string, force bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, err := f.tenant(p, ref)
	if err != nil {
		return err
	}
	if !force {
		return core.Errorf(core.CodeConflict, "the tenant has 1 sandboxes: delete them first, or delete it by force with all that it has")
	}
	f.tenants = slices.DeleteFunc(f.tenants, func(x control.TenantState) bool { return x.ID == t.ID })
	return nil
}

func (f *fakeControl) Quota(_ context.Context, p control.Principal) (control.TenantState, error) {
	most := int64(50)
	return control.TenantState{
		Tenant: core.Tenant{ID: p.Tenant, Name: string(p.Tenant), CreatedAt: epoch}, Limits: core.Quota{Sandboxes: &most},
		Use: core.TenantUse{Sandboxes: 3, VCPUs: 1.5},
	}, nil
}
