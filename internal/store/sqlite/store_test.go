package sqlite_test

import (
	"bytes"
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/core"
	"shoal/internal/store"
	"shoal/internal/store/sqlite"
	"shoal/internal/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, dir string) store.Store {
		t.Helper()
		return open(t, filepath.Join(dir, "shoal.db"))
	})
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func open(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t *testing.T, s *sqlite.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// raw runs statements on the file past the driver.
func raw(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range statements {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNewerDatabaseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shoal.db")
	closeStore(t, open(t, path))
	raw(t, path, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)")
	_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Logger: quiet()})
	if !core.IsCode(err, core.CodeUnsupported) || !strings.Contains(err.Error(), "9999") {
		t.Fatalf("got %v, want unsupported with the version", err)
	}
	raw(t, path, "DELETE FROM goose_db_version WHERE version_id = 9999")
	closeStore(t, open(t, path))
}

func TestNotADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shoal.db")
	want := bytes.Repeat([]byte("this is not a database. "), 1000)
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Logger: quiet()})
	if !core.IsCode(err, core.CodeDataLoss) {
		t.Fatalf("got %v, want data_loss", err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("the file was changed, %v", err)
	}
}

// TestDamage tears pages out of a database that was not closed cleanly: opening it must say so.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shoal.db")
	s := open(t, path)
	err := s.Update(t.Context(), func(tx store.Tx) error {
		for range 2000 {
			if _, err := tx.AppendEvent(core.Event{Tenant: "a", Type: core.EventSandboxRunning}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(data) / 2; i < len(data)/2+16384; i++ {
		data[i] = 0xa5
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	// A log that holds nothing valid is what a kill right after a checkpoint leaves.
	if err := os.WriteFile(path+"-wal", make([]byte, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = sqlite.Open(t.Context(), sqlite.Config{Path: path, Logger: quiet()})
	if !core.IsCode(err, core.CodeDataLoss) {
		t.Fatalf("got %v, want data_loss", err)
	}
}

// TestDamagedPages damages each of the first pages of a database that was closed cleanly. Where it can't be used, the reason is
// damage, whatever SQLite stumbles over.
func TestDamagedPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shoal.db")
	closeStore(t, open(t, path))
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	for at := 0; at < len(sound); at += page {
		data := bytes.Clone(sound)
		copy(data[at:min(at+5*page, len(data))], bytes.Repeat([]byte("damage! "), 5*page/8))
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Logger: quiet()})
		if err == nil {
			closeStore(t, s) // a page that opening needs not
			continue
		}
		if !core.IsCode(err, core.CodeDataLoss) {
			t.Errorf("damage from page %d on: %v, want data_loss", at/page+1, err)
		}
	}
}

func TestUncleanCloseIsChecked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shoal.db")
	s := open(t, path)
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Fatalf("an open store has a log: %v", err)
	}
	// The files as a kill would leave them.
	torn := filepath.Join(t.TempDir(), "shoal.db")
	for _, end := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + end)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(torn+end, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, s)
	if _, err := os.Stat(path + "-wal"); !os.IsNotExist(err) {
		t.Fatalf("a clean close leaves no log: %v", err)
	}
	var log bytes.Buffer
	for file, want := range map[string]bool{torn: true, path: false} {
		log.Reset()
		s, err := sqlite.Open(t.Context(), sqlite.Config{Path: file, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
		if got := strings.Contains(log.String(), "not closed cleanly"); got != want {
			t.Errorf("checked %v, want %v; log: %s", got, want, log.String())
		}
	}
}

func TestFileIsPrivateAndOddPathsWork(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c#d%20e&f.db")
	s := open(t, path)
	defer closeStore(t, s)
	for _, end := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + end)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", end, info.Mode().Perm())
		}
	}
}

func TestLockedByAnotherProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it waits out the lock's time limit of 5 s")
	}
	path := filepath.Join(t.TempDir(), "shoal.db")
	s := open(t, path)
	defer closeStore(t, s)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	put := func() error {
		return s.Update(t.Context(), func(tx store.Tx) error { return tx.PutSetting("a", "b") })
	}
	if err := put(); !core.IsCode(err, core.CodeUnavailable) {
		t.Fatalf("got %v, want unavailable", err)
	}
	if _, err := db.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
}
