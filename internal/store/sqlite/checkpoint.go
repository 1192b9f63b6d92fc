package sqlite

import (
	"errors"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

const noCheckpoint = "no such checkpoint"

const checkpointColumns = `id, tenant, sandbox, parent, kind, state, cause, comment, template_id, template_name, config, resources, labels,
	created_at, expires_at, origin, written_bytes`

const selectCheckpoint = "SELECT " + checkpointColumns + " FROM checkpoint "

// checkpointReader and checkpointWriter are the parts of reader and writer that have to do with checkpoints.
type (
	checkpointReader struct{ in *reader }
	checkpointWriter struct{ in *writer }
)

func scanCheckpoint(r row) (c core.Checkpoint, err error) {
	err = r.Scan(&c.ID, &c.Tenant, &c.Sandbox, &c.Parent, &c.Kind, &c.State, &c.Cause, &c.Comment, &c.Template, &c.TemplateName,
		jsonOf(&c.Config), jsonOf(&c.Resources), jsonOf(&c.Labels), (*instant)(&c.CreatedAt), (*instant)(&c.ExpiresAt),
		&c.Origin, &c.WrittenBytes)
	return c, err
}

// Checkpoint finds a tenant's checkpoint that is ready.
func (r checkpointReader) Checkpoint(tenant core.TenantID, id core.CheckpointID) (core.Checkpoint, error) {
	return one(r.in, noCheckpoint, scanCheckpoint, selectCheckpoint+"WHERE id = ? AND tenant = ? AND state = 'ready'", id, tenant)
}

// CheckpointByID finds a checkpoint of any tenant.
func (r checkpointReader) CheckpointByID(id core.CheckpointID) (core.Checkpoint, error) {
	return one(r.in, noCheckpoint, scanCheckpoint, selectCheckpoint+"WHERE id = ?", id)
}

// ListCheckpoints returns a page of a tenant's checkpoints that are ready.
func (r checkpointReader) ListCheckpoints(
	tenant core.TenantID, filter store.CheckpointFilter, page store.Page,
) (list []core.Checkpoint, next string, err error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, "", err
	}
	after, ok, err := parseCursor("checkpoints", page.Cursor)
	if err != nil {
		return nil, "", err
	}
	if len(filter.Labels) > maxFilterLabels {
		return nil, "", core.Invalid("labels", "a filter has at most %d labels", maxFilterLabels)
	}
	query, args := selectCheckpoint+"WHERE tenant = ? AND state = 'ready'", []any{tenant}
	if filter.Sandbox != "" {
		query += " AND sandbox = ?"
		args = append(args, filter.Sandbox)
	}
	if len(filter.Causes) > 0 {
		query += " AND cause IN (?" + strings.Repeat(", ?", len(filter.Causes)-1) + ")"
		for _, c := range filter.Causes {
			args = append(args, c)
		}
	}
	for k, v := range filter.Labels {
		query += " AND EXISTS (SELECT 1 FROM json_each(checkpoint.labels) WHERE key = ? AND value = ?)"
		args = append(args, k, v)
	}
	if ok {
		query += " AND (created_at, id) < (?, ?)"
		args = append(args, after.At, after.ID)
	}
	query += " ORDER BY created_at DESC, id DESC LIMIT ?"
	list, more, err := readPage(r.in, scanCheckpoint, store.CheckpointSize, page.Limit, query, append(args, page.Limit+1)...)
	if err != nil || !more {
		return list, "", err
	}
	c := list[len(list)-1]
	return list, position{Kind: "checkpoints", At: nanoseconds(c.CreatedAt), ID: string(c.ID)}.String(), nil
}

// AllCheckpoints returns the checkpoints of every tenant.
func (r checkpointReader) AllCheckpoints() ([]core.Checkpoint, error) {
	return many(r.in, scanCheckpoint, selectCheckpoint+"ORDER BY created_at, id")
}

// CheckpointsOf returns a sandbox's checkpoints, newest first.
func (r checkpointReader) CheckpointsOf(sandbox core.SandboxID) ([]core.Checkpoint, error) {
	return many(r.in, scanCheckpoint,
		selectCheckpoint+"WHERE sandbox = ? AND state <> 'deleting' ORDER BY created_at DESC, id DESC", sandbox)
}

// CheckpointUsers counts the sandboxes that started from a checkpoint or whose files descend from it or are about to.
func (r checkpointReader) CheckpointUsers(id core.CheckpointID) (int, error) {
	n, err := one(r.in, "", scanNumber, `SELECT count(*) FROM (
		SELECT id FROM sandbox WHERE source = ?1 AND source <> '' AND state <> 'deleted'
		UNION SELECT id FROM sandbox WHERE head = ?1 AND head <> '' AND state <> 'deleted'
		UNION SELECT id FROM sandbox WHERE operation_arg = ?1 AND operation_arg <> '' AND operation = 'restore')`, id)
	return int(n), err
}

