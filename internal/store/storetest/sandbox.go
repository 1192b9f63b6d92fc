package storetest

import (
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

func testSandbox(t *testing.T, open Open) {
	t.Helper()
	t.Run("every field comes back", func(t *testing.T) { testSandboxFields(t, open) })
	t.Run("names", func(t *testing.T) { testSandboxNames(t, open) })
	t.Run("ids are never used again", func(t *testing.T) { testSandboxIDs(t, open) })
	t.Run("deleted and forgotten", func(t *testing.T) { testForget(t, open) })
	t.Run("expiry", func(t *testing.T) { testExpiry(t, open) })
	t.Run("use", func(t *testing.T) { testPutActive(t, open) })
	t.Run("incomplete or unfit records are refused", func(t *testing.T) {
		s := start(t, open)
		for name, spoil := range map[string]func(*core.Sandbox){
			"no id":      func(b *core.Sandbox) { b.ID = "" },
			"no tenant":  func(b *core.Sandbox) { b.Tenant = "" },
			"not UTF-8":  func(b *core.Sandbox) { b.Env = map[string]string{"A": "\xff"} },
			"no time":    func(b *core.Sandbox) { b.CreatedAt = time.Time{} },
			"far future": func(b *core.Sandbox) { b.ExpiresAt = time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC) },
		} {
			b := newSandbox(alice)
			spoil(&b)
			err := s.try(func(tx store.Tx) error { return tx.PutSandbox(b) })
			if core.CodeOf(err) != core.CodeInvalid {
				t.Errorf("%s: got %v, want invalid", name, err)
			}
		}
	})
}

func testSandboxFields(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	full := core.Sandbox{
		ID: core.SandboxID(core.NewID()), Tenant: alice, Name: "full", Template: "tmpl", TemplateName: "base",
		State: core.StateCreating, Operation: core.OpCreate, OperationSince: epoch().Add(1),
		Incarnation: 3, Node: "node", Epoch: 1 << 40, Persistent: true,
		Resources: core.Resources{VCPUs: 1.5, MemoryBytes: 1 << 33, DiskBytes: 1 << 42, Pids: 341, OpenFiles: 4096, CPUWeight: 50, IOWeight: 70},
		Env:       map[string]string{"A": "b", "ü\n\x00\"": "é'; DROP TABLE sandbox"},
		Labels:    map[string]string{"": "empty key", "k": ""},
		CreatedAt: epoch(), StartedAt: epoch().Add(2), ExpiresAt: epoch().Add(3), Failure: "none",
		Idle: 90 * time.Second, OnIdle: core.ActionDelete, ActiveAt: epoch().Add(4),
	}
	plain := newSandbox(alice)
	s.put(full, plain)
	for _, want := range []core.Sandbox{full, plain} {
		got, err := s.sandbox(alice, string(want.ID))
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, got, want)
	}
	byName, err := s.sandbox(alice, "full")
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, byName, full)

	// Replacing replaces all of it, down to the zero value.
	bare := core.Sandbox{ID: full.ID, Tenant: alice, State: core.StateFailed, CreatedAt: epoch()}
	s.put(bare)
	got, err := s.sandbox(alice, string(bare.ID))
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, got, bare)
	_, err = s.sandbox(alice, "full")
	wantCode(t, err, core.CodeNotFound)
	_, err = s.sandbox(alice, "")
	wantCode(t, err, core.CodeNotFound)
}

