package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the database/sql driver "sqlite"

	"shoal/internal/core"
	"shoal/internal/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Open opens the database, making or migrating it as needed. If its last user didn't close it, its structure is checked
// first. A damaged database is data_loss; one that a newer program has migrated is unsupported. Both are left as they are.
func Open(ctx context.Context, c Config) (*Store, error) {
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return nil, fmt.Errorf("find the database: %w", err)
	}
	file, unclean, err := prepareFile(path)
	if err != nil {
		return nil, core.Wrap(core.CodeUnavailable, err, "the database file can't be opened")
	}
	s := &Store{writing: make(chan struct{}, 1), log: c.Logger, keep: keep{
		events: cmp.Or(c.KeepEvents, store.KeepEvents), execs: cmp.Or(c.KeepExecs, store.KeepExecs),
		keyedCalls: cmp.Or(c.KeepKeyedCalls, store.KeepKeyedCalls), results: cmp.Or(c.KeepResults, store.KeepResults),
	}}
	s.reserve = reserve{database: file}
	if err := s.connect(path, c.Readers); err != nil {
		return nil, errors.Join(err, s.reserve.close())
	}
	if err := s.makeReady(ctx, path, unclean, c.Logger); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// prepareFile makes the file for its owner only, since SQLite would use the umask, and tells whether a log was left behind.
// The file stays open.
func prepareFile(path string) (f *os.File, unclean bool, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	info, err := os.Stat(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return f, false, nil
	}
	if err != nil {
		return nil, false, errors.Join(err, f.Close())
	}
	return f, info.Size() > 0, nil
}

func (s *Store) connect(path string, readers int) error {
	if readers == 0 {
		readers = max(4, runtime.NumCPU())
	}
	var err error
	open := func(connections int, pragmas ...string) *sql.DB {
		db, e := sql.Open("sqlite", dataSource(path, pragmas))
		if e != nil {
			err = errors.Join(err, e)
			return nil
		}
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
		return db
	}
	s.full = open(1, "journal_mode(wal)", "synchronous(full)", "journal_size_limit(67108864)")
	s.relaxed = open(1, "synchronous(normal)", "journal_size_limit(67108864)")
	s.read = open(readers, "query_only(1)")
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	return nil
}

func dataSource(path string, pragmas []string) string {
	q := url.Values{}
	// The lock that busy_timeout waits for is another process's: a person with the sqlite3 tool, or a backup.
	for _, p := range append([]string{"busy_timeout(5000)", "foreign_keys(1)", "trusted_schema(0)"}, pragmas...) {
		q.Add("_pragma", p)
	}
	q.Set("_txlock", "immediate")
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	return u.String()
}

func (s *Store) makeReady(ctx context.Context, path string, unclean bool, log *slog.Logger) error {
	if err := s.full.PingContext(ctx); err != nil {
		return translate(ctx, err, "open the database")
	}
	if unclean {
		begun := time.Now()
		if err := s.check(ctx); err != nil {
			return err
		}
		log.InfoContext(ctx, "database was not closed cleanly: checked, no damage",
			slog.String("path", path), slog.Int64("dur_ms", time.Since(begun).Milliseconds()))
	}
	if err := s.migrate(ctx, log); err != nil {
		// A damaged page can look like anything, a missing table included: it must not be blamed on something else.
		if damage := s.check(ctx); core.IsCode(damage, core.CodeDataLoss) {
			return damage
		}
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// check looks for structural damage, such as a page that a power cut tore on a disk that lies about flushes.
func (s *Store) check(ctx context.Context) error {
	var verdict string
	if err := s.full.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return translate(ctx, err, "check the database")
	}
	if verdict != "ok" {
		return core.Wrap(core.CodeDataLoss, errors.New(verdict), "the database is damaged: restore it from a backup")
	}
	return nil
}

func (s *Store) migrate(ctx context.Context, log *slog.Logger) error {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, s.full, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	current, newest, err := p.GetVersions(ctx)
	if err != nil {
		return translate(ctx, err, "read the database's version")
	}
	if current > newest {
		return core.Errorf(core.CodeUnsupported,
			"the database has version %d and this program knows versions up to %d: start a shoal that is at least as new as the one that last used it",
			current, newest)
	}
	done, err := p.Up(ctx)
	if err != nil {
		return translate(ctx, err, "migrate the database")
	}
	if len(done) > 0 {
		log.InfoContext(ctx, "database migrated", slog.Int64("from", current), slog.Int64("to", newest))
	}
	return nil
}

// syncDirectory makes the file's entry in its directory durable; SQLite does that for its log only.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("flush the database's directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("flush the database's directory: %w", err)
	}
	return nil
}
