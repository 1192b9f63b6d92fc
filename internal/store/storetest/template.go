package storetest

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

func newTemplate(tenant core.TenantID, name string) core.Template {
	return core.Template{
		ID: core.TemplateID(core.NewID()), Tenant: tenant, Name: name,
		Visibility: core.VisibilityPrivate, State: core.TemplateReady, CreatedAt: epoch(),
	}
}

// templateRef is a reference as a caller writes it.
func templateRef(s string) core.TemplateRef {
	ref, ok := core.ParseTemplateRef(s)
	if !ok {
		panic("no reference of a template: " + s)
	}
	return ref
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
		t, err = r.Template(tenant, templateRef(ref))
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
			SizeBytes: 1 << 40, OwnBytes: 1 << 39, Packages: []core.Package{{Name: "a", Version: "1"}, {Name: "b", Version: "2"}},
			Config: core.TemplateConfig{
				User: "user", Workdir: "/home/user", Env: map[string]string{"A": "b"}, Entrypoint: []string{"/app", ""}, Cmd: []string{"-v"},
				Labels: map[string]string{"l": "x"}, Ports: []string{"8080/tcp"},
			},
			Files: 12, Progress: "unpacking", Percent: 40, Failure: "f", CreatedAt: epoch(), ReadyAt: epoch().Add(1),
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
	t.Run("numbers are never used again", func(t *testing.T) { testTemplateNumbers(t, open) })
	t.Run("tags", func(t *testing.T) { testTemplateTags(t, open) })
	t.Run("deleted", func(t *testing.T) { testTemplateDeleted(t, open) })
	t.Run("newest", func(t *testing.T) { testTemplateNewest(t, open) })
	t.Run("by digest", func(t *testing.T) { testTemplateDigest(t, open) })
	t.Run("filters and users", func(t *testing.T) { testTemplateFilter(t, open) })
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
				list, page.Cursor, err = r.ListTemplates(alice, store.TemplateFilter{}, page)
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

func testTemplateNumbers(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	first := s.putTemplate(newTemplate(alice, "app"))
	seven := newTemplate(alice, "app")
	seven.Version = 7
	seven = s.putTemplate(seven)
	for _, gone := range []core.Template{first, seven} {
		gone.State = core.TemplateDeleted
		s.putTemplate(gone)
		s.update(func(tx store.Tx) error { return tx.ForgetTemplate(gone.ID) })
	}
	if next := s.putTemplate(newTemplate(alice, "app")); next.Version != 8 {
		t.Fatalf("after version 7 came version %d", next.Version)
	}
	for ref, want := range map[string]int64{"app": 8, "app@8": 8, "app:latest": 8} {
		if got, err := s.template(alice, ref); err != nil || got.Version != want {
			t.Errorf("%s: version %d, %v", ref, got.Version, err)
		}
	}
	for _, ref := range []string{"app@7", "app@1", "app@9", "app:stable", string(seven.ID)} {
		_, err := s.template(alice, ref)
		wantCode(t, err, core.CodeNotFound)
	}
}

func testTemplateTags(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	one, two, other := s.putTemplate(newTemplate(alice, "app")), s.putTemplate(newTemplate(alice, "app")), s.putTemplate(newTemplate(alice, "other"))
	foreign := s.putTemplate(newTemplate(bob, "app"))
	tag := func(tenant core.TenantID, name, tag string, id core.TemplateID) error {
		return s.try(func(tx store.Tx) error { return tx.TagTemplate(tenant, name, tag, id) })
	}
	for _, word := range []string{"stable", "1.0"} {
		if err := tag(alice, "app", word, one.ID); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.template(alice, "app:stable")
	if err != nil {
		t.Fatal(err)
	}
	one.Tags = []string{"1.0", "stable"}
	wantSame(t, got, one)
	if err := tag(alice, "app", "stable", two.ID); err != nil {
		t.Fatal(err)
	}
	if got, err = s.template(alice, "app:stable"); err != nil || got.ID != two.ID {
		t.Fatalf("a tag that was moved points to %v, %v", got.ID, err)
	}
	for _, bad := range []struct {
		tenant core.TenantID
		name   string
		id     core.TemplateID
	}{{alice, "app", other.ID}, {alice, "app", foreign.ID}, {bob, "app", one.ID}, {alice, "app", core.TemplateID(core.NewID())}} {
		wantCode(t, tag(bad.tenant, bad.name, "x", bad.id), core.CodeNotFound)
	}
	_, err = s.template(bob, "app:stable")
	wantCode(t, err, core.CodeNotFound)
	untag := func(tenant core.TenantID, tag string) error {
		return s.try(func(tx store.Tx) error { return tx.UntagTemplate(tenant, "app", tag) })
	}
	wantCode(t, untag(bob, "stable"), core.CodeNotFound)
	if err := untag(alice, "stable"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, untag(alice, "stable"), core.CodeNotFound)
	_, err = s.template(alice, "app:stable")
	wantCode(t, err, core.CodeNotFound)
	// Putting a version leaves its tags.
	one.Tags = nil
	s.putTemplate(one)
	if got, err = s.template(alice, "app:1.0"); err != nil || got.ID != one.ID {
		t.Fatalf("a tag is lost: %v", err)
	}
}

// testTemplateNewest: a bare name means the highest version that is ready, also if a lower one took longer to make.
func testTemplateNewest(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	slow, quick := newTemplate(alice, "app"), newTemplate(alice, "app")
	quick.ReadyAt = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	slow.ReadyAt = quick.ReadyAt.Add(time.Hour)
	s.putTemplate(slow)
	quick = s.putTemplate(quick)
	if got, err := s.template(alice, "app"); err != nil || got.ID != quick.ID {
		t.Errorf("the newest is version %d, %v", got.Version, err)
	}
}

func testTemplateDeleted(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	one, two := s.putTemplate(newTemplate(alice, "app")), s.putTemplate(newTemplate(alice, "app"))
	s.update(func(tx store.Tx) error { return tx.TagTemplate(alice, "app", "stable", two.ID) })
	// One that is not deleted is not forgotten.
	s.update(func(tx store.Tx) error { return tx.ForgetTemplate(two.ID) })
	two.State = core.TemplateDeleted
	s.putTemplate(two)
	for _, ref := range []string{"app@2", "app:stable", string(two.ID)} {
		_, err := s.template(alice, ref)
		wantCode(t, err, core.CodeNotFound)
	}
	if got, err := s.template(alice, "app"); err != nil || got.ID != one.ID {
		t.Fatalf("the newest is %v, %v", got.ID, err)
	}
	s.view(func(r store.Reader) error {
		_, err := r.TemplateByID(two.ID)
		wantCode(t, err, core.CodeNotFound)
		list, _, err := r.ListTemplates(alice, store.TemplateFilter{}, store.Page{Limit: 10})
		if len(list) != 1 || list[0].ID != one.ID {
			t.Errorf("listed: %+v", list)
		}
		if err != nil {
			return err
		}
		deleted, err := r.TemplatesInState(core.TemplateDeleted)
		if len(deleted) != 1 || deleted[0].ID != two.ID {
			t.Errorf("deleted: %+v", deleted)
		}
		return err
	})
	two.State = core.TemplateReady
	wantCode(t, s.try(func(tx store.Tx) error { _, err := tx.PutTemplate(two); return err }), core.CodeConflict)
	s.update(func(tx store.Tx) error { return tx.ForgetTemplate(two.ID) })
	s.view(func(r store.Reader) error {
		deleted, err := r.TemplatesInState(core.TemplateDeleted)
		if len(deleted) != 0 {
			t.Errorf("not forgotten: %+v", deleted)
		}
		return err
	})
}

func testTemplateDigest(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	digest := "sha256:" + strings.Repeat("ab", 32)
	public := newTemplate(core.SystemTenant, "base")
	public.Visibility, public.Digest = core.VisibilityPublic, digest
	public = s.putTemplate(public)
	foreign := newTemplate(bob, "theirs")
	foreign.Digest = digest
	s.putTemplate(foreign)
	if got, err := s.template(alice, digest); err != nil || got.ID != public.ID {
		t.Fatalf("the public one: %v, %v", got.ID, err)
	}
	own := newTemplate(alice, "app")
	own.Digest, own.State = digest, core.TemplateBuilding
	own = s.putTemplate(own)
	if got, err := s.template(alice, digest); err != nil || got.ID != public.ID {
		t.Fatalf("while its own is not ready: %v, %v", got.ID, err)
	}
	own.State = core.TemplateReady
	s.putTemplate(own)
	if got, err := s.template(alice, digest); err != nil || got.ID != own.ID {
		t.Fatalf("its own: %v, %v", got.ID, err)
	}
}

func testTemplateFilter(t *testing.T, open Open) {
	t.Helper()
	s := start(t, open)
	public := newTemplate(core.SystemTenant, "app")
	public.Visibility = core.VisibilityPublic
	public = s.putTemplate(public)
	one, two := s.putTemplate(newTemplate(alice, "app")), s.putTemplate(newTemplate(alice, "app"))
	other := s.putTemplate(newTemplate(alice, "other"))
	for name, tc := range map[string]struct {
		filter store.TemplateFilter
		want   []core.TemplateID
	}{
		"own":  {store.TemplateFilter{Own: true}, []core.TemplateID{two.ID, one.ID, other.ID}},
		"both": {store.TemplateFilter{Own: true, Name: "app"}, []core.TemplateID{two.ID, one.ID}},
		"none": {store.TemplateFilter{Name: "nothing"}, nil},
	} {
		var got []core.TemplateID
		page := store.Page{Limit: 1}
		for more := true; more; more = page.Cursor != "" {
			s.view(func(r store.Reader) (err error) {
				var list []core.Template
				list, page.Cursor, err = r.ListTemplates(alice, tc.filter, page)
				for _, x := range list {
					got = append(got, x.ID)
				}
				return err
			})
		}
		t.Run(name, func(t *testing.T) { wantSame(t, got, tc.want) })
	}
	s.view(func(r store.Reader) error {
		list, _, err := r.ListTemplates(alice, store.TemplateFilter{Name: "app"}, store.Page{Limit: 10})
		if len(list) != 3 {
			t.Errorf("%d versions of one name, want 3 of both owners", len(list))
		}
		return err
	})
	used := newSandbox(bob)
	used.Template = public.ID
	gone := newSandbox(bob)
	gone.Template, gone.State = public.ID, core.StateDeleted
	s.put(used, gone)
	s.view(func(r store.Reader) error {
		n, names, err := r.TemplateUsers(bob, public.ID, 3)
		if want := []string{cmp.Or(used.Name, string(used.ID))}; n != 1 || !slices.Equal(names, want) {
			t.Errorf("%d use it, %q, want 1, %q", n, names, want)
		}
		return err
	})
	s.view(func(r store.Reader) error {
		n, names, err := r.TemplateUsers(alice, public.ID, 3)
		if n != 1 || len(names) > 0 {
			t.Errorf("for another tenant %d use it, %q, want 1 and no names", n, names)
		}
		return err
	})
}