// IsRestored reports whether a restore to a checkpoint is under way. A sandbox that is deleted has another operation.
func (r checkpointReader) IsRestored(id core.CheckpointID) (bool, error) {
	n, err := one(r.in, "", scanNumber, "SELECT count(*) FROM sandbox WHERE operation_arg = ? AND operation_arg <> '' AND operation = 'restore'", id)
	return n > 0, err
}

// Forks returns the sandboxes that one call forked.
func (r checkpointReader) Forks(of core.CheckpointID) ([]core.Sandbox, error) {
	return many(r.in, scanSandbox, selectSandbox+"WHERE source = ? AND source <> '' AND parent <> '' ORDER BY created_at, id", of)
}

// NextCheckpointExpiry returns the earliest deadline of a checkpoint that is ready.
func (r checkpointReader) NextCheckpointExpiry() (at time.Time, ok bool, err error) {
	at, err = one(r.in, "", func(r row) (t time.Time, err error) {
		err = r.Scan((*instant)(&t))
		return t, err
	}, "SELECT min(expires_at) FROM checkpoint WHERE expires_at IS NOT NULL AND state = 'ready'")
	return at, !at.IsZero(), err
}

// ExpiredCheckpoints returns the checkpoints that are ready and whose deadline has come, in the order of their deadlines.
func (r checkpointReader) ExpiredCheckpoints(now time.Time) ([]core.Checkpoint, error) {
	return many(r.in, scanCheckpoint,
		selectCheckpoint+"WHERE expires_at IS NOT NULL AND expires_at <= ? AND state = 'ready' ORDER BY expires_at, id", instant(now))
}

// TenantCheckpoints returns the ids of a tenant's checkpoints.
func (r checkpointReader) TenantCheckpoints(tenant core.TenantID) ([]core.CheckpointID, error) {
	return many(r.in, func(r row) (id core.CheckpointID, err error) {
		err = r.Scan(&id)
		return id, err
	}, "SELECT id FROM checkpoint WHERE tenant = ? ORDER BY id", tenant)
}

const putCheckpoint = "INSERT INTO checkpoint (" + checkpointColumns + `)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, state = excluded.state, cause = excluded.cause, comment = excluded.comment,
	template_id = excluded.template_id, template_name = excluded.template_name, config = excluded.config, resources = excluded.resources,
	labels = excluded.labels, expires_at = excluded.expires_at, origin = excluded.origin, written_bytes = excluded.written_bytes
	WHERE checkpoint.tenant = excluded.tenant AND checkpoint.sandbox = excluded.sandbox AND checkpoint.kind = excluded.kind
	AND checkpoint.created_at = excluded.created_at AND checkpoint.state <> 'deleting'`

// PutCheckpoint inserts or replaces a checkpoint.
func (w checkpointWriter) PutCheckpoint(c core.Checkpoint) error {
	if c.ID == "" || c.Tenant == "" || c.Sandbox == "" || c.CreatedAt.IsZero() {
		return core.Errorf(core.CodeInvalid, "a checkpoint has an id, a tenant, a sandbox and a time of creation")
	}
	err := errors.Join(checkText("comment", nil, c.Comment), checkText("labels", c.Labels), checkText("env", c.Config.Env))
	if err != nil {
		return err
	}
	if c.State == core.CheckpointDeleting {
		_, err = w.in.change("free its key", `DELETE FROM keyed_call WHERE checkpoint = ?1 AND checkpoint <> ''
			AND EXISTS (SELECT 1 FROM checkpoint WHERE id = ?1 AND state = 'creating')`, c.ID)
		if err != nil {
			return err
		}
	}
	n, err := w.in.change("write checkpoint", putCheckpoint, c.ID, c.Tenant, c.Sandbox, c.Parent, c.Kind, c.State, c.Cause, c.Comment,
		c.Template, c.TemplateName, jsonOf(&c.Config), jsonOf(&c.Resources), jsonOf(&c.Labels), instant(c.CreatedAt), instant(c.ExpiresAt),
		c.Origin, c.WrittenBytes)
	if err == nil && n == 0 {
		err = core.Errorf(core.CodeConflict, "the checkpoint is deleted")
	}
	if err != nil || c.State != core.CheckpointDeleting {
		return err
	}
	for act, query := range map[string]string{
		"move children":  "UPDATE checkpoint SET parent = ?1 WHERE parent = ?2",
		"move sandboxes": "UPDATE sandbox SET head = ?1 WHERE head = ?2",
	} {
		if _, err := w.in.change(act, query, c.Parent, c.ID); err != nil {
			return err
		}
	}
	return nil
}

// ForgetCheckpoint removes the record of a checkpoint that is being deleted.
func (w checkpointWriter) ForgetCheckpoint(id core.CheckpointID) error {
	_, err := w.in.change("forget checkpoint", "DELETE FROM checkpoint WHERE id = ? AND state = 'deleting'", id)
	return err
}
