package sqlite

import (
	"time"

	"shoal/internal/core"
)

func scanKeyedCall(r row) (c core.KeyedCall, err error) {
	err = r.Scan(&c.Tenant, &c.Route, &c.Key, &c.Digest, &c.Sandbox, &c.Exec, &c.Operation, &c.Checkpoint, &c.Fed, (*instant)(&c.At), &c.Result)
	return c, err
}

// KeyedCall finds a call by its route and its key.
func (r *reader) KeyedCall(tenant core.TenantID, route, key string) (core.KeyedCall, error) {
	return one(r, "no such call", scanKeyedCall,
		"SELECT tenant, route, key, digest, sandbox, exec, operation, checkpoint, fed, at, result FROM keyed_call WHERE tenant = ? AND route = ? AND key = ?",
		tenant, route, key)
}

// PutKeyedCall inserts or replaces a call, and forgets what is too much. Each call gets a number, as an event does, so that what
// is too much is found without counting.
func (w *writer) PutKeyedCall(c core.KeyedCall) error {
	if c.Tenant == "" || c.Route == "" || c.Key == "" || c.At.IsZero() {
		return core.Errorf(core.CodeInvalid, "a keyed call has a tenant, a route, a key and a time")
	}
	seq, err := one(&w.reader, "", scanNumber, `INSERT INTO keyed_call_head (tenant, seq) VALUES (?, 1)
		ON CONFLICT (tenant) DO UPDATE SET seq = seq + 1 RETURNING seq`, c.Tenant)
	if err != nil {
		return err
	}
	_, err = w.change("write keyed call", `INSERT INTO keyed_call (tenant, route, key, seq, digest, sandbox, exec, operation, checkpoint, fed, at, result)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant, route, key) DO UPDATE SET seq = excluded.seq, digest = excluded.digest, sandbox = excluded.sandbox,
		exec = excluded.exec, operation = excluded.operation, checkpoint = excluded.checkpoint, fed = excluded.fed, at = excluded.at, result = excluded.result`,
		c.Tenant, c.Route, c.Key, seq, c.Digest, c.Sandbox, c.Exec, c.Operation, c.Checkpoint, c.Fed, instant(c.At), c.Result)
	if err == nil && seq > w.keep.results {
		// One by one: the one before it lost its result when the last call was put.
		_, err = w.change("trim results", "UPDATE keyed_call SET result = NULL WHERE tenant = ? AND seq = ?", c.Tenant, seq-w.keep.results)
	}
	if err == nil && seq > w.keep.keyedCalls {
		_, err = w.change("trim keyed calls", "DELETE FROM keyed_call WHERE tenant = ? AND seq <= ?", c.Tenant, seq-w.keep.keyedCalls)
	}
	return err
}

// DeleteKeyedCall forgets a call, if it is there.
func (w *writer) DeleteKeyedCall(tenant core.TenantID, route, key string) error {
	_, err := w.change("delete keyed call", "DELETE FROM keyed_call WHERE tenant = ? AND route = ? AND key = ?", tenant, route, key)
	return err
}

// ForgetKeyedCalls forgets the calls from before t.
func (w *writer) ForgetKeyedCalls(before time.Time) (int, error) {
	n, err := w.change("forget keyed calls", "DELETE FROM keyed_call WHERE at < ?", instant(before))
	return int(n), err
}
