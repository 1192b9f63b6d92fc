package control_test

import (
	"context"
	"regexp"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/store"
)

// adminOf returns who holds the admin key, and its secret.
func adminOf(w *world) (control.Principal, string) {
	w.t.Helper()
	secret, err := w.svc.NewAdminKey(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := w.svc.Authenticate(context.Background(), secret.Reveal())
	if err != nil || !p.Admin {
		w.t.Fatalf("the admin key: %+v, %v", p, err)
	}
	return p, secret.Reveal()
}

func TestNewKey(t *testing.T) {
	w := newWorld(t).start()
	admin, _ := adminOf(w)
	for dialect, form := range map[core.KeyDialect]string{
		core.KeyNative: `^shoal_[A-Za-z0-9_-]{43}$`,
		core.KeyE2B:    `^e2b_[0-9a-f]{40}$`,
		core.KeyPanda:  `^pds_[0-9a-f]{40,}$`,
	} {
		seen := map[string]bool{}
		for range 2 {
			key, secret, err := w.svc.NewKey(t.Context(), admin, core.KeySpec{Name: "laptop", Dialect: dialect})
			if err != nil {
				t.Fatal(err)
			}
			if !regexp.MustCompile(form).MatchString(secret.Reveal()) || seen[secret.Reveal()] {
				t.Errorf("%q: a secret of %d characters is not of the form %s, or not new", dialect, len(secret.Reveal()), form)
			}
			seen[secret.Reveal()] = true
			p, err := w.svc.Authenticate(t.Context(), secret.Reveal())
			if err != nil || p.Tenant != admin.Tenant || p.Admin || p.Actor.ID != string(key.ID) {
				t.Errorf("%q: it is for %+v, %v", dialect, p, err)
			}
			if key.Hash == secret.Reveal() || key.Name != "laptop" || !key.ExpiresAt.IsZero() {
				t.Errorf("%q: made %+v", dialect, key)
			}
		}
	}
}

func TestNewKeyRefuses(t *testing.T) {
	w := newWorld(t).start()
	admin, _ := adminOf(w)
	for _, tc := range []struct {
		name, field string
		spec        core.KeySpec
	}{
		{"name", "name", core.KeySpec{Name: "Not A Name"}},
		{"dialect", "dialect", core.KeySpec{Dialect: "sprites"}},
		{"negative life", "expires_in_seconds", core.KeySpec{ExpiresIn: -1}},
		{"long life", "expires_in_seconds", core.KeySpec{ExpiresIn: 11 * 365 * 24 * time.Hour}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, secret, err := w.svc.NewKey(t.Context(), admin, tc.spec)
			if e := wantCode(t, err, core.CodeInvalid); e.Field != tc.field || !secret.IsEmpty() {
				t.Errorf("blames %q, want %q", e.Field, tc.field)
			}
		})
	}
}

func TestKeyExpires(t *testing.T) {
	w := newWorld(t).start()
	admin, _ := adminOf(w)
	key, secret, err := w.svc.NewKey(t.Context(), admin, core.KeySpec{ExpiresIn: time.Minute})
	if err != nil || key.ExpiresAt != key.CreatedAt.Add(time.Minute) {
		t.Fatalf("%+v, %v", key, err)
	}
	w.clock.advance(time.Minute - 1)
	if _, err := w.svc.Authenticate(t.Context(), secret.Reveal()); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(1)
	_, err = w.svc.Authenticate(t.Context(), secret.Reveal())
	wantCode(t, err, core.CodeUnauthenticated)
}

func TestDeleteKey(t *testing.T) {
	w := newWorld(t).start()
	admin, adminSecret := adminOf(w)
	key, secret, err := w.svc.NewKey(t.Context(), admin, core.KeySpec{Name: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	foreign := admin
	foreign.Tenant = "bob"
	wantCode(t, w.svc.DeleteKey(t.Context(), foreign, key.ID), core.CodeNotFound)
	wantCode(t, w.svc.DeleteKey(t.Context(), admin, core.KeyID(admin.Actor.ID)), core.CodeConflict)
	if err := w.svc.DeleteKey(t.Context(), admin, key.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.svc.Authenticate(t.Context(), secret.Reveal())
	wantCode(t, err, core.CodeUnauthenticated)
	wantCode(t, w.svc.DeleteKey(t.Context(), admin, key.ID), core.CodeNotFound)
	if _, err := w.svc.Authenticate(t.Context(), adminSecret); err != nil {
		t.Fatal(err)
	}
	list, _, err := w.svc.ListKeys(t.Context(), admin, store.Page{Limit: 10})
	if err != nil || len(list) != 1 || !list[0].Admin {
		t.Errorf("left are %+v, %v", list, err)
	}
	events, _, err := w.svc.Events(t.Context(), admin, "", 0, 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	var told []core.EventType
	for _, e := range events {
		if e.Data["key_id"] == string(key.ID) && e.Data["name"] == "gone" && e.Actor == admin.Actor {
			told = append(told, e.Type)
		}
	}
	if len(told) != 2 || told[0] != core.EventKeyCreated || told[1] != core.EventKeyDeleted {
		t.Errorf("events tell %v", told)
	}
}

// TestKeysTakeAScope: an ordinary key, even of the same tenant, can't make itself a second one or remove others.
func TestKeysTakeAScope(t *testing.T) {
	w := newWorld(t).start()
	admin, _ := adminOf(w)
	key, secret, err := w.svc.NewKey(t.Context(), admin, core.KeySpec{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.svc.Authenticate(t.Context(), secret.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = w.svc.NewKey(t.Context(), p, core.KeySpec{})
	wantCode(t, err, core.CodeDenied)
	_, _, err = w.svc.ListKeys(t.Context(), p, store.Page{Limit: 10})
	wantCode(t, err, core.CodeDenied)
	wantCode(t, w.svc.DeleteKey(t.Context(), p, key.ID), core.CodeDenied)
}
