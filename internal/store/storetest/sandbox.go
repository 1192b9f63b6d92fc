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
	t.Run("rules", func(t *testing.T) { testRules(t, open) })
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
		State: core.StateCreating, Operation: core.OpCreate, OperationSince: epoch().Add(1), OperationArg: "arg",
		Incarnation: 3, Node: "node", Epoch: 1 << 40, Persistent: true,
		Resources: core.Resources{VCPUs: 1.5, MemoryBytes: 1 << 33, DiskBytes: 1 << 42, Pids: 341, OpenFiles: 4096, CPUWeight: 50, IOWeight: 70},
		Env:       map[string]string{"A": "b", "ü\n\x00\"": "é'; DROP TABLE sandbox"},
		Labels:    map[string]string{"": "empty key", "k": ""},
		CreatedAt: epoch(), StartedAt: epoch().Add(2), ExpiresAt: epoch().Add(3), Head: "c1", Failure: "none",
		Source: "c0", Parent: "s0", Config: &core.TemplateConfig{User: "user", Env: map[string]string{"A": "b"}, Cmd: []string{"-v"}},
		Idle: 90 * time.Second, OnIdle: core.ActionDelete, ActiveAt: epoch().Add(4), StateSince: epoch().Add(5),
		Rules: []core.LifecycleRule{
			{On: core.TriggerDeadline, At: epoch().Add(6), Action: core.ActionStop, FiredAt: epoch().Add(7)},
			{On: core.TriggerTimeInState, After: time.Hour + 1, State: core.StateStopped, Action: core.ActionDelete},
		},
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

// testRules: of every sandbox the record says when the first of its rules is due that the clock alone decides.
func testRules(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	s.view(func(r store.Reader) error {
		at, ok, err := r.NextRule(epoch().Add(-time.Hour))
		if ok || !at.IsZero() {
			t.Fatalf("an empty store has a rule due at %v", at)
		}
		return err
	})
	never, late, soon, dead := newSandbox(alice), newSandbox(alice), newSandbox(bob), newSandbox(bob)
	for _, b := range []*core.Sandbox{&never, &late, &soon, &dead} {
		b.State, b.StateSince, b.CreatedAt = core.StateRunning, epoch(), epoch()
	}
	never.Idle, never.OnIdle, never.ActiveAt = time.Second, core.ActionDelete, epoch() // a rule on use is not decided here
	late.ExpiresAt, dead.ExpiresAt = epoch().Add(20), epoch()
	soon.Rules = []core.LifecycleRule{
		{On: core.TriggerTimeInState, After: 30, State: core.StateStopped, Action: core.ActionDelete},
		{On: core.TriggerAge, After: 10, Action: core.ActionStop},
	}
	dead.State, dead.DeletedAt = core.StateDeleted, epoch()
	s.put(never, late, soon, dead)
	s.wantRules(map[time.Duration][]core.SandboxID{
		0: {}, 9: {}, 10: {soon.ID}, 19: {soon.ID}, 20: {soon.ID, late.ID}, 99: {soon.ID, late.ID},
	}, map[time.Duration]time.Duration{-1: 10, 0: 10, 9: 10, 10: 20, 20: 0})

	// What is written anew is due anew: the rule of the new state, and none any more.
	soon.Become(core.StateStopped, epoch().Add(12))
	late.ExpiresAt = time.Time{}
	s.put(soon, late)
	s.wantRules(map[time.Duration][]core.SandboxID{41: {}, 42: {soon.ID}}, map[time.Duration]time.Duration{0: 42, 42: 0})
}

// wantRules compares what is due at some moments, and what comes next after some; zero is nothing.
func (s *suite) wantRules(due map[time.Duration][]core.SandboxID, next map[time.Duration]time.Duration) {
	s.Helper()
	s.view(func(r store.Reader) error {
		for at, want := range due {
			list, err := r.RulesDue(epoch().Add(at))
			if err != nil {
				return err
			}
			wantSame(s.T, append([]core.SandboxID{}, list...), want)
		}
		for now, want := range next {
			at, ok, err := r.NextRule(epoch().Add(now))
			if err != nil {
				return err
			}
			if ok != (want != 0) || ok && !at.Equal(epoch().Add(want)) {
				s.Errorf("after %d the next rule is due at %v, %v: want %d", now, at, ok, want)
			}
		}
		return nil
	})
}
