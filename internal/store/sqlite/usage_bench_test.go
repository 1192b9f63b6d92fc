package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
	"shoal/internal/store/sqlite"
)

// BenchmarkUsage asks for the usage of 10,000 sandboxes in 30 days, all of which were counted day by day and go on.
func BenchmarkUsage(b *testing.B) {
	s, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(b.TempDir(), "shoal.db"), Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	const n = 10_000
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	now := begin.Add(29 * 24 * time.Hour)
	for from := 0; from < n; from += 1000 {
		err := s.UpdateRelaxed(b.Context(), func(tx store.Tx) error {
			for i := range 1000 {
				m := core.Meter{
					Sandbox: core.SandboxID(core.NewID()), Tenant: "alice", Since: begin, Clocks: core.ClocksOf(core.StateRunning),
					Labels: map[string]string{"job": fmt.Sprint("j", i%100)}, Resources: core.Resources{VCPUs: 1, MemoryBytes: 512 << 20},
				}
				if err := tx.PutMeter(m); err != nil {
					return err
				}
				m.Since = now.Add(-time.Minute)
				if err := tx.PutMeter(m); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	base := store.UsageQuery{Tenant: "alice", From: core.DayOf(begin), To: core.DayOf(now), Now: now}
	for name, change := range map[string]func(*store.UsageQuery){
		"total": func(*store.UsageQuery) {}, "day": func(q *store.UsageQuery) { q.ByDay = true },
		"tenant": func(q *store.UsageQuery) { q.ByTenant, q.Tenant = true, "" }, "sandbox": func(q *store.UsageQuery) { q.BySandbox = true },
		"label": func(q *store.UsageQuery) { q.ByLabel = "job" }, "sandbox,day": func(q *store.UsageQuery) { q.BySandbox, q.ByDay = true, true },
		"label,day": func(q *store.UsageQuery) { q.ByLabel, q.ByDay = "job", true }, "today": func(q *store.UsageQuery) { q.From = q.To },
	} {
		q := base
		change(&q)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				err := s.View(b.Context(), func(r store.Reader) error {
					list, _, err := r.Usage(q, store.Page{Limit: 100})
					if len(list) == 0 {
						b.Fatal("nothing was used")
					}
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
