package storetest

import (
	"testing"

	"shoal/internal/core"
	"shoal/internal/store"
)

// testTenancy holds that what belongs to another tenant looks, to the letter, like what doesn't exist.
func testTenancy(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	b := newSandbox(alice)
	b.Name = "secret-plan"
	tmpl := newTemplate(alice, "private-plan")
	s.update(func(tx store.Tx) error {
		if err := tx.PutSandbox(b); err != nil {
			return err
		}
		if _, err := tx.AppendEvent(core.Event{Tenant: alice, Sandbox: b.ID, Type: core.EventSandboxRunning}); err != nil {
			return err
		}
		_, err := tx.PutTemplate(tmpl)
		return err
	})
	s.view(func(r store.Reader) error {
		_, absent := r.Sandbox(bob, core.NewID())
		_, byID := r.Sandbox(bob, string(b.ID))
		_, byName := r.Sandbox(bob, b.Name)
		sameNotFound(t, absent, byID, byName)

		_, absent = r.Template(bob, templateRef(core.NewID()))
		_, byID = r.Template(bob, templateRef(string(tmpl.ID)))
		_, byName = r.Template(bob, templateRef(tmpl.Name))
		sameNotFound(t, absent, byID, byName)

		list, next, err := r.ListSandboxes(bob, store.SandboxFilter{IncludeDeleted: true}, store.Page{Limit: 10})
		if err != nil || next != "" || len(list) != 0 {
			t.Fatalf("bob lists %v, %q, %v", list, next, err)
		}
		templates, _, err := r.ListTemplates(bob, store.TemplateFilter{}, store.Page{Limit: 10})
		if err != nil || len(templates) != 0 {
			t.Fatalf("bob lists templates %v, %v", templates, err)
		}
		for _, sandbox := range []core.SandboxID{"", b.ID} {
			events, oldest, err := eventsAfter(r, bob, sandbox, 0, 10)
			if err != nil || len(events) != 0 || oldest != 1 {
				t.Fatalf("bob reads events %v from %d, %v", events, oldest, err)
			}
		}
		return nil
	})
	// A cursor of one tenant shows nothing of it to another.
	s.put(newSandbox(alice))
	_, cursor, err := s.list(alice, store.SandboxFilter{}, store.Page{Limit: 1})
	if err != nil || cursor == "" {
		t.Fatalf("cursor %q, error %v", cursor, err)
	}
	list, _, err := s.list(bob, store.SandboxFilter{}, store.Page{Limit: 10, Cursor: cursor})
	if err != nil || len(list) != 0 {
		t.Fatalf("with alice's cursor bob lists %v, %v", list, err)
	}
}

func sameNotFound(t *testing.T, absent error, others ...error) {
	t.Helper()
	want := asError(absent)
	if want == nil || want.Code != core.CodeNotFound {
		t.Fatalf("absent: %v, want not_found", absent)
	}
	for _, err := range others {
		if got := asError(err); got == nil || got.Code != want.Code || got.Message != want.Message || got.Field != want.Field {
			t.Fatalf("got %v, want it to look like %v", err, absent)
		}
	}
}
