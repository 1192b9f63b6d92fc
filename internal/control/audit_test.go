package control_test

import (
	"testing"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// TestAudit: what is noted is soon to be read by who may, and all of it is written when the server stops.
func TestAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	admin, _ := adminOf(w)
	_, p := w.keyOf(admin, core.KeySpec{Name: "ci"})
	_, reader := w.keyOf(admin, core.KeySpec{Scopes: core.ScopesOf(core.ScopeAuditRead)})
	list := func(by control.Principal) []core.AuditEntry {
		got, _, err := w.svc.ListAudit(t.Context(), by, store.AuditFilter{}, store.Page{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for i := range 3 {
		w.svc.Note(p, core.AuditEntry{At: w.clock.Now(), Operation: "deleteSandbox", Target: "a", Remote: "192.0.2.7", Code: []core.Code{"", core.CodeDenied, ""}[i]})
	}
	w.svc.Note(alice, core.AuditEntry{At: w.clock.Now(), Operation: "createSandbox"})
	eventually(t, "it is written", func() bool {
		w.clock.advance(250 * 1e6)
		return len(list(reader)) == 3
	})
	if e := list(admin)[1]; e.Seq != 2 || e.Code != core.CodeDenied || e.Actor != p.Actor || e.ActorName != "ci" || e.Tenant != p.Tenant {
		t.Errorf("an entry is %+v", e)
	}
	_, _, err := w.svc.ListAudit(t.Context(), p, store.AuditFilter{}, store.Page{Limit: 100})
	wantCode(t, err, core.CodeDenied)
	w.svc.Note(p, core.AuditEntry{At: w.clock.Now(), Operation: "last"})
	if err := w.svc.Close(); err != nil {
		t.Fatal(err)
	}
	w.start()
	if got := list(admin); got[0].Operation != "last" {
		t.Errorf("the last entry is %+v", got[0])
	}
	if got := list(alice); len(got) != 1 || got[0].Seq != 1 {
		t.Errorf("another tenant has %+v", got)
	}
}

// TestAuditIsBounded: what there is no room for is counted and said.
func TestAuditIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	for range 20_007 {
		w.svc.Note(alice, core.AuditEntry{At: w.clock.Now(), Operation: "x"})
	}
	if err := w.svc.Close(); err != nil {
		t.Fatal(err)
	}
	w.start()
	var list []core.AuditEntry
	page := store.Page{Limit: 1000}
	for more := true; more; more = page.Cursor != "" {
		part, next, err := w.svc.ListAudit(t.Context(), alice, store.AuditFilter{Failed: true}, page)
		if err != nil {
			t.Fatal(err)
		}
		list, page.Cursor = append(list, part...), next
	}
	if len(list) != 1 || list[0].Operation != "lost" || list[0].Target != "7 calls" {
		t.Errorf("it says %+v", list)
	}
}
