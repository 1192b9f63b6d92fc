package guest_test

import (
	"errors"
	"os/user"
	"testing"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
	"shoal/internal/guest/wire"
)

func TestResolve(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	identify := func(id wire.Identity) {
		t.Helper()
		id.Sandbox, id.Incarnation = "box", 1
		if err := a.client.Configure(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	check := func(path, who, want string) {
		t.Helper()
		if p, err := a.client.Resolve(t.Context(), path, who); err != nil || p.Path != want {
			t.Errorf("%q for %q: %+v, %v; want %s", path, who, p, err, want)
		}
	}
	identify(wire.Identity{Workdir: "/srv/app", User: me.Username})
	check("", "", "/srv/app")
	check("a/../b", "", "/srv/app/a/../b")
	check("./a//b/./c/", "", "/srv/app/a/b/c")
	check("~", "", me.HomeDir)
	check("~/x", me.Uid, me.HomeDir+"/x")
	check("x", me.Username, "/srv/app/x")
	check("/", "", "/")
	check("//x/", "", "/x")
	check("./~x", "", "/srv/app/~x")
	check("a\xff", "", "/srv/app/a\xff")
	check("x", "4242", "/x") // a number without an entry has no home
	identify(wire.Identity{User: me.Username})
	check("x", "", me.HomeDir+"/x")
	if p, err := a.client.Resolve(t.Context(), "", ""); err != nil || p.User != me.Username {
		t.Errorf("the default user: %+v, %v", p, err)
	}
	if p, err := a.client.Resolve(t.Context(), "", "4242"); err != nil || p.User != "4242" {
		t.Errorf("a number: %+v, %v", p, err)
	}
	for path, who := range map[string]string{"~root": "", "a\x00b": "", "x": "no-such-user"} {
		_, err := a.client.Resolve(t.Context(), path, who)
		if field := blamed(err); !core.IsCode(err, core.CodeInvalid) || field == "user" != (who != "") {
			t.Errorf("%q for %q: %v, field %q", path, who, err, field)
		}
	}
}

// TestResolveForAnother: what is relative counts from the home of whoever was named.
func TestResolveForAnother(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	other, err := user.Lookup("daemon")
	if err != nil {
		t.Skipf("needs a second user on this machine: %v", err)
	}
	if p, err := a.client.Resolve(t.Context(), "x", "daemon"); err != nil || p.Path != other.HomeDir+"/x" || p.User != "daemon" {
		t.Errorf("%+v, %v", p, err)
	}
}

// blamed returns the field that an error blames.
func blamed(err error) string {
	var e *core.Error
	if errors.As(err, &e) {
		return e.Field
	}
	return ""
}
