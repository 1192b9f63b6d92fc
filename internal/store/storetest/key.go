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
		want.Name, want.Admin, want.ExpiresAt = "ci", true, epoch().Add(time.Hour)
		s.putKey(want)
		s.putKey(newKey(bob))
		s.view(func(r store.Reader) error {
			got, err := r.Key(alice, want.ID)
			wantSame(t, got, want)
			if err != nil {
				return err
			}
			list, next, err := r.ListKeys(alice, store.Page{Limit: 1})
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
			return s.try(func(tx store.Tx) error { return tx.DeleteKey(tenant, id) })
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
			list, page.Cursor, err = r.ListKeys(alice, page)
			got = append(got, list...)
			return err
		})
	}
	wantSame(t, got, want)
	s.view(func(r store.Reader) error {
		_, _, err := r.ListKeys(alice, store.Page{Limit: 0})
		wantField(t, err, "limit")
		_, _, err = r.ListKeys(alice, store.Page{Limit: 1, Cursor: "x"})
		wantField(t, err, "cursor")
		return nil
	})
}
