package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"shoal/internal/core"
	"shoal/internal/store"
)

// reader reads within one transaction. It holds the context of the View or Update that it lives in, because the
// contract's methods take none: it is never used after that call.
type reader struct {
	ctx context.Context //nolint:containedctx // see above
	tx  *sql.Tx
	checkpointReader
}

func newReader(ctx context.Context, tx *sql.Tx) *reader {
	r := &reader{ctx: ctx, tx: tx}
	r.in = r
	return r
}

var _ store.Reader = (*reader)(nil)

// row is what both *sql.Row and *sql.Rows can do.
type row interface{ Scan(dest ...any) error }

// one reads a single record; missing is what the caller learns if there is none.
func one[T any](r *reader, missing string, scan func(row) (T, error), query string, args ...any) (T, error) {
	v, err := scan(r.tx.QueryRowContext(r.ctx, query, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return v, core.Errorf(core.CodeNotFound, "%s", missing)
	}
	return v, translate(r.ctx, err, "read")
}

// many reads all records of a query.
func many[T any](r *reader, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	rows, err := r.tx.QueryContext(r.ctx, query, args...)
	if err != nil {
		return nil, translate(r.ctx, err, "read list")
	}
	defer func() { _ = rows.Close() }()
	var list []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, translate(r.ctx, err, "read list")
		}
		list = append(list, v)
	}
	return list, translate(r.ctx, rows.Err(), "read list")
}

// checkLimit holds a page's limit to what the contract allows.
func checkLimit(limit int) error {
	if limit < 1 || limit > 1000 {
		return core.Invalid("limit", "a limit is 1 to 1000")
	}
	return nil
}

// readPage reads a page: at most limit records, and no more once they have reached store.MaxPageBytes. The query must offer
// one more. more says that there is one, which is not kept; what comes behind it is not read.
func readPage[T any](
	r *reader, scan func(row) (T, error), size func(T) int, limit int, query string, args ...any,
) (list []T, more bool, err error) {
	rows, err := r.tx.QueryContext(r.ctx, query, args...)
	if err != nil {
		return nil, false, translate(r.ctx, err, "read page")
	}
	defer func() { _ = rows.Close() }()
	for bytes := 0; rows.Next(); {
		if len(list) == limit || bytes >= store.MaxPageBytes {
			return list, true, nil
		}
		v, err := scan(rows)
		if err != nil {
			return nil, false, translate(r.ctx, err, "read page")
		}
		list = append(list, v)
		bytes += size(v)
	}
	return list, false, translate(r.ctx, rows.Err(), "read page")
}
