package control_test

import (
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// tenantOf makes a tenant and returns who holds a key of it.
func (w *world) tenantOf(admin control.Principal, name string) (core.Tenant, control.Principal, string) {
	w.t.Helper()
	made, err := w.svc.CreateTenant(w.t.Context(), admin, control.TenantSpec{Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	as, err := w.svc.ActFor(w.t.Context(), admin, name)
	if err != nil || as.Tenant != made.ID {
		w.t.Fatalf("acting for it is %+v, %v", as, err)
	}
	_, secret, err := w.svc.NewKey(w.t.Context(), as, core.KeySpec{})
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := w.svc.Authenticate(w.t.Context(), secret.Reveal())
	if err != nil || p.Tenant != made.ID || p.Admin {
		w.t.Fatalf("its key is %+v, %v", p, err)
	}
	return made.Tenant, p, secret.Reveal()
}

func TestTenantRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	admin, _ := adminOf(w)
	acme, p, _ := w.tenantOf(admin, "acme")
	got, err := w.svc.GetTenant(t.Context(), admin, "acme")
	if err != nil || got.ID != acme.ID || got.Use.Keys != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = w.svc.CreateTenant(t.Context(), admin, control.TenantSpec{Name: "acme"})
	wantCode(t, err, core.CodeConflict)
	for field, spec := range map[string]control.TenantSpec{
		"name":                      {Name: "default"},
		"quota.sandboxes":           {Name: "a", Quota: core.Quota{Sandboxes: ptr(int64(-1))}},
		"quota.vcpus":               {Name: "a", Quota: core.Quota{VCPUs: ptr(-0.5)}},
		"quota.max_ttl_seconds":     {Name: "a", Quota: core.Quota{MaxTTL: ptr(time.Millisecond)}},
		"labels":                    {Name: "a", Labels: map[string]string{"a=b": ""}},
		"quota.max_memory_bytes":    {Name: "a", Quota: core.Quota{MaxMemoryBytes: ptr(int64(1))}},
		"quota.requests_per_second": {Name: "a", Quota: core.Quota{RequestsPerSecond: ptr(-1.0)}},
	} {
		_, err := w.svc.CreateTenant(t.Context(), admin, spec)
		if e := wantCode(t, err, core.CodeInvalid); e.Field != field {
			t.Errorf("%s: blames %q", field, e.Field)
		}
	}
	_, err = w.svc.CreateTenant(t.Context(), admin, control.TenantSpec{Name: "a", Quota: core.Quota{DiskBytes: ptr(int64(1 << 30))}})
	wantCode(t, err, core.CodeUnsupported)
	changed, err := w.svc.UpdateTenant(t.Context(), admin, "acme", control.TenantPatch{
		Name: ptr("acme-2"), Labels: &map[string]string{"plan": "pro"}, Quota: &core.Quota{Sandboxes: ptr(int64(3))},
	})
	if err != nil || changed.Name != "acme-2" || changed.Labels["plan"] != "pro" || *changed.Limits.Sandboxes != 3 {
		t.Errorf("changed to %+v, %v", changed, err)
	}
	mine, err := w.svc.Quota(t.Context(), p)
	if err != nil || mine.ID != acme.ID || *mine.Limits.Sandboxes != 3 {
		t.Errorf("its own quota is %+v, %v", mine, err)
	}
	list, _, err := w.svc.ListTenants(t.Context(), admin, store.Page{Limit: 10})
	if err != nil || len(list) != 4 { // default, alice, bob
		t.Errorf("listed %d, %v", len(list), err)
	}
	if _, _, err = w.svc.ListTenants(t.Context(), p, store.Page{Limit: 10}); !core.IsCode(err, core.CodeDenied) {
		t.Errorf("a tenant lists tenants: %v", err)
	}
}

// TestActFor: only the operator acts for others, and who else tries learns nothing of what tenants there are.
func TestActFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	admin, _ := adminOf(w)
	acme, p, _ := w.tenantOf(admin, "acme")
	for _, own := range []string{string(acme.ID), "acme"} {
		if same, err := w.svc.ActFor(t.Context(), p, own); err != nil || same.Tenant != p.Tenant {
			t.Errorf("its own, as %s: %v", own, err)
		}
	}
	_, other := w.svc.ActFor(t.Context(), p, "bob")
	_, nobody := w.svc.ActFor(t.Context(), p, core.NewID())
	if other == nil || nobody == nil || other.Error() != nobody.Error() || !core.IsCode(other, core.CodeDenied) {
		t.Errorf("another tenant: %v; none: %v", other, nobody)
	}
	_, err := w.svc.ActFor(t.Context(), admin, core.NewID())
	wantCode(t, err, core.CodeNotFound)
}

// TestSuspend: the keys of a suspended tenant are turned away with words, its calls end, its sandboxes go on, and all is as before when
// it is over.
func TestSuspend(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	admin, _ := adminOf(w)
	_, p, secret := w.tenantOf(admin, "acme")
	sb, err := w.svc.CreateSandbox(t.Context(), p, core.SandboxSpec{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	release, err := w.svc.Tie(p, func(cause error) { ended <- cause })
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := w.svc.UpdateTenant(t.Context(), admin, "acme", control.TenantPatch{Suspended: ptr(true)}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		wantCode(t, err, core.CodeDenied)
	default:
		t.Error("its call goes on")
	}
	_, err = w.svc.Authenticate(t.Context(), secret)
	if e := wantCode(t, err, core.CodeDenied); e.Message != "the tenant is suspended: the server's operator can let it go on" {
		t.Error(e)
	}
	_, _, err = w.svc.OpenSandbox(t.Context(), sb.ID, func(string) bool { return true })
	wantCode(t, err, core.CodeDenied)
	_, err = w.svc.CreateSandbox(t.Context(), p, core.SandboxSpec{}) // one that had been let in
	wantCode(t, err, core.CodeDenied)
	if w.node.count() != 1 {
		t.Error("its sandbox is gone")
	}
	if _, err := w.svc.UpdateTenant(t.Context(), admin, "acme", control.TenantPatch{Suspended: ptr(false)}); err != nil {
		t.Fatal(err)
	}
	again, err := w.svc.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.svc.GetSandbox(t.Context(), again, string(sb.ID)); err != nil {
		t.Error(err)
	}
	_, err = w.svc.UpdateTenant(t.Context(), admin, "default", control.TenantPatch{Suspended: ptr(true)})
	wantCode(t, err, core.CodeConflict)
}

// TestDeleteTenant: with sandboxes only by force; then its keys stop at once, and all that it had goes, though the server is stopped
// in the middle. Its id can't come back.
func TestDeleteTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	admin, _ := adminOf(w)
	acme, p, secret := w.tenantOf(admin, "acme")
	for range 3 {
		if _, err := w.svc.CreateSandbox(t.Context(), p, core.SandboxSpec{}); err != nil {
			t.Fatal(err)
		}
	}
	w.change(func(tx store.Tx) error {
		_, err := tx.PutTemplate(core.Template{ID: "t000000000000000000009", Tenant: acme.ID, Name: "own", State: core.TemplateReady, Visibility: core.VisibilityPrivate})
		return err
	})
	w.node.mu.Lock()
	w.node.templates["t000000000000000000009"] = true
	for range 3 { // the machines can't be removed yet
		w.node.deleteErr = append(w.node.deleteErr, core.Errorf(core.CodeUnavailable, "not yet"))
	}
	w.node.mu.Unlock()
	others := w.create(core.SandboxSpec{})
	if e := wantCode(t, w.svc.DeleteTenant(t.Context(), admin, "acme", false), core.CodeConflict); e.Message !=
		"the tenant has 3 sandboxes: delete them first, or delete it by force with all that it has" {
		t.Error(e)
	}
	ended := make(chan error, 1)
	release, err := w.svc.Tie(p, func(cause error) { ended <- cause })
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := w.svc.DeleteTenant(t.Context(), admin, "acme", true); err != nil {
		t.Fatal(err)
	}
	if len(ended) != 1 {
		t.Error("its call goes on")
	}
	_, err = w.svc.Authenticate(t.Context(), secret)
	wantCode(t, err, core.CodeUnauthenticated)
	_, err = w.svc.CreateSandbox(t.Context(), p, core.SandboxSpec{})
	wantCode(t, err, core.CodeDenied)
	_, err = w.svc.GetTenant(t.Context(), admin, "acme")
	wantCode(t, err, core.CodeNotFound)

	if err := w.svc.Close(); err != nil {
		t.Fatal(err)
	}
	w.start()
	eventually(t, "all of it is gone", func() bool {
		w.clock.advance(time.Second)
		var left int
		w.change(func(tx store.Tx) error {
			list, err := tx.TenantsToPurge()
			left = len(list)
			return err
		})
		return left == 0
	})
	if n := w.node.count(); n != 1 {
		t.Errorf("%d machines run, want that of another tenant", n)
	}
	w.node.mu.Lock()
	if w.node.templates["t000000000000000000009"] {
		t.Error("its template's tree is there")
	}
	w.node.mu.Unlock()
	if _, err := w.svc.GetSandbox(t.Context(), alice, string(others.ID)); err != nil {
		t.Error(err)
	}
	w.change(func(tx store.Tx) error {
		use, err := tx.TenantUse(acme.ID, w.clock.Now())
		if use != (core.TenantUse{}) {
			t.Errorf("it still has %+v", use)
		}
		events, _ := tx.FindEvents(acme.ID, store.EventFilter{}, 0, 10)
		if len(events.Events) != 0 {
			t.Errorf("it still has %d events", len(events.Events))
		}
		wantCode(t, tx.PutTenant(acme), core.CodeConflict)
		return err
	})
	if _, err := w.svc.CreateTenant(t.Context(), admin, control.TenantSpec{Name: "acme"}); err != nil {
		t.Errorf("its name: %v", err)
	}
	wantCode(t, w.svc.DeleteTenant(t.Context(), admin, "default", true), core.CodeConflict)
}
