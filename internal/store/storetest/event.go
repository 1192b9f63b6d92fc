package storetest

import (
	"testing"

	"shoal/internal/core"
	"shoal/internal/store"
)

func (s *suite) events(tenant core.TenantID, sandbox core.SandboxID, after int64, limit int) (list []core.Event, oldest int64) {
	s.Helper()
	s.view(func(r store.Reader) (err error) {
		list, oldest, err = eventsAfter(r, tenant, sandbox, after, limit)
		return err
	})
	return list, oldest
}

// eventsAfter returns events of all sandboxes, or of one.
func eventsAfter(r store.Reader, tenant core.TenantID, sandbox core.SandboxID, after int64, limit int) ([]core.Event, int64, error) {
	page, err := r.FindEvents(tenant, store.EventFilter{Sandbox: sandbox}, after, limit)
	return page.Events, page.Oldest, err
}

func numbers(list []core.Event) []int64 {
	var out []int64
	for _, e := range list {
		out = append(out, e.Seq)
	}
	return out
}

func testEvent(t *testing.T, open Open) {
	t.Helper()
	t.Run("fields, order, resume", func(t *testing.T) {
		s := start(t, open)
		x, y := core.SandboxID(core.NewID()), core.SandboxID(core.NewID())
		var want []core.Event
		s.update(func(tx store.Tx) error {
			for i := range 6 {
				e := core.Event{
					Tenant: alice, Sandbox: []core.SandboxID{x, y, ""}[i%3], Type: core.EventSandboxRunning, At: epoch(),
					Actor: core.Actor{Kind: "key", ID: "k"}, Data: map[string]string{"reason": "ü"},
				}
				got, err := tx.AppendEvent(e)
				if err != nil {
					return err
				}
				e.Seq = int64(i + 1)
				wantSame(t, got, e)
				want = append(want, e)
			}
			other, err := tx.AppendEvent(core.Event{Tenant: bob, Type: core.EventTemplateReady})
			if other.Seq != 1 {
				t.Fatalf("another tenant's first event has number %d", other.Seq)
			}
			return err
		})
		got, oldest := s.events(alice, "", 0, 1000)
		wantSame(t, got, want)
		if oldest != 1 {
			t.Fatalf("oldest %d, want 1", oldest)
		}
		got, _ = s.events(alice, "", 2, 3)
		wantSame(t, numbers(got), []int64{3, 4, 5})
		got, _ = s.events(alice, y, 0, 1000)
		wantSame(t, numbers(got), []int64{2, 5})
		got, _ = s.events(alice, "", 6, 1)
		wantSame(t, numbers(got), []int64(nil))
		wantCode(t, s.try(func(tx store.Tx) error { _, err := tx.AppendEvent(core.Event{}); return err }), core.CodeInvalid)
	})
	t.Run("only the newest are kept", func(t *testing.T) {
		if testing.Short() {
			t.Skip("short: it appends more than store.KeepEvents events")
		}
		s := start(t, open)
		s.update(func(tx store.Tx) error {
			if _, err := tx.AppendEvent(core.Event{Tenant: bob, Type: core.EventSandboxRunning}); err != nil {
				return err
			}
			for range store.KeepEvents + 5 {
				if _, err := tx.AppendEvent(core.Event{Tenant: alice, Type: core.EventSandboxRunning}); err != nil {
					return err
				}
			}
			return nil
		})
		got, oldest := s.events(alice, "", 0, 2)
		wantSame(t, numbers(got), []int64{6, 7})
		if oldest != 6 {
			t.Fatalf("oldest %d, want 6", oldest)
		}
		if got, oldest = s.events(bob, "", 0, 2); len(got) != 1 || oldest != 1 {
			t.Fatalf("another tenant's events were trimmed: %v from %d", got, oldest)
		}
	})
}

func testKeyAndSetting(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	key := core.Key{
		ID: core.KeyID(core.NewID()), Tenant: alice, Name: "ci", Hash: core.HashSecret("a"), Admin: true,
		CreatedAt: epoch(), ExpiresAt: epoch().Add(1),
	}
	put := func(k core.Key) error { return s.try(func(tx store.Tx) error { return tx.PutKey(k) }) }
	if err := put(key); err != nil {
		t.Fatal(err)
	}
	key.Hash, key.ExpiresAt, key.Admin = core.HashSecret("b"), key.ExpiresAt.AddDate(1, 0, 0), false
	if err := put(key); err != nil {
		t.Fatal(err)
	}
	moved, twin := key, key
	moved.Tenant, twin.ID = bob, core.KeyID(core.NewID())
	wantCode(t, put(moved), core.CodeConflict)
	wantCode(t, put(twin), core.CodeConflict)
	wantCode(t, put(core.Key{}), core.CodeInvalid)
	s.view(func(r store.Reader) error {
		got, err := r.KeyByHash(core.HashSecret("b"))
		wantSame(t, got, key)
		if err != nil {
			return err
		}
		_, err = r.KeyByHash(core.HashSecret("a"))
		wantCode(t, err, core.CodeNotFound)
		_, err = r.Setting("node_id")
		wantCode(t, err, core.CodeNotFound)
		return nil
	})
	for _, v := range []string{"one", "two", ""} {
		s.update(func(tx store.Tx) error { return tx.PutSetting("node_id", v) })
		s.view(func(r store.Reader) error {
			got, err := r.Setting("node_id")
			wantSame(t, got, v)
			return err
		})
	}
}