func testPutActive(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	b, other, dead := newSandbox(alice), newSandbox(alice), newSandbox(alice)
	b.Name, b.Idle, b.OnIdle, b.ActiveAt = "b", time.Minute, core.ActionDelete, epoch()
	dead.State, dead.DeletedAt, dead.ActiveAt = core.StateDeleted, epoch(), epoch()
	s.put(b, other, dead)
	for _, at := range []time.Time{epoch().Add(time.Hour), epoch().Add(time.Minute)} { // it may go back, too
		err := s.UpdateRelaxed(t.Context(), func(tx store.Tx) error {
			for _, id := range []core.SandboxID{b.ID, dead.ID, "nobody"} {
				if err := tx.PutActive(id, at); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		b.ActiveAt = at
		for _, want := range []core.Sandbox{b, other, dead} {
			s.view(func(r store.Reader) error {
				got, err := r.SandboxByID(want.ID)
				wantSame(t, got, want)
				return err
			})
		}
	}
}

func testSandboxNames(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	one, two, other := newSandbox(alice), newSandbox(alice), newSandbox(bob)
	one.Name, two.Name, other.Name = "web", "web", "web"
	s.put(one, other)
	wantCode(t, s.try(func(tx store.Tx) error { return tx.PutSandbox(two) }), core.CodeConflict)
	two.Name = "web-2"
	s.put(two)
	two.Name = "web"
	wantCode(t, s.try(func(tx store.Tx) error { return tx.PutSandbox(two) }), core.CodeConflict)
	one.Labels = map[string]string{"again": "yes"}
	s.put(one)

	// Unnamed sandboxes don't get in each other's way, and a deleted one gives its name free.
	s.put(newSandbox(alice), newSandbox(alice))
	one.State, one.DeletedAt = core.StateDeleted, epoch()
	s.put(one)
	s.put(two)
	got, err := s.sandbox(alice, "web")
	if err != nil || got.ID != two.ID {
		t.Fatalf("got %v, %v: want %v", got.ID, err, two.ID)
	}
}

func testSandboxIDs(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	b := newSandbox(alice)
	s.put(b)
	taken := b
	taken.Tenant = bob
	wantCode(t, s.try(func(tx store.Tx) error { return tx.PutSandbox(taken) }), core.CodeConflict)

	dead := b
	dead.State, dead.DeletedAt = core.StateDeleted, epoch()
	s.put(dead)
	wantCode(t, s.try(func(tx store.Tx) error { return tx.PutSandbox(b) }), core.CodeConflict)
	s.put(dead) // a deleted record may still be changed

	s.update(func(tx store.Tx) error {
		n, err := tx.ForgetSandboxes(epoch().Add(1))
		if n != 1 {
			t.Fatalf("forgot %d, want 1", n)
		}
		return err
	})
	for _, again := range []core.Sandbox{b, dead, taken} {
		wantCode(t, s.try(func(tx store.Tx) error { return tx.PutSandbox(again) }), core.CodeConflict)
	}
}

func testForget(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	live, old, busy, fresh := newSandbox(alice), newSandbox(alice), newSandbox(alice), newSandbox(alice)
	for _, b := range []*core.Sandbox{&old, &busy, &fresh} {
		b.State, b.DeletedAt = core.StateDeleted, epoch()
	}
	busy.Operation, fresh.DeletedAt = core.OpDelete, epoch().Add(time.Hour)
	s.put(live, old, busy, fresh)
	e := newExec(old.ID)
	s.update(func(tx store.Tx) error { return tx.PutExec(e) })

	_, err := s.sandbox(alice, string(old.ID))
	wantCode(t, err, core.CodeNotFound)
	s.view(func(r store.Reader) error {
		all, err := r.AllSandboxes()
		if err != nil {
			return err
		}
		if got := len(all); got != 2 {
			t.Fatalf("the reconcile loop sees %d sandboxes, want the live one and the one being deleted", got)
		}
		count, err := r.CountSandboxes()
		if err != nil {
			return err
		}
		wantSame(t, count, map[core.State]int{live.State: 1})
		got, err := r.SandboxByID(old.ID)
		wantSame(t, got, old)
		return err
	})
	s.update(func(tx store.Tx) error {
		n, err := tx.ForgetSandboxes(epoch().Add(time.Minute))
		if n != 1 {
			t.Fatalf("forgot %d, want 1", n)
		}
		return err
	})
	s.view(func(r store.Reader) error {
		_, err := r.SandboxByID(old.ID)
		wantCode(t, err, core.CodeNotFound)
		_, err = r.Exec(old.ID, e.ID)
		wantCode(t, err, core.CodeNotFound)
		for _, kept := range []core.Sandbox{live, busy, fresh} {
			if _, err := r.SandboxByID(kept.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

func testExpiry(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	s.view(func(r store.Reader) error {
		at, ok, err := r.NextExpiry()
		if ok || !at.IsZero() {
			t.Fatalf("an empty store expects an expiry at %v", at)
		}
		return err
	})
	never, late, soon, dead := newSandbox(alice), newSandbox(alice), newSandbox(bob), newSandbox(bob)
	late.ExpiresAt, soon.ExpiresAt, dead.ExpiresAt = epoch().Add(2), epoch().Add(1), epoch()
	dead.State, dead.DeletedAt = core.StateDeleted, epoch()
	s.put(never, late, soon, dead)
	s.view(func(r store.Reader) error {
		at, ok, err := r.NextExpiry()
		if err != nil {
			return err
		}
		if !ok || !at.Equal(soon.ExpiresAt) {
			t.Fatalf("next expiry %v, %v: want %v", at, ok, soon.ExpiresAt)
		}
		for now, want := range map[time.Time][]core.SandboxID{
			epoch():        {},
			epoch().Add(1): {soon.ID},
			epoch().Add(2): {soon.ID, late.ID},
		} {
			list, err := r.Expired(now)
			if err != nil {
				return err
			}
			wantSame(t, ids(list), want)
		}
		return nil
	})
}
