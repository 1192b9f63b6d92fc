package sqlite

import (
	"database/sql"
	"io/fs"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"shoal/internal/core"
	"shoal/internal/store"
)

// TestMigrateRecords: what the first release wrote is read, changed and found after every later migration.
func TestMigrateRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shoal.db")
	old(t, path, 2,
		"INSERT INTO reserved_id (id, tenant) VALUES ('s1', 'alice')",
		`INSERT INTO sandbox (id, tenant, name, template_id, template_name, state, operation, incarnation, node, epoch, persistent, vcpus,
			memory_bytes, disk_bytes, labels, created_at, started_at, expires_at, failure)
			VALUES ('s1', 'alice', 'lab', 't1', 'base', 'running', '', 1, 'n1', 1, 0, 1, 64, 0, '{"a":"b"}', 1000, 2000, 3000, '')`,
		`INSERT INTO exec (sandbox, id, shell, cwd, user, stdin, timeout, detach, tty, tty_rows, tty_cols, pid, outcome, signal, started_at,
			output_bytes, output_from, processes)
			VALUES ('s1', 'e1', 'true', '', '', 0, 0, 1, 0, 0, 0, 42, '', '', 2000, 0, 0, 0)`,
		"INSERT INTO api_key (id, tenant, name, hash, admin, created_at) VALUES ('k1', 'alice', 'admin', 'h', 1, 1000)",
	)
	s, err := Open(t.Context(), Config{Path: path, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	err = s.Update(t.Context(), func(tx store.Tx) error {
		sb, err := tx.Sandbox("alice", "lab")
		if err != nil {
			return err
		}
		if sb.Idle != 0 || sb.OnIdle != "" || !sb.ActiveAt.IsZero() || sb.Labels["a"] != "b" {
			t.Errorf("the sandbox is %+v", sb)
		}
		if sb.StateSince.UnixNano() != 2000 || sb.Rules != nil {
			t.Errorf("it is running since %v, with the rules %v", sb.StateSince, sb.Rules)
		}
		if due, err := tx.RulesDue(time.Unix(0, 3000)); err != nil || len(due) != 1 {
			t.Errorf("its ttl is not found: %v, %v", due, err)
		}
		sb.Persistent = true
		if err := tx.PutSandbox(sb); err != nil {
			return err
		}
		e, err := tx.FindExec(sb.ID, store.ExecKey{PID: 42})
		if err != nil {
			return err
		}
		e.ID, e.Spec.Tag, e.Outcome = "e2", "web", core.OutcomeExited
		if err := tx.PutExec(e); err != nil {
			return err
		}
		found, err := tx.FindExec(sb.ID, store.ExecKey{Tag: "web"})
		if diff := cmp.Diff(e, found); diff != "" {
			t.Error(diff)
		}
		if err != nil {
			return err
		}
		_, err = tx.Key("alice", "k1")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// old makes a database as a program wrote it that knew migrations up to a version.
func old(t *testing.T, path string, version int64, statements ...string) {
	t.Helper()
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}
