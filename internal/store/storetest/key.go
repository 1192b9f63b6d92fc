package storetest

import (
	"slices"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

func newKey(tenant core.TenantID) core.Key {
	id := core.NewID()
	return core.Key{ID: core.KeyID(id), Tenant: tenant, Hash: core.HashSecret(id), CreatedAt: epoch()}
}

func (s *suite) putKey(k core.Key) core.Key {
	s.Helper()
	s.update(func(tx store.Tx) error { return tx.PutKey(k) })
	return k
}

func testKey(t *testing.T, open Open) {
	t.Helper()
	t.Run("every field comes back", func(t *testing.T) {
		s := start(t, open)
		want := newKey(alice)
		want.Name, want.Admin, want.ExpiresAt, want.UsedAt = "ci", true, epoch().Add(time.Hour), epoch().Add(time.Minute)
		want.Dialect, want.Scopes, want.Labels, want.Parent = core.KeyE2B, core.AllScopes(), map[string]string{"team": "a"}, "k0"
		s.putKey(want)
		s.putKey(newKey(bob))
		s.view(func(r store.Reader) error {
			got, err := r.Key(alice, want.ID)
			wantSame(t, got, want)
			if err != nil {
				return err
			}
			list, next, err := r.ListKeys(alice, store.KeyFilter{}, store.Page{Limit: 1})
			wantSame(t, list, []core.Key{want})
			wantSame(t, next, "")
			_, absent := r.Key(bob, core.KeyID(core.NewID()))
			_, foreign := r.Key(bob, want.ID)
			sameNotFound(t, absent, foreign)
			return err
		})
	})
	t.Run("a deleted one is gone", func(t *testing.T) {
		s := start(t, open)
		key, other := s.putKey(newKey(alice)), s.putKey(newKey(alice))
		remove := func(tenant core.TenantID, id core.KeyID) error {
			return s.try(func(tx store.Tx) error { _, err := tx.DeleteKey(tenant, id); return err })
		}
		sameNotFound(t, remove(bob, core.KeyID(core.NewID())), remove(bob, key.ID))
		if err := remove(alice, key.ID); err != nil {
			t.Fatal(err)
		}
		wantCode(t, remove(alice, key.ID), core.CodeNotFound)
		s.view(func(r store.Reader) error {
			_, err := r.KeyByHash(key.Hash)
			wantCode(t, err, core.CodeNotFound)
			_, err = r.Key(alice, key.ID)
			wantCode(t, err, core.CodeNotFound)
			_, err = r.KeyByHash(other.Hash)
			return err
		})
	})
	t.Run("pages", func(t *testing.T) { testKeyPages(t, open) })
	t.Run("families", func(t *testing.T) { testKeyFamilies(t, open) })
	t.Run("use and end", func(t *testing.T) { testKeyUse(t, open) })
}

// testKeyPages walks the list in pages: newest first, and of one moment each once.
func testKeyPages(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	var want []core.Key
	for i := range 11 {
		k := newKey(alice)
		k.CreatedAt = epoch().Add(time.Duration(i/4) * time.Second)
		want = append(want, s.putKey(k))
		s.putKey(newKey(bob))
	}
	slices.SortFunc(want, func(a, b core.Key) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 || a.ID == b.ID {
			return c
		} else if a.ID > b.ID {
			return -1
		}
		return 1
	})
	var got []core.Key
	page := store.Page{Limit: 3}
	for more := true; more; more = page.Cursor != "" {
		s.view(func(r store.Reader) (err error) {
			var list []core.Key
			list, page.Cursor, err = r.ListKeys(alice, store.KeyFilter{}, page)
			got = append(got, list...)
			return err
		})
	}
	wantSame(t, got, want)
	s.view(func(r store.Reader) error {
		_, _, err := r.ListKeys(alice, store.KeyFilter{}, store.Page{Limit: 0})
		wantField(t, err, "limit")
		_, _, err = r.ListKeys(alice, store.KeyFilter{}, store.Page{Limit: 1, Cursor: "x"})
		wantField(t, err, "cursor")
		return nil
	})
}

// testKeyFamilies: with a key go all that descend from it, and nothing else.
func testKeyFamilies(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	child := func(of core.Key) core.Key {
		k := newKey(of.Tenant)
		k.Parent, k.CreatedAt = of.ID, of.CreatedAt.Add(time.Second)
		return s.putKey(k)
	}
	root := s.putKey(newKey(alice))
	a, b := child(root), child(root)
	deep := child(a)
	boss := newKey(alice)
	boss.Admin = true
	s.putKey(boss)
	stranger := newKey(bob)
	stranger.Parent = a.ID // no key of another tenant descends from it, whatever the record says
	stranger = s.putKey(stranger)
	ids := func(f store.KeyFilter) map[core.KeyID]bool {
		out := map[core.KeyID]bool{}
		s.view(func(r store.Reader) error {
			list, _, err := r.ListKeys(alice, f, store.Page{Limit: 100})
			for _, k := range list {
				out[k.ID] = true
			}
			return err
		})
		return out
	}
	wantSame(t, ids(store.KeyFilter{Under: a.ID}), map[core.KeyID]bool{a.ID: true, deep.ID: true})
	wantSame(t, ids(store.KeyFilter{NoAdmins: true}), map[core.KeyID]bool{root.ID: true, a.ID: true, b.ID: true, deep.ID: true})
	s.view(func(r store.Reader) error {
		for _, tc := range []struct {
			id, from core.KeyID
			want     bool
		}{{deep.ID, root.ID, true}, {a.ID, a.ID, true}, {a.ID, deep.ID, false}, {b.ID, a.ID, false}, {stranger.ID, a.ID, false}} {
			got, err := r.KeyDescends(alice, tc.id, tc.from)
			if err != nil || got != tc.want {
				t.Errorf("%s from %s: %v, %v", tc.id, tc.from, got, err)
			}
		}
		return nil
	})
	var gone []core.Key
	s.update(func(tx store.Tx) (err error) {
		gone, err = tx.DeleteKey(alice, a.ID)
		return err
	})
	wantSame(t, gone, []core.Key{a, deep})
	wantSame(t, ids(store.KeyFilter{}), map[core.KeyID]bool{root.ID: true, b.ID: true, boss.ID: true})
	s.view(func(r store.Reader) error {
		_, err := r.KeyByHash(stranger.Hash)
		return err
	})
}

// testKeyUse: the last use is written alone, and keys that expired long ago are forgotten.
func testKeyUse(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	old, good := newKey(alice), newKey(alice)
	old.ExpiresAt = epoch().Add(time.Hour)
	s.putKey(old)
	s.putKey(good)
	s.update(func(tx store.Tx) error {
		if err := tx.PutKeyUsed("nobody", epoch()); err != nil {
			return err
		}
		return tx.PutKeyUsed(good.ID, epoch().Add(time.Minute))
	})
	good.UsedAt = epoch().Add(time.Minute)
	s.update(func(tx store.Tx) error { return tx.ForgetKeys(old.ExpiresAt) })
	s.view(func(r store.Reader) error { _, err := r.Key(alice, old.ID); return err })
	s.update(func(tx store.Tx) error { return tx.ForgetKeys(old.ExpiresAt.Add(time.Second)) })
	s.view(func(r store.Reader) error {
		list, _, err := r.ListKeys(alice, store.KeyFilter{}, store.Page{Limit: 10})
		wantSame(t, list, []core.Key{good})
		return err
	})
}
