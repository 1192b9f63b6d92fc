package control_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/seal"
	"shoal/internal/store"
)

// hunter is the password of ci at private.example.
const hunter = "hunter2-and-more"

// enter lets an import of private.example in that has the login of ci, and tells what a registry would tell one that has not. Logins of
// other hosts are asked for too, as no importer does.
func (g *gallery) enter(ctx context.Context, src core.ImageSource) error {
	if strings.HasSuffix(src.Ref, "/slow") {
		select {
		case <-g.slow:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	user, password := src.Username, src.Password
	if user == "" && password == "" {
		for _, host := range []string{"example", "private.example:443", "other.example", "", "x"} {
			if u, p, err := src.Login(ctx, host); u != "" || p != "" || err != nil {
				g.t.Errorf("%s has the login %q, %v", host, u, err)
			}
		}
		var err error
		if user, password, err = src.Login(ctx, "private.example"); err != nil {
			return err
		}
	}
	if user != "ci" || password.Reveal() != hunter {
		return core.Errorf(core.CodeDenied, "the registry refuses")
	}
	return nil
}

func ciLogin() core.RegistryLoginSpec {
	return core.RegistryLoginSpec{Host: "Private.Example", Username: "ci", Password: hunter}
}

// importAs imports and returns how it ended.
func (g *gallery) importAs(p control.Principal, src core.ImageSource) core.Operation {
	g.t.Helper()
	op, err := g.svc.CreateTemplate(g.t.Context(), p, core.TemplateSpec{Name: "app", Image: src})
	if err != nil {
		g.t.Fatal(err)
	}
	op, err = g.svc.AwaitOperation(g.t.Context(), p, op.ID, 1<<60, time.Hour)
	if err != nil || !op.Ended() {
		g.t.Fatalf("%+v, %v", op, err)
	}
	return op
}

// TestRegistryLogin: a kept login is used for the imports of its tenant and its registry and for no others, an import that brings its own
// uses that, and nothing that can be read anywhere has the password.
func TestRegistryLogin(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	private := image("private.example/app")
	if op := g.importAs(alice, private); op.Code != core.CodeDenied {
		t.Errorf("without a login: %+v", op)
	}
	kept, err := g.svc.PutRegistryLogin(t.Context(), alice, ciLogin())
	if err != nil || kept.Host != "private.example" || kept.Username != "ci" {
		t.Fatalf("%+v, %v", kept, err)
	}
	if op := g.importAs(alice, private); op.State != core.OperationSucceeded {
		t.Errorf("with it: %+v", op)
	}
	if op := g.importAs(bob, private); op.Code != core.CodeDenied {
		t.Errorf("another tenant: %+v", op)
	}
	own := private
	own.Username, own.Password = "ci", "wrong"
	if op := g.importAs(alice, own); op.Code != core.CodeDenied {
		t.Errorf("with a login of its own, which is wrong: %+v", op)
	}

	g.clock.advance(time.Minute)
	worse := ciLogin()
	worse.Password = "changed"
	again, err := g.svc.PutRegistryLogin(t.Context(), alice, worse)
	if err != nil || !again.CreatedAt.Equal(kept.CreatedAt) || !again.UpdatedAt.Equal(kept.CreatedAt.Add(time.Minute)) {
		t.Errorf("%+v, %v", again, err)
	}
	if op := g.importAs(alice, private); op.Code != core.CodeDenied {
		t.Errorf("with another password: %+v", op)
	}

	list, next, err := g.svc.ListRegistryLogins(t.Context(), alice, store.Page{Limit: 10})
	if err != nil || next != "" || len(list) != 1 || list[0].Host != "private.example" {
		t.Errorf("%+v, %q, %v", list, next, err)
	}
	if list, _, err := g.svc.ListRegistryLogins(t.Context(), bob, store.Page{Limit: 10}); len(list) != 0 || err != nil {
		t.Errorf("bob sees %+v, %v", list, err)
	}
	_, absent := g.svc.GetRegistryLogin(t.Context(), bob, "nobody.example")
	_, theirs := g.svc.GetRegistryLogin(t.Context(), bob, "private.example")
	if wantCode(t, absent, core.CodeNotFound).Message != wantCode(t, theirs, core.CodeNotFound).Message {
		t.Errorf("%v and %v", absent, theirs)
	}
	wantCode(t, g.svc.DeleteRegistryLogin(t.Context(), bob, "private.example"), core.CodeNotFound)
	if err := g.svc.DeleteRegistryLogin(t.Context(), alice, "private.example"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, g.svc.DeleteRegistryLogin(t.Context(), alice, "private.example"), core.CodeNotFound)
	if op := g.importAs(alice, private); op.Code != core.CodeDenied {
		t.Errorf("after it was deleted: %+v", op)
	}

	var types []string
	events, _, err := g.svc.Events(t.Context(), alice, "", 0, 1000, 0)
	for _, e := range events {
		if strings.HasPrefix(string(e.Type), "login.") {
			types = append(types, string(e.Type)+" "+e.Data["host"])
		}
	}
	want := []string{"login.kept private.example", "login.kept private.example", "login.deleted private.example"}
	if err != nil || !slices.Equal(types, want) {
		t.Errorf("%q, %v", types, err)
	}
	g.noPassword()
}

// noPassword fails if the database or its log has the password anywhere.
func (g *gallery) noPassword() {
	g.t.Helper()
	files, err := filepath.Glob(filepath.Join(g.dir, "shoal.db*"))
	if err != nil || len(files) == 0 {
		g.t.Fatal(files, err)
	}
	found := false
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			g.t.Fatal(err)
		}
		found = found || bytes.Contains(data, []byte("private.example"))
		if bytes.Contains(data, []byte(hunter)) {
			g.t.Errorf("%s has the password", path)
		}
	}
	if !found {
		g.t.Error("the database has nothing of the login, so this shows nothing")
	}
}

