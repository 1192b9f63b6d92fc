package storetest

import (
	"testing"

	"shoal/internal/core"
	"shoal/internal/store"
)

func newTemplate(tenant core.TenantID, name string) core.Template {
	return core.Template{
		ID: core.TemplateID(core.NewID()), Tenant: tenant, Name: name,
		Visibility: core.VisibilityPrivate, State: core.TemplateReady, CreatedAt: epoch(),
	}
}

func (s *suite) putTemplate(t core.Template) core.Template {
	s.Helper()
	s.update(func(tx store.Tx) (err error) {
		t, err = tx.PutTemplate(t)
		return err
	})
	return t
}

func (s *suite) template(tenant core.TenantID, ref string) (t core.Template, err error) {
	err = s.View(s.Context(), func(r store.Reader) (err error) {
		t, err = r.Template(tenant, ref)
		return err
	})
	return t, err
}

func testTemplate(t *testing.T, open Open) {
	t.Helper()
	t.Run("every field comes back", func(t *testing.T) {
		s := start(t, open)
		want := core.Template{
			ID: core.TemplateID(core.NewID()), Tenant: alice, Name: "full", Version: 7,
			Visibility: core.VisibilityPublic, State: core.TemplateBuilding, Source: "debian", Digest: "sha256:00",
			SizeBytes: 1 << 40, Packages: []core.Package{{Name: "a", Version: "1"}, {Name: "b", Version: "2"}},
			Config:   core.TemplateConfig{User: "user", Workdir: "/home/user", Env: map[string]string{"A": "b"}},
			Progress: "unpacking", Percent: 40, Failure: "f", CreatedAt: epoch(), ReadyAt: epoch().Add(1),
		}
		s.putTemplate(want)
		got, err := s.template(alice, string(want.ID))
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, got, want)
		want.Progress, want.State, want.Packages = "", core.TemplateReady, nil
		s.putTemplate(want)
		got, err = s.template(alice, "full")
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, got, want)
	})
	t.Run("versions", func(t *testing.T) { testTemplateVersions(t, open) })
	t.Run("whose may be used", func(t *testing.T) { testTemplateUse(t, open) })
	t.Run("pages", func(t *testing.T) {
		s := start(t, open)
		var want, got []core.TemplateID
		for _, name := range []string{"a", "b", "c"} {
			var versions []core.TemplateID
			for range 3 {
				versions = append([]core.TemplateID{s.putTemplate(newTemplate(alice, name)).ID}, versions...)
			}
			want = append(want, versions...)
		}
		page := store.Page{Limit: 2}
		for more := true; more; more = page.Cursor != "" {
			s.view(func(r store.Reader) (err error) {
				var list []core.Template
				list, page.Cursor, err = r.ListTemplates(alice, page)
				for _, tmpl := range list {
					got = append(got, tmpl.ID)
				}
				return err
			})
		}
		wantSame(t, got, want)
	})
}

func testTemplateVersions(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	one := s.putTemplate(newTemplate(alice, "app"))
	two := newTemplate(alice, "app")
	two.State = core.TemplateBuilding
	two = s.putTemplate(two)
	other := s.putTemplate(newTemplate(bob, "app"))
	if one.Version != 1 || two.Version != 2 || other.Version != 1 {
		t.Fatalf("versions %d, %d, %d: want 1, 2, 1", one.Version, two.Version, other.Version)
	}
	got, err := s.template(alice, "app")
	if err != nil || got.ID != one.ID {
		t.Fatalf("while version 2 is built: got version %d, %v", got.Version, err)
	}
	two.State = core.TemplateReady
	s.putTemplate(two)
	if got, err = s.template(alice, "app"); err != nil || got.ID != two.ID {
		t.Fatalf("when version 2 is ready: got version %d, %v", got.Version, err)
	}
	if got, err = s.template(alice, string(one.ID)); err != nil || got.ID != one.ID {
		t.Fatalf("by id: got version %d, %v", got.Version, err)
	}
	for name, spoil := range map[string]func(*core.Template){
		"version taken":   func(x *core.Template) { x.ID = core.TemplateID(core.NewID()) },
		"other tenant":    func(x *core.Template) { x.Tenant = bob; x.Version = 9 },
		"other name":      func(x *core.Template) { x.Name = "renamed" },
		"other version":   func(x *core.Template) { x.Version = 9 },
		"new, old id":     func(x *core.Template) { x.Version = 0 },
		"only the tenant": func(x *core.Template) { *x = two; x.Tenant = bob },
	} {
		x := one
		spoil(&x)
		err := s.try(func(tx store.Tx) error { _, err := tx.PutTemplate(x); return err })
		if core.CodeOf(err) != core.CodeConflict {
			t.Errorf("%s: got %v, want conflict", name, err)
		}
	}
	s.view(func(r store.Reader) error {
		ready, err := r.TemplatesInState(core.TemplateReady)
		if len(ready) != 3 {
			t.Fatalf("%d templates are ready, want 3 of both tenants", len(ready))
		}
		return err
	})
}

func testTemplateUse(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	public, hidden, foreign := newTemplate(core.SystemTenant, "base"), newTemplate(core.SystemTenant, "hidden"), newTemplate(bob, "theirs")
	public.Visibility, foreign.Visibility = core.VisibilityPublic, core.VisibilityPublic
	public, hidden, foreign = s.putTemplate(public), s.putTemplate(hidden), s.putTemplate(foreign)
	if got, err := s.template(alice, "base"); err != nil || got.ID != public.ID {
		t.Fatalf("a public template of the system: %v, %v", got.ID, err)
	}
	for _, ref := range []string{"hidden", string(hidden.ID), "theirs", string(foreign.ID)} {
		_, err := s.template(alice, ref)
		wantCode(t, err, core.CodeNotFound)
	}
	// A tenant's own template wins over the system's, even over a newer one.
	own := s.putTemplate(newTemplate(alice, "base"))
	newer := newTemplate(core.SystemTenant, "base")
	newer.Visibility = core.VisibilityPublic
	s.putTemplate(newer)
	if got, err := s.template(alice, "base"); err != nil || got.ID != own.ID {
		t.Fatalf("own template: got %v of %v, %v", got.ID, got.Tenant, err)
	}
	if got, err := s.template(bob, "base"); err != nil || got.Version != 2 {
		t.Fatalf("for bob: got version %d, %v", got.Version, err)
	}
}
