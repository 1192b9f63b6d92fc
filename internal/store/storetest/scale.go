package storetest

import (
	"slices"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// testScale reports what reads cost with 10,000 live sandboxes of one tenant. It holds no time against a limit: the
// machine is shared. What it does hold is that nothing is missing.
func testScale(t *testing.T, open Open) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: it writes 10,000 sandboxes")
	}
	s := start(t, open)
	const n = 10_000
	all := make([]core.Sandbox, n)
	for i := range all {
		b := newSandbox(alice)
		b.Name = numbered("box", i)
		b.CreatedAt = epoch().Add(time.Duration(i) * time.Second)
		b.Labels = map[string]string{"group": numbered("g", i%100), "app": "web"}
		all[i] = b
	}
	s.put(all...)

	report(t, "get by id", 500, func(i int) error {
		_, err := s.sandbox(alice, string(all[i*17%n].ID))
		return err
	})
	report(t, "get by name", 500, func(i int) error {
		_, err := s.sandbox(alice, all[i*17%n].Name)
		return err
	})
	report(t, "first page of 100", 50, func(int) error {
		_, _, err := s.list(alice, store.SandboxFilter{}, store.Page{Limit: 100})
		return err
	})
	report(t, "label filter, 100 of 10,000", 20, func(i int) error {
		f := store.SandboxFilter{Labels: map[string]string{"group": numbered("g", i)}}
		list, _, err := s.list(alice, f, store.Page{Limit: 1000})
		if len(list) != n/100 {
			t.Fatalf("the filter found %d, want %d", len(list), n/100)
		}
		return err
	})
	report(t, "update of one", 100, func(i int) error {
		b := all[i]
		b.Incarnation++
		return s.try(func(tx store.Tx) error { return tx.PutSandbox(b) })
	})
	report(t, "relaxed update of one", 100, func(i int) error {
		b := all[i]
		b.Incarnation++
		return s.UpdateRelaxed(t.Context(), func(tx store.Tx) error { return tx.PutSandbox(b) })
	})

	seen := map[core.SandboxID]bool{}
	page := store.Page{Limit: 1000}
	for more := true; more; more = page.Cursor != "" {
		list, next, err := s.list(alice, store.SandboxFilter{}, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range list {
			seen[b.ID] = true
		}
		page.Cursor = next
	}
	if len(seen) != n {
		t.Fatalf("paging saw %d sandboxes, want %d", len(seen), n)
	}
}

func report(t *testing.T, what string, times int, fn func(i int) error) {
	t.Helper()
	took := make([]time.Duration, times)
	for i := range took {
		begun := time.Now()
		if err := fn(i); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		took[i] = time.Since(begun)
	}
	slices.Sort(took)
	t.Logf("%s: p50 %v, p99 %v (n=%d)", what, took[times/2], took[times*99/100], times)
}
