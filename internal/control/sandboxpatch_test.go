package control_test

import (
	"sync"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
)

func TestPatchOfLife(t *testing.T) {
	t.Parallel()
	const (
		def = time.Hour      // the default ttl in this world
		top = 24 * time.Hour // the greatest
	)
	tests := map[string]struct {
		spec  core.SandboxSpec
		patch control.SandboxPatch
		// persistent and ttl from now are what comes of it; field is what is to blame if nothing does.
		persistent bool
		ttl        time.Duration
		field      string
	}{
		"nothing":                   {ttl: def},
		"persistent keeps the ttl":  {patch: control.SandboxPatch{Persistent: new(true)}, persistent: true, ttl: def},
		"persistent without a ttl":  {patch: control.SandboxPatch{Persistent: new(true), TTL: new(time.Duration(0))}, persistent: true},
		"persistent, long ttl":      {patch: control.SandboxPatch{Persistent: new(true), TTL: new(9 * top)}, persistent: true, ttl: 9 * top},
		"still persistent":          {spec: core.SandboxSpec{Persistent: true}, patch: control.SandboxPatch{Persistent: new(true)}, persistent: true},
		"ephemeral, default ttl":    {spec: core.SandboxSpec{Persistent: true}, patch: control.SandboxPatch{Persistent: new(false)}, ttl: def},
		"ephemeral keeps the ttl":   {spec: core.SandboxSpec{Persistent: true, TTL: 2 * def}, patch: control.SandboxPatch{Persistent: new(false)}, ttl: 2 * def},
		"ephemeral with a ttl":      {spec: core.SandboxSpec{Persistent: true}, patch: control.SandboxPatch{Persistent: new(false), TTL: new(3 * def)}, ttl: 3 * def},
		"ephemeral without a ttl":   {spec: core.SandboxSpec{Persistent: true}, patch: control.SandboxPatch{Persistent: new(false), TTL: new(time.Duration(0))}, field: "ttl_seconds"},
		"ephemeral, too long to go": {spec: core.SandboxSpec{Persistent: true, TTL: 2 * top}, patch: control.SandboxPatch{Persistent: new(false)}, field: "persistent"},
		"ephemeral stays so":        {spec: core.SandboxSpec{TTL: 2 * def}, patch: control.SandboxPatch{Persistent: new(false)}, ttl: 2 * def},
		"extended":                  {patch: control.SandboxPatch{ExtendTTL: new(2 * def)}, ttl: 2 * def},
		"never shortened":           {patch: control.SandboxPatch{ExtendTTL: new(def / 2)}, ttl: def},
		"extended from never":       {spec: core.SandboxSpec{Persistent: true}, patch: control.SandboxPatch{ExtendTTL: new(def)}, persistent: true},
		"extended too far":          {patch: control.SandboxPatch{ExtendTTL: new(2 * top)}, field: "extend_ttl_seconds"},
		"extended and persistent":   {patch: control.SandboxPatch{ExtendTTL: new(2 * top), Persistent: new(true)}, persistent: true, ttl: 2 * top},
		"extended by nothing":       {patch: control.SandboxPatch{ExtendTTL: new(time.Duration(0))}, field: "extend_ttl_seconds"},
		"set and extended":          {patch: control.SandboxPatch{ExtendTTL: new(def), TTL: new(def)}, field: "extend_ttl_seconds"},
	}
	w := newWorld(t).start().ready()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			sb := w.create(tc.spec)
			got, err := w.svc.UpdateSandbox(t.Context(), alice, string(sb.ID), tc.patch)
			if tc.field != "" {
				if e := wantCode(t, err, core.CodeInvalid); e.Field != tc.field {
					t.Fatalf("it blames %q: %v", e.Field, e)
				}
				got, tc.persistent = sb, sb.Persistent
			} else {
				if err != nil {
					t.Fatal(err)
				}
				var want time.Time
				if tc.ttl != 0 {
					want = w.clock.Now().Add(tc.ttl)
				}
				if got.Persistent != tc.persistent || !got.ExpiresAt.Equal(want) {
					t.Fatalf("persistent %v until %v, want %v until %v", got.Persistent, got.ExpiresAt, tc.persistent, want)
				}
			}
			stored, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID))
			if err != nil || stored.Persistent != tc.persistent || !stored.ExpiresAt.Equal(got.ExpiresAt) {
				t.Fatalf("on record: persistent %v until %v, %v", stored.Persistent, stored.ExpiresAt, err)
			}
		})
	}
}

// TestExtendTogether extends a ttl from many sides at once: the furthest wins, in whatever order they come.
func TestExtendTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	sb := w.create(core.SandboxSpec{TTL: time.Minute})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			d := time.Duration(1+(i*7)%20) * time.Hour
			if _, err := w.svc.UpdateSandbox(t.Context(), alice, string(sb.ID), control.SandboxPatch{ExtendTTL: &d}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := w.svc.GetSandbox(t.Context(), alice, string(sb.ID))
	if want := w.clock.Now().Add(20 * time.Hour); err != nil || !got.ExpiresAt.Equal(want) {
		t.Fatalf("it lives until %v, %v; want %v", got.ExpiresAt, err, want)
	}
}
