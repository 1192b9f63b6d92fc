package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"shoal/internal/core"
)

// translate is the driver's edge: it turns an error of SQLite or database/sql into ours, once. act says what was being
// done, for the operator. What is ours already passes through.
func translate(ctx context.Context, err error, act string) error {
	var ours *core.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	err = fmt.Errorf("%s: %w", act, err)
	var theirs *sqlite.Error
	if errors.As(err, &theirs) {
		if e := fromCode(theirs.Code(), err); e != nil {
			return e
		}
	}
	// An interrupted statement, or a transaction that was undone because its context ended, has many faces; the context says
	// which it was.
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return core.Wrap(core.CodeTimeout, err, "the deadline passed")
	case errors.Is(err, context.Canceled), ctx.Err() != nil:
		return core.Wrap(core.CodeCanceled, err, "the call was canceled")
	}
	return core.Wrap(core.CodeInternal, err, "the database gave an unexpected error")
}

// fromCode returns nil for codes that say nothing by themselves. The low byte is the class, the rest the detail.
func fromCode(code int, err error) *core.Error {
	switch code & 0xff {
	case sqlite3.SQLITE_CONSTRAINT:
		return core.Wrap(core.CodeConflict, err, "the record contradicts another one")
	case sqlite3.SQLITE_FULL:
		return core.Wrap(core.CodeExhausted, err, "the server's disk is full")
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return core.Wrap(core.CodeDataLoss, err, "the database is damaged: restore it from a backup")
	case sqlite3.SQLITE_TOOBIG:
		return core.Wrap(core.CodeInvalid, err, "the record is too large")
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		e := core.Wrap(core.CodeUnavailable, err, "the database is locked by another program")
		e.RetryAfter = time.Second
		return e
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		return core.Wrap(core.CodeUnavailable, err, "the database's disk can't be read or written")
	}
	return nil
}

// isCode reports whether err came from an SQLite error with exactly this extended code.
func isCode(err error, code int) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code() == code
}

// isUnique reports whether a uniqueness rule other than a primary key refused the record.
func isUnique(err error) bool { return isCode(err, sqlite3.SQLITE_CONSTRAINT_UNIQUE) }
