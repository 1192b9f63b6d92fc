package control_test

import (
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// TestAttenuation: a key makes narrower keys only, each of which may be narrowed further.
func TestAttenuation(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	admin, _ := adminOf(w)
	may := core.ScopesOf(core.ScopeKeys, core.ScopeExecs, core.ScopeSandboxesRead)
	parent, p := w.keyOf(admin, core.KeySpec{Scopes: may, ExpiresIn: time.Hour, Labels: map[string]string{"team": "a"}})
	if parent.Parent != "" {
		t.Errorf("a key of the operator's descends from %s", parent.Parent)
	}
	child, c := w.keyOf(p, core.KeySpec{})
	if child.Parent != parent.ID || child.Scopes != core.ScopesOf(core.ScopeExecs, core.ScopeSandboxesRead) ||
		!child.ExpiresAt.Equal(parent.ExpiresAt) || child.Labels["team"] != "a" || child.Tenant != p.Tenant {
		t.Errorf("a child without a word is %+v", child)
	}
	narrow, n := w.keyOf(p, core.KeySpec{
		Scopes: core.ScopesOf(core.ScopeKeys), ExpiresIn: time.Minute, Labels: map[string]string{"user": "u1"},
	})
	if len(narrow.Labels) != 2 || narrow.Scopes != core.ScopesOf(core.ScopeKeys) || narrow.ExpiresAt.After(parent.ExpiresAt) {
		t.Errorf("a narrow child is %+v", narrow)
	}
	for name, tc := range map[string]struct {
		code  core.Code
		field string
		by    control.Principal
		spec  core.KeySpec
	}{
		"another scope":    {core.CodeDenied, "scopes", p, core.KeySpec{Scopes: core.ScopesOf(core.ScopeFiles)}},
		"the operator's":   {core.CodeDenied, "scopes", p, core.KeySpec{Scopes: core.AllScopes()}},
		"a longer life":    {core.CodeInvalid, "expires_in_seconds", p, core.KeySpec{ExpiresIn: 2 * time.Hour}},
		"other sandboxes":  {core.CodeInvalid, "labels", p, core.KeySpec{Labels: map[string]string{"team": "b"}}},
		"without the word": {core.CodeDenied, "", c, core.KeySpec{}},
		"nothing to give":  {core.CodeDenied, "scopes", n, core.KeySpec{}},
		"operator, labels": {core.CodeInvalid, "scopes", admin, core.KeySpec{Scopes: core.AllScopes(), Labels: map[string]string{"a": "b"}}},
	} {
		_, _, err := w.svc.NewKey(t.Context(), tc.by, tc.spec)
		if e := wantCode(t, err, tc.code); e.Field != tc.field {
			t.Errorf("%s: %+v", name, e)
		}
	}
	elsewhere := admin
	elsewhere.Tenant = "bob"
	_, _, err := w.svc.NewKey(t.Context(), elsewhere, core.KeySpec{Scopes: core.ScopesOf(core.ScopeAdmin)})
	wantCode(t, err, core.CodeInvalid)
	second, o := w.keyOf(admin, core.KeySpec{Scopes: core.ScopesOf(core.ScopeAdmin)})
	if !second.Admin || !o.Admin || o.Scopes != core.AllScopes() {
		t.Errorf("a second operator's is %+v", o)
	}
}

// TestKeysDieWithTheirParent: with a key everything goes that descends from it, and nobody is told of keys that aren't theirs.
func TestKeysDieWithTheirParent(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	admin, _ := adminOf(w)
	keysToo := core.KeySpec{Scopes: core.ScopesOf(core.ScopeKeys, core.ScopeExecs)}
	top, boss := w.keyOf(admin, keysToo)
	a, pa := w.keyOf(boss, keysToo)
	b, pb := w.keyOf(boss, keysToo)
	deep, pd := w.keyOf(pa, keysToo)
	count := func(p control.Principal) int {
		list, _, err := w.svc.ListKeys(t.Context(), p, store.Page{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	for who, want := range map[string][2]int{"boss": {count(boss), 4}, "a": {count(pa), 2}, "b": {count(pb), 1}, "admin": {count(admin), 5}} {
		if want[0] != want[1] {
			t.Errorf("%s sees %d keys, want %d", who, want[0], want[1])
		}
	}
	absent := w.svc.DeleteKey(t.Context(), pb, core.KeyID(core.NewID()))
	for _, id := range []core.KeyID{a.ID, deep.ID, top.ID, core.KeyID(admin.Actor.ID)} {
		if err := w.svc.DeleteKey(t.Context(), pb, id); err == nil || err.Error() != absent.Error() {
			t.Errorf("b deletes %s: %v", id, err)
		}
	}
	if err := w.svc.DeleteKey(t.Context(), boss, core.KeyID(admin.Actor.ID)); err == nil || err.Error() != absent.Error() {
		t.Errorf("a tenant deletes the operator's key: %v", err)
	}
	if err := w.svc.DeleteKey(t.Context(), boss, a.ID); err != nil {
		t.Fatal(err)
	}
	for id, p := range map[core.KeyID]control.Principal{a.ID: pa, deep.ID: pd} {
		_, _, err := w.svc.NewKey(t.Context(), p, core.KeySpec{})
		if e := wantCode(t, err, core.CodeUnauthenticated); e.Message != "the API key was deleted: what was started goes on" {
			t.Errorf("%s makes another: %v", id, err)
		}
	}
	if count(boss) != 2 {
		t.Errorf("left are %d, want the boss and %s", count(boss), b.ID)
	}
}

// TestKeyUseIsWrittenDown: when a key was last used is on record, at most a minute late, and costs a write a minute.
func TestKeyUseIsWrittenDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	admin, _ := adminOf(w)
	key, secret, err := w.svc.NewKey(t.Context(), admin, core.KeySpec{})
	if err != nil {
		t.Fatal(err)
	}
	used := func() (at time.Time) {
		w.change(func(tx store.Tx) error {
			k, err := tx.Key(key.Tenant, key.ID)
			at = k.UsedAt
			return err
		})
		return at
	}
	if !used().IsZero() {
		t.Error("it was used before it was used")
	}
	use := func() {
		if _, err := w.svc.Authenticate(t.Context(), secret.Reveal()); err != nil {
			t.Fatal(err)
		}
	}
	first := w.clock.Now()
	use()
	eventually(t, "the use is on record", func() bool { return used().Equal(first) })
	w.clock.advance(59 * time.Second)
	use()
	w.clock.advance(time.Second)
	second := w.clock.Now()
	use()
	eventually(t, "the later use is on record", func() bool { return used().Equal(second) })
}

// TestExpiredKeysAreForgotten: a key is listed for a week after its end, then it is gone.
func TestExpiredKeysAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	admin, _ := adminOf(w)
	w.keyOf(admin, core.KeySpec{ExpiresIn: time.Minute})
	count := func() int {
		list, _, err := w.svc.ListKeys(t.Context(), admin, store.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if count() != 2 {
		t.Fatal("it is not listed")
	}
	eventually(t, "it is forgotten", func() bool {
		w.clock.advance(7*24*time.Hour + time.Hour)
		return count() == 1
	})
}

// TestTie: what a caller was let in by is gone, and its calls are told so at once, whoever else goes on.
func TestTie(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	admin, _ := adminOf(w)
	key, p := w.keyOf(admin, core.KeySpec{Scopes: core.ScopesOf(core.ScopeKeys)})
	_, child := w.keyOf(p, core.KeySpec{Scopes: core.ScopesOf(core.ScopeKeys)})
	_, short := w.keyOf(admin, core.KeySpec{ExpiresIn: time.Minute})
	_, other := w.keyOf(admin, core.KeySpec{})
	told := func(p control.Principal) chan error {
		c := make(chan error, 8)
		release, err := w.svc.Tie(p, func(cause error) { c <- cause })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(release)
		return c
	}
	byKey, byChild, byShort, byOther := told(p), told(child), told(short), told(other)
	if err := w.svc.DeleteKey(t.Context(), admin, key.ID); err != nil {
		t.Fatal(err)
	}
	for _, c := range []chan error{byKey, byChild} {
		select {
		case err := <-c:
			wantCode(t, err, core.CodeUnauthenticated)
		default:
			t.Error("the delete was answered, and the call goes on")
		}
	}
	// One that was let in before and comes late is turned away.
	_, err := w.svc.Tie(child, func(error) {})
	wantCode(t, err, core.CodeUnauthenticated)
	eventually(t, "the call of the key that expires ends", func() bool {
		w.clock.advance(time.Second)
		return len(byShort) > 0
	})
	if len(byOther) != 0 || len(byKey)+len(byChild) != 0 {
		t.Error("a call was ended that should not be, or twice")
	}
	_, err = w.svc.Tie(short, func(error) {})
	wantCode(t, err, core.CodeUnauthenticated)
	told(other)
}

// TestTieWhileAnotherEnds: a key that expires soon ends its call in time, though it came while the one before it was being ended.
func TestTieWhileAnotherEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	admin, _ := adminOf(w)
	_, first := w.keyOf(admin, core.KeySpec{ExpiresIn: time.Minute})
	_, second := w.keyOf(admin, core.KeySpec{ExpiresIn: 75 * time.Second})
	ended, tied := make(chan error, 1), make(chan error, 1)
	_, err := w.svc.Tie(first, func(error) {
		_, err := w.svc.Tie(second, func(cause error) { ended <- cause })
		tied <- err
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first call ends", func() bool {
		w.clock.advance(time.Second)
		return len(tied) > 0
	})
	if err := <-tied; err != nil {
		t.Fatal(err)
	}
	left := 20 // seconds, in which nothing but the second key's expiry has anything looked at
	eventually(t, "the second call ends in time", func() bool {
		if left > 0 {
			left--
			w.clock.advance(time.Second)
		}
		return len(ended) > 0
	})
	wantCode(t, <-ended, core.CodeUnauthenticated)
}

// TestLabeledKeySeesItsOwnKeys: what shows all of a tenant is denied to a key for some sandboxes, and so are the tenant's other keys.
func TestLabeledKeySeesItsOwnKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	admin, _ := adminOf(w)
	wide, _ := w.keyOf(admin, core.KeySpec{})
	own, p := w.keyOf(admin, core.KeySpec{Scopes: core.ScopesOf(core.ScopeKeys, core.ScopeExecs), Labels: map[string]string{"team": "a"}})
	child, _ := w.keyOf(p, core.KeySpec{})
	list, _, err := w.svc.ListKeys(t.Context(), p, store.Page{Limit: 10})
	if err != nil || len(list) != 2 || list[0].ID != child.ID && list[1].ID != child.ID || list[0].ID != own.ID && list[1].ID != own.ID {
		t.Errorf("it lists %+v, %v", list, err)
	}
	wantCode(t, w.svc.DeleteKey(t.Context(), p, wide.ID), core.CodeNotFound)
	if err := w.svc.DeleteKey(t.Context(), p, child.ID); err != nil {
		t.Error(err)
	}
}
