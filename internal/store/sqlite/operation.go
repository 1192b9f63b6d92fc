package sqlite

import (
	"errors"
	"strings"

	"shoal/internal/core"
	"shoal/internal/store"
)

const operationColumns = `id, tenant, kind, state, target, result, intent, step, percent, bytes_done, bytes_total,
	actor_kind, actor_id, created_at, ended_at, error_code, error_message`

const (
	noOperation     = "no such operation"
	selectOperation = "SELECT " + operationColumns + " FROM operation "
)

func scanOperation(r row) (o core.Operation, err error) {
	err = r.Scan(&o.ID, &o.Tenant, &o.Kind, &o.State, jsonOf(&o.Target), jsonOf(&o.Result), &o.Intent,
		&o.Progress.Step, &o.Progress.Percent, &o.Progress.BytesDone, &o.Progress.BytesTotal,
		&o.Actor.Kind, &o.Actor.ID, (*instant)(&o.CreatedAt), (*instant)(&o.EndedAt), &o.Code, &o.Message)
	return o, err
}

// Operation finds an operation of a tenant by its id.
func (r *reader) Operation(tenant core.TenantID, id core.OperationID) (core.Operation, error) {
	return one(r, noOperation, scanOperation, selectOperation+"WHERE id = ? AND tenant = ?", id, tenant)
}

// UnsettledOperations returns the operations of every tenant that run, or that have left something behind, perhaps.
func (r *reader) UnsettledOperations() ([]core.Operation, error) {
	return many(r, scanOperation, selectOperation+"WHERE unsettled ORDER BY created_at, id")
}

// ListOperations returns a page of a tenant's operations, newest first.
func (r *reader) ListOperations(
	tenant core.TenantID, filter store.OperationFilter, page store.Page,
) (list []core.Operation, next string, err error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, "", err
	}
	after, ok, err := parseCursor("operations", page.Cursor)
	if err != nil {
		return nil, "", err
	}
	query, args := selectOperation+"WHERE tenant = ?", []any{tenant}
	if ok {
		query += " AND (created_at, id) < (?, ?)"
		args = append(args, after.At, after.ID)
	}
	query, args = in(query, args, "state", filter.States)
	query, args = in(query, args, "kind", filter.Kinds)
	list, more, err := readPage(r, scanOperation, store.OperationSize, page.Limit,
		query+" ORDER BY created_at DESC, id DESC LIMIT ?", append(args, page.Limit+1)...)
	if err != nil || !more {
		return list, "", err
	}
	last := list[len(list)-1]
	return list, position{Kind: "operations", At: nanoseconds(last.CreatedAt), ID: string(last.ID)}.String(), nil
}

// in adds to a query that a column has one of some values; none means any.
func in[T ~string](query string, args []any, column string, values []T) (string, []any) {
	if len(values) == 0 {
		return query, args
	}
	for _, v := range values {
		args = append(args, v)
	}
	return query + " AND " + column + " IN (?" + strings.Repeat(", ?", len(values)-1) + ")", args
}

// PutOperation inserts an operation or replaces what may change of one that runs, and forgets old ones with each new one.
func (w *writer) PutOperation(o core.Operation) error {
	if o.ID == "" || o.Tenant == "" || o.Kind == "" || o.CreatedAt.IsZero() {
		return core.Errorf(core.CodeInvalid, "an operation has an id, a tenant, a kind and a time of creation")
	}
	if err := errors.Join(checkText("target", o.Target), checkText("result", o.Result)); err != nil {
		return err
	}
	n, err := w.change("write operation", "INSERT INTO operation ("+operationColumns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, target = excluded.target, result = excluded.result,
		step = excluded.step, percent = excluded.percent, bytes_done = excluded.bytes_done, bytes_total = excluded.bytes_total,
		ended_at = excluded.ended_at, error_code = excluded.error_code, error_message = excluded.error_message
		WHERE operation.state = 'running' AND operation.tenant = excluded.tenant AND operation.kind = excluded.kind`,
		o.ID, o.Tenant, o.Kind, o.State, jsonOf(&o.Target), jsonOf(&o.Result), o.Intent,
		o.Progress.Step, o.Progress.Percent, o.Progress.BytesDone, o.Progress.BytesTotal,
		o.Actor.Kind, o.Actor.ID, instant(o.CreatedAt), instant(o.EndedAt), o.Code, o.Message)
	if err == nil && n == 0 {
		err = core.Errorf(core.CodeConflict, "the operation has ended")
	}
	if err != nil || o.Ended() {
		return err
	}
	_, err = w.change("forget operations", `DELETE FROM operation WHERE id IN (
		SELECT id FROM operation WHERE tenant = ? AND state <> 'running' ORDER BY ended_at DESC, id DESC LIMIT -1 OFFSET ?)
		AND NOT unsettled`,
		o.Tenant, store.KeepOperations)
	return err
}

// PutOperationProgress writes how far an operation is.
func (w *writer) PutOperationProgress(id core.OperationID, p core.OperationProgress) error {
	_, err := w.change("write progress", `UPDATE operation SET step = ?, percent = ?, bytes_done = ?, bytes_total = ?
		WHERE id = ? AND state = 'running'`, p.Step, p.Percent, p.BytesDone, p.BytesTotal, id)
	return err
}

// SettleOperation records that nothing is left behind by an operation that has ended.
func (w *writer) SettleOperation(id core.OperationID) error {
	_, err := w.change("settle operation", "UPDATE operation SET unsettled = 0 WHERE id = ? AND state <> 'running'", id)
	return err
}