// TestRegistryLoginAfterRestart: an import that a restart cut off goes on with the login that is kept, and later ones have it too.
func TestRegistryLoginAfterRestart(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	if _, err := g.svc.PutRegistryLogin(t.Context(), alice, ciLogin()); err != nil {
		t.Fatal(err)
	}
	op, err := g.svc.CreateTemplate(t.Context(), alice, core.TemplateSpec{Name: "slow", Image: image("private.example/slow")})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.svc.Close(); err != nil {
		t.Fatal(err)
	}
	close(g.slow)
	g.start()
	if op := g.ended(op.ID); op.State != core.OperationSucceeded {
		t.Errorf("%+v", op)
	}
	if op := g.importAs(alice, image("private.example/app")); op.State != core.OperationSucceeded {
		t.Errorf("%+v", op)
	}
}

// TestRegistryLoginStolen: who can write the database gives no tenant another's login, and leads none to another host; without the key's
// file a login is gone, and said to be.
func TestRegistryLoginStolen(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	kept, err := g.svc.PutRegistryLogin(t.Context(), alice, ciLogin())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*core.RegistryLogin){
		"another tenant's": func(l *core.RegistryLogin) { l.Tenant = "bob" },
		"another user's":   func(l *core.RegistryLogin) { l.Username = "root" },
	} {
		stolen := kept
		change(&stolen)
		g.change(func(tx store.Tx) error { return tx.PutRegistryLogin(stolen) })
		p := alice
		p.Tenant = stolen.Tenant
		if op := g.importAs(p, image("private.example/app")); op.Code != core.CodeDataLoss {
			t.Errorf("%s: %+v", name, op)
		}
	}
	g.change(func(tx store.Tx) error { return tx.PutRegistryLogin(kept) })
	if op := g.importAs(alice, image("private.example/app")); op.State != core.OperationSucceeded {
		t.Errorf("as it was: %+v", op)
	}
	if err := g.svc.Close(); err != nil {
		t.Fatal(err)
	}
	g.vault = seal.New(filepath.Join(t.TempDir(), seal.KeyFile))
	g.start()
	if op := g.importAs(alice, image("private.example/app")); op.Code != core.CodeDataLoss || !strings.Contains(op.Message, "secrets.key") {
		t.Errorf("without the key: %+v", op)
	}
}

// TestRegistryLoginRefuses: what is no login is refused by its field, and more than a tenant may keep.
func TestRegistryLoginRefuses(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	for field, change := range map[string]func(*core.RegistryLoginSpec){
		"host":       func(s *core.RegistryLoginSpec) { s.Host = "https://private.example" },
		"password":   func(s *core.RegistryLoginSpec) { s.Password = "" },
		"password ":  func(s *core.RegistryLoginSpec) { s.Password = "a\r\nb" },
		"password  ": func(s *core.RegistryLoginSpec) { s.Password = core.Secret(strings.Repeat("x", 16<<10+1)) },
		"username":   func(s *core.RegistryLoginSpec) { s.Username = "a:b" },
		"username ":  func(s *core.RegistryLoginSpec) { s.Username = "\xff" },
	} {
		spec := ciLogin()
		change(&spec)
		_, err := g.svc.PutRegistryLogin(t.Context(), alice, spec)
		if e := wantCode(t, err, core.CodeInvalid); e.Field != strings.TrimSpace(field) {
			t.Errorf("%s: %+v", field, e)
		}
	}
	for i := range 100 {
		spec := ciLogin()
		spec.Host, spec.Password = fmt.Sprintf("r%d.example", i), core.Secret(strings.Repeat("x", 16<<10))
		if _, err := g.svc.PutRegistryLogin(t.Context(), alice, spec); err != nil {
			t.Fatal(err)
		}
	}
	_, err := g.svc.PutRegistryLogin(t.Context(), alice, ciLogin())
	wantCode(t, err, core.CodeQuota)
	again := ciLogin()
	again.Host = "r7.example"
	if _, err := g.svc.PutRegistryLogin(t.Context(), alice, again); err != nil {
		t.Errorf("one in place of another: %v", err)
	}
	if _, err := g.svc.PutRegistryLogin(t.Context(), bob, ciLogin()); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}
