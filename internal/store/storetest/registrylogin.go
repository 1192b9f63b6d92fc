package storetest

import (
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

func testRegistryLogin(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	login := func(tenant core.TenantID, host string) core.RegistryLogin {
		return core.RegistryLogin{
			Tenant: tenant, Host: host, Username: "ci", Sealed: []byte{1, 0, 255}, CreatedAt: epoch(), UpdatedAt: epoch().Add(time.Minute),
		}
	}
	get := func(tenant core.TenantID, host string) (l core.RegistryLogin, err error) {
		err = s.View(t.Context(), func(r store.Reader) error {
			l, err = r.RegistryLogin(tenant, host)
			return err
		})
		return l, err
	}
	put := func(l core.RegistryLogin) { s.update(func(tx store.Tx) error { return tx.PutRegistryLogin(l) }) }
	for _, l := range []core.RegistryLogin{login(alice, "c.example"), login(alice, "a.example"), login(alice, "b.example:5000"), login(bob, "a.example")} {
		put(l)
		got, err := get(l.Tenant, l.Host)
		wantSame(t, got, l)
		if err != nil {
			t.Fatal(err)
		}
	}
	again := login(alice, "a.example")
	again.Username, again.Sealed, again.UpdatedAt = "", []byte{2}, epoch().Add(time.Hour)
	late := again
	late.CreatedAt = epoch().Add(time.Hour)
	put(late)
	got, err := get(alice, "a.example")
	wantSame(t, got, again)
	others, oerr := get(bob, "a.example")
	wantSame(t, others, login(bob, "a.example"))
	if err != nil || oerr != nil {
		t.Fatal(err, oerr)
	}
	for _, bad := range []core.RegistryLogin{
		{Host: "a", Sealed: []byte{1}},
		{Tenant: alice, Sealed: []byte{1}},
		{Tenant: alice, Host: "a"},
		{Tenant: alice, Host: "a", Username: "\xff", Sealed: []byte{1}},
	} {
		wantCode(t, s.try(func(tx store.Tx) error { return tx.PutRegistryLogin(bad) }), core.CodeInvalid)
	}
	_, absent := get(bob, "nobody.example")
	_, theirs := get(bob, "c.example")
	sameNotFound(t, absent, theirs)

	var hosts []string
	s.view(func(r store.Reader) error {
		for page := (store.Page{Limit: 2}); ; {
			list, next, err := r.ListRegistryLogins(alice, page)
			for _, l := range list {
				hosts = append(hosts, l.Host)
			}
			if page.Cursor = next; err != nil || next == "" {
				return err
			}
		}
	})
	wantSame(t, hosts, []string{"a.example", "b.example:5000", "c.example"})
	s.view(func(r store.Reader) error {
		_, _, err := r.ListRegistryLogins(alice, store.Page{Limit: 0})
		wantCode(t, err, core.CodeInvalid)
		_, _, err = r.ListRegistryLogins(alice, store.Page{Limit: 1, Cursor: "x"})
		wantCode(t, err, core.CodeInvalid)
		return nil
	})

	remove := func(tenant core.TenantID, host string) error {
		return s.try(func(tx store.Tx) error { return tx.DeleteRegistryLogin(tenant, host) })
	}
	wantCode(t, remove(bob, "c.example"), core.CodeNotFound)
	if err := remove(alice, "c.example"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, remove(alice, "c.example"), core.CodeNotFound)
	s.update(func(tx store.Tx) error {
		_, err := tx.PurgeTenant(alice)
		return err
	})
	_, err = get(alice, "a.example")
	wantCode(t, err, core.CodeNotFound)
	if _, err := get(bob, "a.example"); err != nil {
		t.Error(err)
	}
}
