package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync/atomic"

	"shoal/internal/core"
	"shoal/internal/store"
)

// Config says which file to open and how.
type Config struct {
	// Path is the database file; it is made, readable by its owner only, if it isn't there. Its directory must exist.
	Path string
	// Logger receives what an operator acts on: migrations and repairs. It may not be nil.
	Logger *slog.Logger
	// Readers is the greatest number of concurrent reads; zero means one for each processor, and at least 4.
	Readers int
	// KeepEvents replaces store.KeepEvents; zero means store.KeepEvents.
	KeepEvents int64
	// KeepExecs replaces store.KeepExecs; zero means store.KeepExecs.
	KeepExecs int64
	// KeepKeyedCalls and KeepResults replace the bounds of those names; zero means those.
	KeepKeyedCalls, KeepResults int64
}

// Store is an open database. Everything that it acknowledged is durable; in memory it has only connections.
type Store struct {
	read, full, relaxed *sql.DB
	// writing is the lock of the one writer: who has put a value in it may write. A channel, because waiting for it must
	// end with the caller's context.
	writing chan struct{}
	keep    keep
	closed  atomic.Bool
	// reserve is touched by the one writer only.
	reserve reserve
	log     *slog.Logger
}

var _ store.Store = (*Store)(nil)

// View runs fn on one consistent moment of the database.
func (s *Store) View(ctx context.Context, fn func(store.Reader) error) error {
	tx, err := s.begin(ctx, s.read, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	// A read transaction has nothing to commit; ending it by rollback costs the same.
	defer func() { _ = tx.Rollback() }()
	return fn(newReader(ctx, tx))
}

// Update runs fn alone and flushes its changes to the disk.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	return s.update(ctx, s.full, fn)
}

// UpdateRelaxed runs fn alone and leaves the flush to a later Update.
func (s *Store) UpdateRelaxed(ctx context.Context, fn func(store.Tx) error) error {
	return s.update(ctx, s.relaxed, fn)
}

func (s *Store) update(ctx context.Context, db *sql.DB, fn func(store.Tx) error) error {
	select {
	case s.writing <- struct{}{}:
	case <-ctx.Done():
		return translate(ctx, ctx.Err(), "wait to write")
	}
	defer func() { <-s.writing }()

	tx, err := s.begin(ctx, db, nil)
	if err != nil {
		return err
	}
	// After a commit this does nothing; it also undoes the work of an fn that panics.
	defer func() { _ = tx.Rollback() }()
	if err := fn(newWriter(ctx, tx, s.keep)); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return translate(ctx, err, "commit")
	}
	if err := s.reserve.keep(); err != nil {
		// What was asked for is done.
		s.log.WarnContext(ctx, "no room is set aside for records: if the disk fills up, deletes can't be recorded", slog.Any("err", err))
	}
	return nil
}

func (s *Store) begin(ctx context.Context, db *sql.DB, opts *sql.TxOptions) (*sql.Tx, error) {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil && s.closed.Load() {
		return nil, core.Wrap(core.CodeUnavailable, err, "the database is closed")
	}
	return tx, translate(ctx, err, "begin")
}

// Close waits for the writer, copies the log into the database and closes it. Calls after Close fail with unavailable.
func (s *Store) Close() error {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	s.closed.Store(true)
	// The last connection to close copies and removes the log, which is the sign of a clean close: a writing one must be last.
	err := errors.Join(s.read.Close(), s.relaxed.Close(), s.full.Close(), s.reserve.close())
	if err != nil {
		return core.Wrap(core.CodeUnavailable, err, "the database did not close cleanly")
	}
	return nil
}
