package sqlite

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// TestPragmas holds each connection to what the package's documentation promises of it.
func TestPragmas(t *testing.T) {
	s := openHere(t, Config{})
	const full, normal = "2", "1"
	for name, tc := range map[string]struct {
		db                     *sql.DB
		synchronous, queryOnly string
	}{
		"full":    {s.full, full, "0"},
		"relaxed": {s.relaxed, normal, "0"},
		"read":    {s.read, full, "1"},
	} {
		for pragma, want := range map[string]string{
			"journal_mode": "wal", "foreign_keys": "1", "busy_timeout": "5000", "trusted_schema": "0",
			"synchronous": tc.synchronous, "query_only": tc.queryOnly,
		} {
			var got string
			if err := tc.db.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("%s: %s is %s, want %s", name, pragma, got, want)
			}
		}
	}
}

func TestTrimming(t *testing.T) {
	s := openHere(t, Config{KeepEvents: 3})
	for range 5 {
		err := s.Update(t.Context(), func(tx store.Tx) error {
			_, err := tx.AppendEvent(core.Event{Tenant: "a", Type: core.EventSandboxRunning})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := s.View(t.Context(), func(r store.Reader) error {
		page, err := r.FindEvents("a", store.EventFilter{}, 0, 10)
		if len(page.Events) != 3 || page.Oldest != 3 || page.Events[2].Seq != 5 || page.Through != 5 {
			t.Errorf("got %+v", page)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFullDisk bounds the database's size, which SQLite answers as it answers a full disk.
func TestFullDisk(t *testing.T) {
	s := openHere(t, Config{})
	if _, err := s.full.ExecContext(t.Context(), "PRAGMA max_page_count = 60"); err != nil {
		t.Fatal(err)
	}
	value := string(make([]byte, 1<<20))
	err := s.Update(t.Context(), func(tx store.Tx) error { return tx.PutSetting("big", value) })
	if !core.IsCode(err, core.CodeExhausted) {
		t.Fatalf("got %v, want exhausted", err)
	}
	if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.PutSetting("small", "v") }); err != nil {
		t.Fatal(err)
	}
}

func TestInterruptedQuery(t *testing.T) {
	s := openHere(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	err := s.View(ctx, func(r store.Reader) error {
		rd := r.(*reader)
		started := make(chan struct{})
		go func() {
			<-started
			cancel()
		}()
		close(started)
		_, err := one(rd, "", scanNumber,
			"WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c")
		return err
	})
	if !core.IsCode(err, core.CodeCanceled) {
		t.Fatalf("got %v, want canceled", err)
	}
}

// TestIndexes holds that the queries of the hot paths and of the reconcile loop don't scan whole tables.
func TestIndexes(t *testing.T) {
	s := openHere(t, Config{})
	for query, want := range map[string]string{
		"SELECT id FROM sandbox WHERE tenant = 'a' AND name = 'b' AND name <> '' AND state <> 'deleted'":             "sandbox_live_name",
		"SELECT id FROM sandbox WHERE tenant = 'a' AND state <> 'deleted' ORDER BY created_at DESC, id DESC LIMIT 9": "sandbox_by_tenant",
		strings.ReplaceAll(rulesDue, "?", "1"):                                                                                   "sandbox_by_rule",
		strings.ReplaceAll(nextRule, "?", "1"):                                                                                   "sandbox_by_rule",
		"SELECT id FROM sandbox WHERE state = 'deleted' AND operation = '' AND deleted_at < 1":                                   "sandbox_by_deletion",
		"SELECT id FROM exec WHERE sandbox = 'a' AND outcome = '' ORDER BY started_at, id":                                       "exec_running",
		"SELECT id FROM exec WHERE sandbox = 'a' AND (started_at, id) < (1, 'a') ORDER BY started_at DESC, id DESC LIMIT 9":      "exec_by_start",
		"SELECT id FROM exec WHERE sandbox = 'a' AND tag = 'b' AND tag <> '' AND outcome = '' ORDER BY started_at DESC, id DESC": "exec_running_by_tag",
		"SELECT id FROM exec WHERE sandbox = 'a' AND tag = 'b' AND tag <> '' ORDER BY started_at DESC, id DESC LIMIT 1":          "exec_by_tag",
		"SELECT id FROM exec WHERE sandbox = 'a' AND outcome = '' ORDER BY started_at DESC, id DESC LIMIT 9":                     "exec_running",
		"SELECT id FROM sandbox WHERE tenant = 'a' AND state <> 'deleted' ORDER BY created_at ASC, id ASC LIMIT 9":               "sandbox_by_tenant",
		"SELECT seq FROM event WHERE tenant = 'a' AND seq > 1 AND sandbox = 'b' AND sandbox <> '' ORDER BY seq LIMIT 9":          "event_by_sandbox",
		"SELECT id FROM operation WHERE tenant = 'a' AND (created_at, id) < (1, 'a') ORDER BY created_at DESC, id DESC LIMIT 9":  "operation_by_tenant",
		"SELECT id FROM operation WHERE unsettled ORDER BY created_at, id":                                                       "operation_unsettled",
		"SELECT id FROM operation WHERE tenant = 'a' AND state <> 'running' ORDER BY ended_at DESC, id DESC LIMIT -1 OFFSET 9":   "operation_ended",
		countSandboxes: "sandbox_held; USE TEMP B-TREE FOR GROUP BY",
		"SELECT id FROM api_key WHERE hash = 'a'": "sqlite_autoindex_api_key_2",
	} {
		err := s.View(t.Context(), func(r store.Reader) error {
			plan, err := many(r.(*reader), scanPlan, "EXPLAIN QUERY PLAN "+query)
			if all := strings.Join(plan, "; "); !strings.Contains(all+" ", want+" ") {
				t.Errorf("%s\nuses %q, want the index %s", query, all, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFindByPIDIsCheap holds that the query, as it is, finds a process id without reading the sandbox's other records.
func TestFindByPIDIsCheap(t *testing.T) {
	s := openHere(t, Config{})
	for _, by := range []store.ExecKey{{PID: 7}, {PID: 7, Tag: "web"}} {
		query, args := findByPID("a", by)
		err := s.View(t.Context(), func(r store.Reader) error {
			plan, err := many(r.(*reader), scanPlan, "EXPLAIN QUERY PLAN "+query, args...)
			if all := strings.Join(plan, "; "); !strings.Contains(all, "exec_by_pid (sandbox=? AND pid=?)") {
				t.Errorf("%+v uses %q", by, all)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func scanPlan(r row) (detail string, err error) {
	var id, parent, unused int
	err = r.Scan(&id, &parent, &unused, &detail)
	return detail, err
}

func openHere(t *testing.T, c Config) *Store {
	t.Helper()
	c.Path = filepath.Join(t.TempDir(), "shoal.db")
	c.Logger = slog.New(slog.DiscardHandler)
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestTrimmingKeyedCalls(t *testing.T) {
	s := openHere(t, Config{KeepKeyedCalls: 4, KeepResults: 2})
	put := func(tenant core.TenantID, key string) {
		t.Helper()
		err := s.Update(t.Context(), func(tx store.Tx) error {
			return tx.PutKeyedCall(core.KeyedCall{Tenant: tenant, Route: "r", Key: key, At: time.Unix(1, 0), Result: []byte("x")})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put("b", "theirs")
	for _, key := range []string{"1", "2", "3", "4", "5", "6", "5", "6"} { // with what is written again
		put("a", key)
	}
	err := s.View(t.Context(), func(r store.Reader) error {
		for key, kept := range map[string]bool{"5": true, "6": true} {
			if c, err := r.KeyedCall("a", "r", key); err != nil || (c.Result != nil) != kept {
				t.Errorf("%s: %q, %v", key, c.Result, err)
			}
		}
		for _, key := range []string{"1", "2", "3", "4"} {
			if c, err := r.KeyedCall("a", "r", key); !core.IsCode(err, core.CodeNotFound) {
				t.Errorf("%s: %v, %v", key, c, err)
			}
		}
		_, err := r.KeyedCall("b", "r", "theirs")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
