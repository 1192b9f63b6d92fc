package cli

import (
	"strings"
	"testing"
	"time"

	shoal "shoal/sdk/go"
)

func TestEndOf(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		sb   shoal.Sandbox
		want time.Time
	}{
		"never":              {shoal.Sandbox{}, time.Time{}},
		"ttl":                {shoal.Sandbox{ExpiresAt: now}, now},
		"idle":               {shoal.Sandbox{IdleSeconds: 60, ActiveAt: now}, now.Add(time.Minute)},
		"idle first":         {shoal.Sandbox{IdleSeconds: 60, ActiveAt: now, ExpiresAt: now.Add(time.Hour)}, now.Add(time.Minute)},
		"ttl first":          {shoal.Sandbox{IdleSeconds: 7200, ActiveAt: now, ExpiresAt: now.Add(time.Hour)}, now.Add(time.Hour)},
		"created, idle":      {shoal.Sandbox{IdleSeconds: 60}, time.Time{}},
		"idle that stops":    {shoal.Sandbox{IdleSeconds: 60, OnIdle: "stop", ActiveAt: now, ExpiresAt: now.Add(time.Hour)}, now.Add(time.Hour)},
		"age":                {shoal.Sandbox{CreatedAt: now, Rules: []shoal.SandboxRule{{On: "age", AfterSeconds: 60, Action: "delete"}}}, now.Add(time.Minute)},
		"an age that stops":  {shoal.Sandbox{CreatedAt: now, Rules: []shoal.SandboxRule{{On: "age", AfterSeconds: 60, Action: "stop"}}}, time.Time{}},
		"deadline, ttl":      {shoal.Sandbox{ExpiresAt: now.Add(time.Hour), Rules: []shoal.SandboxRule{{On: "deadline", At: now, Action: "delete"}}}, now},
		"failed":             {shoal.Sandbox{State: "failed", StateSince: now, Rules: []shoal.SandboxRule{{On: "time_in_state", State: "failed", AfterSeconds: 60, Action: "delete"}}}, now.Add(time.Minute)},
		"not failed":         {shoal.Sandbox{State: "running", StateSince: now, Rules: []shoal.SandboxRule{{On: "time_in_state", State: "failed", AfterSeconds: 60, Action: "delete"}}}, time.Time{}},
		"created, idle, ttl": {shoal.Sandbox{IdleSeconds: 60, ExpiresAt: now}, now},
	} {
		if got := endOf(tc.sb); !got.Equal(tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
		if strings.Contains(idleText(tc.sb), "0001") {
			t.Errorf("%s: %s", name, idleText(tc.sb))
		}
	}
}
