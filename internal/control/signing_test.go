package control_test

import (
	"strings"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
)

// createAs makes a sandbox of the caller's.
func (w *world) createAs(p control.Principal) core.Sandbox {
	w.t.Helper()
	sb, err := w.svc.CreateSandbox(w.t.Context(), p, core.SandboxSpec{})
	if err != nil {
		w.t.Fatal(err)
	}
	return sb
}

// TestSignedGrants: a grant opens one file as its signer may, and ends with its time, its key and its sandbox.
func TestSignedGrants(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	admin, _ := adminOf(w)
	key, p := w.keyOf(admin, core.KeySpec{})
	sb, other := w.createAs(p), w.createAs(p)
	sign := func(g core.FileGrant) core.SignedGrant {
		t.Helper()
		s, err := w.svc.SignFile(t.Context(), p, string(sb.ID), g)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := sign(core.FileGrant{Path: "/a\xff", Write: true, MaxBytes: 7, User: "u", Parents: true, For: time.Minute})
	who, got, err := w.svc.OpenGrant(t.Context(), s.Token)
	if err != nil || got.Path != "/a\xff" || !got.Write || got.MaxBytes != 7 || got.User != "u" || !got.Parents || got.Sandbox != sb.ID || !got.ExpiresAt.Equal(s.ExpiresAt) {
		t.Fatalf("%+v, %v", got, err)
	}
	// It is for files of that sandbox, whatever else the key may.
	if _, err := w.svc.Files(t.Context(), who, string(sb.ID)); err != nil {
		t.Error(err)
	}
	_, err = w.svc.Files(t.Context(), who, string(other.ID))
	wantCode(t, err, core.CodeNotFound)
	_, err = w.svc.SignFile(t.Context(), who, string(sb.ID), core.FileGrant{Path: "/x"})
	wantCode(t, err, core.CodeDenied)
	wantCode(t, w.svc.DeleteSandbox(t.Context(), who, string(sb.ID)), core.CodeDenied)

	for _, bad := range []string{"", ".", s.Token + "x", "x" + s.Token, strings.ReplaceAll(s.Token, ".", ""), s.Token[:len(s.Token)-2], strings.Repeat("a", 20_000)} {
		_, _, err := w.svc.OpenGrant(t.Context(), bad)
		wantCode(t, err, core.CodeUnauthenticated)
	}
	if _, _, err := newWorld(t).start().svc.OpenGrant(t.Context(), s.Token); !core.IsCode(err, core.CodeUnauthenticated) {
		t.Errorf("another installation: %v", err)
	}
	w.clock.advance(2 * time.Minute)
	_, _, err = w.svc.OpenGrant(t.Context(), s.Token)
	wantCode(t, err, core.CodeUnauthenticated)

	s = sign(core.FileGrant{Path: "/a"})
	if err := w.svc.DeleteKey(t.Context(), admin, key.ID); err != nil {
		t.Fatal(err)
	}
	_, _, err = w.svc.OpenGrant(t.Context(), s.Token)
	wantCode(t, err, core.CodeUnauthenticated)

	_, p = w.keyOf(admin, core.KeySpec{})
	s = sign(core.FileGrant{Path: "/a"})
	if _, _, err := w.svc.OpenGrant(t.Context(), s.Token); err != nil {
		t.Fatal(err)
	}
	if err := w.svc.DeleteSandbox(t.Context(), admin, string(sb.ID)); err != nil {
		t.Fatal(err)
	}
	_, _, err = w.svc.OpenGrant(t.Context(), s.Token)
	wantCode(t, err, core.CodeNotFound)
}

func TestBadGrants(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	admin, _ := adminOf(w)
	sb := w.createAs(admin)
	for _, g := range []core.FileGrant{
		{},
		{Path: "a"},
		{Path: "/\x00"},
		{Path: "/" + strings.Repeat("a", 5000)},
		{Path: "/a", For: -1},
		{Path: "/a", For: 8 * 24 * time.Hour},
		{Path: "/a", For: time.Millisecond},
		{Path: "/a", MaxBytes: 1},
		{Path: "/a", User: "u"},
		{Path: "/a", Parents: true},
		{Path: "/a", Write: true, MaxBytes: -1},
	} {
		_, err := w.svc.SignFile(t.Context(), admin, string(sb.ID), g)
		wantCode(t, err, core.CodeInvalid)
	}
	_, narrow := w.keyOf(admin, core.KeySpec{Scopes: core.ScopesOf(core.ScopeSandboxesRead)})
	_, err := w.svc.SignFile(t.Context(), narrow, string(sb.ID), core.FileGrant{Path: "/a"})
	wantCode(t, err, core.CodeDenied)
}
