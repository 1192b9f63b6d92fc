package guest_test

import (
	"os"
	"strings"
	"testing"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
	"shoal/internal/guest/wire"
)

// needRoot skips a test that has to become other users.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("SHOAL_REQUIRE_ROOT") == "1" {
		t.Fatal("needs root: it runs processes as other users")
	}
	t.Skip("needs root: it runs processes as other users")
}

func TestUsers(t *testing.T) {
	needRoot(t)
	a := startAgent(t, guest.Config{}, client.Config{})
	for user, want := range map[string]string{
		"":            "0:0",
		"root":        "0:0",
		"0":           "0:0",
		"nobody":      "65534:65534",
		"65534":       "65534:65534",
		"54321":       "54321:54321",
		"54321:7":     "54321:7",
		"nobody:root": "65534:0",
	} {
		r := a.run(t, core.ExecSpec{Shell: "echo $(id -u):$(id -g)", User: user, Cwd: "/"})
		if got := strings.TrimSpace(string(r.stdout)); got != want {
			t.Errorf("user %q runs as %s, want %s; %s", user, got, want, r.stderr)
		}
	}
	r := a.run(t, core.ExecSpec{Shell: `echo "$USER $HOME $(id -G)"`, User: "nobody", Cwd: "/"})
	if f := strings.Fields(string(r.stdout)); len(f) != 3 || f[0] != "nobody" || f[2] != "65534" {
		t.Errorf("environment and groups of nobody: %q", r.stdout)
	}
	for _, bad := range []string{"no-such-user", "root:no-such-group", "-1", "4294967295"} {
		if _, err := a.client.Exec(t.Context(), newID(), core.ExecSpec{Shell: "true", User: bad}); !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("user %q: %v", bad, err)
		}
	}
}

func TestUserMayNotExecute(t *testing.T) {
	needRoot(t)
	a := startAgent(t, guest.Config{}, client.Config{})
	p := t.TempDir() + "/mine"
	if err := os.WriteFile(p, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := a.client.Exec(t.Context(), newID(), core.ExecSpec{Cmd: []string{p}, User: "nobody", Cwd: "/"})
	if !core.IsCode(err, core.CodeDenied) {
		t.Errorf("another's program: %v", err)
	}
}

// TestDefaultUserOwnsNewFiles: the agent acts as root, but what it makes belongs to the default user, or to the one
// that was named; what exists keeps its owner.
func TestDefaultUserOwnsNewFiles(t *testing.T) {
	needRoot(t)
	a := startAgent(t, guest.Config{}, client.Config{})
	id := wire.Identity{Sandbox: "box", Incarnation: 1, User: "nobody", Workdir: "/"}
	if err := a.client.Configure(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	info, err := a.write(t, dir+"/d/new", "x", core.WriteOptions{Parents: true})
	if err != nil || info.UID != 65534 || info.Owner != "nobody" {
		t.Errorf("new file: %+v, %v", info, err)
	}
	if info, err := a.client.Stat(t.Context(), dir+"/d"); err != nil || info.UID != 65534 {
		t.Errorf("new parent: %+v, %v", info, err)
	}
	if info, err := a.write(t, dir+"/root", "x", core.WriteOptions{User: "root"}); err != nil || info.UID != 0 {
		t.Errorf("named owner: %+v, %v", info, err)
	}
	if info, err := a.write(t, dir+"/root", "y", core.WriteOptions{}); err != nil || info.UID != 0 {
		t.Errorf("existing owner: %+v, %v", info, err)
	}
	if r := a.run(t, core.ExecSpec{Shell: "id -un"}); string(r.stdout) != "nobody\n" {
		t.Errorf("default user: %q", r.stdout)
	}
}
