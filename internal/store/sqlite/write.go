package sqlite

import (
	"context"
	"database/sql"

	"shoal/internal/store"
)

// writer reads and writes within one transaction.
type writer struct {
	reader
	checkpointWriter
	keep keep
}

func newWriter(ctx context.Context, tx *sql.Tx, k keep) *writer {
	w := &writer{reader: reader{ctx: ctx, tx: tx}, keep: k}
	w.checkpointReader.in, w.checkpointWriter.in = &w.reader, w
	return w
}

// keep is how much is kept.
type keep struct{ events, execs, keyedCalls, results int64 }

var _ store.Tx = (*writer)(nil)

// change runs a statement and returns how many records it changed.
func (w *writer) change(act, query string, args ...any) (int64, error) {
	var res sql.Result
	res, err := w.tx.ExecContext(w.ctx, query, args...)
	if err != nil {
		return 0, translate(w.ctx, err, act)
	}
	n, err := res.RowsAffected()
	return n, translate(w.ctx, err, act)
}
