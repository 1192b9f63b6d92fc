package storetest

import (
	"errors"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

func newTenant(name string) core.Tenant {
	return core.Tenant{ID: core.TenantID(core.NewID()), Name: name, CreatedAt: epoch()}
}

func testTenant(t *testing.T, open Open) {
	t.Helper()
	t.Run("the default one is there", func(t *testing.T) {
		s := start(t, open)
		s.view(func(r store.Reader) error {
			got, err := r.Tenant(string(core.DefaultTenant))
			if got.ID != core.DefaultTenant || got.Name != "default" || got.CreatedAt.IsZero() {
				t.Errorf("it is %+v", got)
			}
			return err
		})
	})
	t.Run("every field comes back", func(t *testing.T) {
		s := start(t, open)
		ten, half, hour := int64(10), 0.5, time.Hour
		want := newTenant("acme")
		want.Labels = map[string]string{"plan": "pro"}
		want.Quota = core.Quota{
			Sandboxes: &ten, CreatesPerMinute: &ten, VCPUs: &half, MemoryBytes: &ten, DiskBytes: &ten, Templates: &ten, TemplateBytes: &ten,
			Keys: &ten, Execs: &ten, RequestsPerSecond: &half, Calls: &ten, MaxVCPUs: &half, MaxMemoryBytes: &ten, MaxDiskBytes: &ten, MaxTTL: &hour,
		}
		want.SuspendedAt = epoch().Add(time.Minute)
		s.update(func(tx store.Tx) error { return tx.PutTenant(want) })
		s.view(func(r store.Reader) error {
			for _, ref := range []string{string(want.ID), "acme"} {
				got, err := r.Tenant(ref)
				wantSame(t, got, want)
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	t.Run("names and ids", func(t *testing.T) { testTenantNames(t, open) })
	t.Run("pages", func(t *testing.T) { testTenantPages(t, open) })
	t.Run("what it has", func(t *testing.T) { testTenantUse(t, open) })
	t.Run("purge", func(t *testing.T) { testTenantPurge(t, open) })
}

// testTenantNames: a name is one tenant's, and free when that is deleted; an id never is.
func testTenantNames(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	a, b := newTenant("acme"), newTenant("acme")
	put := func(x core.Tenant) error { return s.try(func(tx store.Tx) error { return tx.PutTenant(x) }) }
	if err := put(a); err != nil {
		t.Fatal(err)
	}
	if e := asError(put(b)); e == nil || e.Code != core.CodeConflict || e.Field != "name" {
		t.Fatalf("a second acme: %v", e)
	}
	wantCode(t, put(core.Tenant{ID: core.SystemTenant, Name: "system"}), core.CodeInvalid)
	gone := a
	gone.DeletedAt = epoch().Add(time.Hour)
	if err := put(gone); err != nil {
		t.Fatal(err)
	}
	wantCode(t, put(a), core.CodeConflict)
	if err := put(b); err != nil {
		t.Fatal(err)
	}
	s.view(func(r store.Reader) error {
		_, byID := r.Tenant(string(a.ID))
		_, absent := r.Tenant(core.NewID())
		sameNotFound(t, absent, byID)
		list, err := r.TenantsToPurge()
		wantSame(t, list, []core.Tenant{gone})
		return err
	})
	gone.PurgedAt = epoch().Add(2 * time.Hour)
	if err := put(gone); err != nil {
		t.Fatal(err)
	}
	wantCode(t, put(gone), core.CodeConflict)
	s.view(func(r store.Reader) error {
		list, err := r.TenantsToPurge()
		if len(list) != 0 {
			t.Errorf("to purge: %v", list)
		}
		return err
	})
}

func testTenantPages(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	want := map[core.TenantID]bool{core.DefaultTenant: true}
	for i := range 7 {
		x := newTenant("t" + string(rune('a'+i)))
		x.CreatedAt = epoch().Add(time.Duration(i/3) * time.Second)
		want[x.ID] = true
		s.update(func(tx store.Tx) error { return tx.PutTenant(x) })
	}
	page, seen := store.Page{Limit: 2}, 0
	for more := true; more; more = page.Cursor != "" {
		s.view(func(r store.Reader) error {
			list, next, err := r.ListTenants(page)
			for _, x := range list {
				if !want[x.ID] {
					t.Errorf("%s is there twice, or not at all", x.ID)
				}
				delete(want, x.ID)
				seen++
			}
			page.Cursor = next
			return err
		})
	}
	if len(want) != 0 || seen != 8 {
		t.Errorf("%d were listed; missing: %v", seen, want)
	}
	s.view(func(r store.Reader) error {
		_, _, err := r.ListTenants(store.Page{Limit: 1, Cursor: "x"})
		wantField(t, err, "cursor")
		return nil
	})
}

// testTenantUse: what runs takes everything, what failed its place and disk, what is deleted nothing.
func testTenantUse(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	for i, state := range []core.State{core.StateRunning, core.StateCreating, core.StateFailed, core.StateDeleted} {
		b := newSandbox(alice)
		b.State, b.Resources = state, core.Resources{VCPUs: 0.5, MemoryBytes: 100, DiskBytes: 10}
		b.CreatedAt = epoch().Add(time.Duration(i) * time.Second)
		s.put(b)
	}
	for range 3 { // a sum that no number holds
		b := newSandbox(bob)
		b.Resources.DiskBytes = 1 << 62
		s.put(b)
	}
	tmpl := newTemplate(alice, "mine")
	s.update(func(tx store.Tx) error { _, err := tx.PutTemplate(tmpl); return err })
	s.putKey(newKey(alice))
	now := epoch().Add(time.Hour)
	for _, end := range []time.Time{now.Add(-time.Second), now, now.Add(1)} { // of which the last one is good still
		k := newKey(alice)
		k.ExpiresAt = end
		s.putKey(k)
	}
	running, ended := newSandbox(alice), newExec("")
	s.view(func(r store.Reader) error {
		got, _, err := r.ListSandboxes(alice, store.SandboxFilter{}, store.Page{Limit: 1})
		running = got[0]
		return err
	})
	ended.Sandbox, ended.Outcome, ended.ExitCode = running.ID, core.OutcomeExited, new(int)
	s.update(func(tx store.Tx) error {
		return errors.Join(tx.PutExec(newExec(running.ID)), tx.PutExec(newExec(running.ID)), tx.PutExec(ended))
	})
	s.view(func(r store.Reader) error {
		got, err := r.TenantUse(alice, now)
		wantSame(t, got, core.TenantUse{
			Sandboxes: 3, VCPUs: 1, MemoryBytes: 200, DiskBytes: 30, Templates: 1, TemplateBytes: tmpl.SizeBytes, Keys: 2, Execs: 2,
		})
		if err != nil {
			return err
		}
		if huge, err := r.TenantUse(bob, now); err != nil || huge.Sandboxes != 3 || huge.DiskBytes < 1<<62 {
			t.Errorf("three huge ones: %+v, %v", huge, err)
		}
		none, err := r.TenantUse("nobody", now)
		wantSame(t, none, core.TenantUse{})
		if err != nil {
			return err
		}
		for n, want := range map[int64]time.Duration{1: 3 * time.Second, 4: 0} {
			at, ok, err := r.NthCreate(alice, n)
			if err != nil || !ok || !at.Equal(epoch().Add(want)) {
				t.Errorf("create %d was at %v, %v, %v", n, at, ok, err)
			}
		}
		if _, ok, err := r.NthCreate(alice, 5); ok || err != nil {
			t.Errorf("a fifth create: %v, %v", ok, err)
		}
		return nil
	})
}

// testTenantPurge: everything goes but what may still be on a node, and other tenants' property stays.
func testTenantPurge(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	done, going, other := newSandbox(alice), newSandbox(alice), newSandbox(bob)
	done.State, done.Operation, done.DeletedAt = core.StateDeleted, core.OpNone, epoch()
	going.State, going.Operation, going.DeletedAt = core.StateDeleted, core.OpDelete, epoch()
	for _, b := range []core.Sandbox{done, going, other} {
		s.put(b)
	}
	key, others := s.putKey(newKey(alice)), s.putKey(newKey(bob))
	tmpl, kept := newTemplate(alice, "a"), newTemplate(bob, "b")
	s.update(func(tx store.Tx) error {
		_, err := tx.PutTemplate(kept)
		if err == nil {
			_, err = tx.PutTemplate(tmpl)
		}
		return err
	})
	s.view(func(r store.Reader) error {
		list, err := r.TenantTemplates(alice)
		wantSame(t, list, []core.TemplateID{tmpl.ID})
		return err
	})
	purge := func() (more bool) {
		s.update(func(tx store.Tx) (err error) {
			if _, err := tx.AppendEvent(core.Event{Tenant: alice, Sandbox: done.ID, Type: core.EventSandboxDeleted}); err != nil {
				return err
			}
			more, err = tx.PurgeTenant(alice)
			return err
		})
		return more
	}
	if !purge() {
		t.Error("nothing is left, says the purge, but there is a sandbox that is being removed")
	}
	going.Operation = core.OpNone
	s.put(going)
	if purge() {
		t.Error("something is left")
	}
	s.view(func(r store.Reader) error {
		_, err := r.KeyByHash(key.Hash)
		wantCode(t, err, core.CodeNotFound)
		_, err = r.SandboxByID(done.ID)
		wantCode(t, err, core.CodeNotFound)
		events, _, err := eventsAfter(r, alice, "", 0, 10)
		if len(events) != 0 || err != nil {
			t.Errorf("events: %v, %v", events, err)
		}
		if list, err := r.TenantTemplates(alice); err != nil || len(list) != 0 {
			t.Errorf("templates: %v, %v", list, err)
		}
		if _, err := r.Template(bob, templateRef(string(kept.ID))); err != nil {
			return err
		}
		if _, err := r.SandboxByID(other.ID); err != nil {
			return err
		}
		_, err = r.KeyByHash(others.Hash)
		return err
	})
}
