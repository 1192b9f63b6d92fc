package control_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
)

// TestIdleIsAnEnd holds that a sandbox with an idle rule needs no ttl, and that no patch leaves an ephemeral one that nothing ends.
func TestIdleIsAnEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	yes, no, none, minute, hour := true, false, time.Duration(0), time.Minute, time.Hour
	limits := w.svc.Limits(alice)
	for name, tc := range map[string]struct {
		spec    core.SandboxSpec
		patch   control.SandboxPatch
		field   string
		idle    time.Duration
		expires time.Duration
	}{
		"nothing named":                {expires: limits.DefaultTTL},
		"idle":                         {spec: core.SandboxSpec{Idle: minute}, idle: minute},
		"both":                         {spec: core.SandboxSpec{Idle: minute, TTL: hour}, idle: minute, expires: hour},
		"both, ttl taken":              {spec: core.SandboxSpec{Idle: minute, TTL: hour}, patch: control.SandboxPatch{TTL: &none}, idle: minute},
		"ttl taken for idle":           {patch: control.SandboxPatch{TTL: &none, Idle: &minute}, idle: minute},
		"ttl taken for nothing":        {patch: control.SandboxPatch{TTL: &none}, field: "ttl_seconds"},
		"both taken":                   {spec: core.SandboxSpec{Idle: minute}, patch: control.SandboxPatch{TTL: &none, Idle: &none}, field: "ttl_seconds"},
		"idle taken":                   {spec: core.SandboxSpec{Idle: minute}, patch: control.SandboxPatch{Idle: &none}, expires: limits.DefaultTTL},
		"idle taken, ttl given":        {spec: core.SandboxSpec{Idle: minute}, patch: control.SandboxPatch{Idle: &none, TTL: &hour}, expires: hour},
		"persistent, all taken":        {spec: core.SandboxSpec{Idle: minute}, patch: control.SandboxPatch{Persistent: &yes, Idle: &none, TTL: &none}},
		"ephemeral with idle":          {spec: core.SandboxSpec{Persistent: true}, patch: control.SandboxPatch{Persistent: &no, Idle: &minute}, idle: minute},
		"ephemeral with nothing":       {spec: core.SandboxSpec{Persistent: true}, patch: control.SandboxPatch{Persistent: &no}, expires: limits.DefaultTTL},
		"an idle rule is not extended": {spec: core.SandboxSpec{Idle: minute}, patch: control.SandboxPatch{ExtendTTL: &hour}, idle: minute},
	} {
		t.Run(name, func(t *testing.T) {
			sb := w.create(tc.spec)
			sb, err := w.svc.UpdateSandbox(t.Context(), alice, string(sb.ID), tc.patch)
			if tc.field != "" {
				if e := wantCode(t, err, core.CodeInvalid); e.Field != tc.field {
					t.Errorf("it blames %q", e.Field)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var expires time.Time
			if tc.expires > 0 {
				expires = sb.CreatedAt.Add(tc.expires)
			}
			if sb.Idle != tc.idle || sb.ExpiresAt.Sub(expires).Abs() > time.Minute || sb.ExpiresAt.IsZero() != expires.IsZero() {
				t.Errorf("idle %s, expires %s, want %s and %s", sb.Idle, sb.ExpiresAt, tc.idle, expires)
			}
		})
	}
}

// TestLabelsHoldMetadata bounds labels, which hold what other vendors call metadata.
func TestLabelsHoldMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start().ready()
	w.create(core.SandboxSpec{Labels: map[string]string{strings.Repeat("k", 256): strings.Repeat("v", 4096), "empty": ""}})
	many := map[string]string{}
	for i := range 64 {
		many[fmt.Sprintf("%02d", i)] = strings.Repeat("v", 510)
	}
	w.create(core.SandboxSpec{Labels: many})
	many["00"] += "v"
	for name, labels := range map[string]map[string]string{
		"long value": {"a": strings.Repeat("v", 4097)}, "long key": {strings.Repeat("k", 257): ""}, "empty key": {"": ""}, "equals": {"a=b": ""}, "together": many,
	} {
		_, err := w.svc.CreateSandbox(t.Context(), alice, core.SandboxSpec{Labels: labels})
		if e := wantCode(t, err, core.CodeInvalid); e.Field != "labels" {
			t.Errorf("%s: it blames %q", name, e.Field)
		}
	}
}
