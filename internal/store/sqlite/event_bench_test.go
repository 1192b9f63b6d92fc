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

// BenchmarkFindEvents looks for a page of 100 among 100,000 events of 5,000 sandboxes.
func BenchmarkFindEvents(b *testing.B) {
	s, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(b.TempDir(), "shoal.db"), Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ids := make([]core.SandboxID, 5000)
	err = s.UpdateRelaxed(b.Context(), func(tx store.Tx) error {
		for i := range ids {
			ids[i] = core.SandboxID(core.NewID())
			sb := core.Sandbox{ID: ids[i], Tenant: "a", State: core.StateRunning, CreatedAt: begin, Labels: map[string]string{"job": fmt.Sprint(i % 500)}}
			if err := tx.PutSandbox(sb); err != nil {
				return err
			}
		}
		for i := range store.KeepEvents {
			e := core.Event{
				Tenant: "a", Sandbox: ids[i%len(ids)], Type: core.EventExecEnded, At: begin.Add(time.Duration(i) * time.Second),
				Actor: core.Actor{Kind: "key", ID: fmt.Sprint("k", i%1000)},
			}
			switch {
			case i == store.KeepEvents-1000:
				e.Type = core.EventKeyCreated
			case i%20 == 0:
				e.Type = core.EventSandboxRunning
			}
			if _, err := tx.AppendEvent(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	at := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Second) }
	for name, f := range map[string]store.EventFilter{
		"all": {}, "rare type": {Types: []core.EventType{core.EventKeyCreated}}, "absent type": {Types: []core.EventType{core.EventTenantCreated}},
		"three types": {Types: []core.EventType{core.EventKeyCreated, core.EventSandboxRunning, core.EventSandboxFailed}},
		"sandbox":     {Sandbox: ids[7]}, "sandbox+type": {Sandbox: ids[7], Types: []core.EventType{core.EventSandboxRunning}},
		"actor": {Actor: "k7"}, "nobody": {Actor: "x"}, "last minute": {Since: at(store.KeepEvents - 60)}, "since the start": {Since: begin},
		"window": {Since: at(50_000), Until: at(50_100)}, "label": {Labels: map[string]string{"job": "7"}}, "no label": {Labels: map[string]string{"job": "none"}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := s.View(b.Context(), func(r store.Reader) error { _, err := r.FindEvents("a", f, 0, 100); return err }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
