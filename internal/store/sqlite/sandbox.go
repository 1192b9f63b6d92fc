package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

const noSandbox = "no such sandbox"

const maxFilterLabels = 100

const sandboxColumns = `id, tenant, name, template_id, template_name, state, operation, operation_since, incarnation, node, epoch,
	persistent, vcpus, memory_bytes, disk_bytes, env, labels, created_at, started_at, expires_at, deleted_at, failure,
	idle, on_idle, active_at, pids, open_files, cpu_weight, io_weight, state_since, rules, head, source, config, parent, operation_arg`

const selectSandbox = "SELECT " + sandboxColumns + " FROM sandbox "

func scanSandbox(r row) (b core.Sandbox, err error) {
	err = r.Scan(&b.ID, &b.Tenant, &b.Name, &b.Template, &b.TemplateName, &b.State, &b.Operation,
		(*instant)(&b.OperationSince), &b.Incarnation, &b.Node, &b.Epoch,
		&b.Persistent, &b.Resources.VCPUs, &b.Resources.MemoryBytes, &b.Resources.DiskBytes,
		jsonOf(&b.Env), jsonOf(&b.Labels), (*instant)(&b.CreatedAt), (*instant)(&b.StartedAt),
		(*instant)(&b.ExpiresAt), (*instant)(&b.DeletedAt), &b.Failure,
		&b.Idle, &b.OnIdle, (*instant)(&b.ActiveAt),
		&b.Resources.Pids, &b.Resources.OpenFiles, &b.Resources.CPUWeight, &b.Resources.IOWeight,
		(*instant)(&b.StateSince), jsonOf(&b.Rules), &b.Head, &b.Source, jsonOf(&b.Config), &b.Parent, &b.OperationArg)
	return b, err
}

// Sandbox finds a sandbox of the tenant that isn't deleted, first by id, then by name.
func (r *reader) Sandbox(tenant core.TenantID, idOrName string) (core.Sandbox, error) {
	b, err := one(r, noSandbox, scanSandbox,
		selectSandbox+"WHERE id = ? AND tenant = ? AND state <> 'deleted'", idOrName, tenant)
	if !core.IsCode(err, core.CodeNotFound) || idOrName == "" {
		return b, err
	}
	return one(r, noSandbox, scanSandbox,
		selectSandbox+"WHERE tenant = ? AND name = ? AND name <> '' AND state <> 'deleted'", tenant, idOrName)
}

// SandboxByID finds a sandbox of any tenant, deleted ones too.
func (r *reader) SandboxByID(id core.SandboxID) (core.Sandbox, error) {
	return one(r, noSandbox, scanSandbox, selectSandbox+"WHERE id = ?", id)
}

// ListSandboxes returns a page of the tenant's sandboxes.
func (r *reader) ListSandboxes(
	tenant core.TenantID, filter store.SandboxFilter, page store.Page,
) (list []core.Sandbox, next string, err error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, "", err
	}
	kind, behind, order := "sandboxes", "<", "DESC"
	if filter.OldestFirst {
		kind, behind, order = "sandboxes up", ">", "ASC"
	}
	after, ok, err := parseCursor(kind, page.Cursor)
	if err != nil {
		return nil, "", err
	}
	// SQLite bounds the depth of an expression, at a number that a caller's filter must not get near to.
	if len(filter.Labels) > maxFilterLabels {
		return nil, "", core.Invalid("labels", "a filter has at most %d labels", maxFilterLabels)
	}
	where, args := sandboxesWhere(filter)
	query := selectSandbox + "WHERE tenant = ?" + where
	args = append([]any{tenant}, args...)
	if ok {
		query += " AND (created_at, id) " + behind + " (?, ?)"
		args = append(args, after.At, after.ID)
	}
	query += " ORDER BY created_at " + order + ", id " + order + " LIMIT ?"
	list, more, err := readPage(r, scanSandbox, store.SandboxSize, page.Limit, query, append(args, page.Limit+1)...)
	if err != nil || !more {
		return list, "", err
	}
	b := list[len(list)-1]
	return list, position{Kind: kind, At: nanoseconds(b.CreatedAt), ID: string(b.ID)}.String(), nil
}

// sandboxesWhere is a filter as a condition.
func sandboxesWhere(filter store.SandboxFilter) (where string, args []any) {
	if !filter.IncludeDeleted {
		where += " AND state <> 'deleted'"
	}
	if len(filter.States) > 0 {
		where += " AND state IN (?" + strings.Repeat(", ?", len(filter.States)-1) + ")"
		for _, s := range filter.States {
			args = append(args, s)
		}
	}
	for k, v := range filter.Labels {
		where += " AND EXISTS (SELECT 1 FROM json_each(sandbox.labels) WHERE key = ? AND value = ?)"
		args = append(args, k, v)
	}
	if !filter.StartedAfter.IsZero() {
		where += " AND started_at > ?"
		args = append(args, nearest(filter.StartedAfter))
	}
	if filter.Template != "" {
		where += " AND (template_id = ? OR template_name = ?)"
		args = append(args, filter.Template, filter.Template)
	}
	return where, args
}

// AllSandboxes returns what the reconcile loop has to look after.
func (r *reader) AllSandboxes() ([]core.Sandbox, error) {
	return many(r, scanSandbox, selectSandbox+"WHERE state <> 'deleted' OR operation <> '' ORDER BY created_at, id")
}

const countSandboxes = "SELECT state, count(*) FROM sandbox WHERE state <> 'deleted' GROUP BY state"

// CountSandboxes counts what is not deleted, by state.
func (r *reader) CountSandboxes() (map[core.State]int, error) {
	count := map[core.State]int{}
	_, err := many(r, func(r row) (s core.State, err error) {
		var n int
		err = r.Scan(&s, &n)
		count[s] = n
		return s, err
	}, countSandboxes)
	return count, err
}

const putSandbox = "INSERT INTO sandbox (" + sandboxColumns + `, next_rule_at)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (id) DO UPDATE SET name = excluded.name, template_id = excluded.template_id,
	template_name = excluded.template_name, state = excluded.state, operation = excluded.operation,
	operation_since = excluded.operation_since, incarnation = excluded.incarnation, node = excluded.node,
	epoch = excluded.epoch, persistent = excluded.persistent, vcpus = excluded.vcpus,
	memory_bytes = excluded.memory_bytes, disk_bytes = excluded.disk_bytes, env = excluded.env,
	labels = excluded.labels, created_at = excluded.created_at, started_at = excluded.started_at,
	expires_at = excluded.expires_at, deleted_at = excluded.deleted_at, failure = excluded.failure,
	idle = excluded.idle, on_idle = excluded.on_idle, active_at = excluded.active_at,
	pids = excluded.pids, open_files = excluded.open_files, cpu_weight = excluded.cpu_weight, io_weight = excluded.io_weight,
	state_since = excluded.state_since, rules = excluded.rules, next_rule_at = excluded.next_rule_at,
	head = excluded.head, source = excluded.source, config = excluded.config, parent = excluded.parent, operation_arg = excluded.operation_arg`

// PutSandbox inserts or replaces a sandbox.
func (w *writer) PutSandbox(b core.Sandbox) error {
	if b.ID == "" || b.Tenant == "" || b.CreatedAt.IsZero() {
		return core.Errorf(core.CodeInvalid, "a sandbox has an id, a tenant and a time of creation")
	}
	if err := errors.Join(checkText("env", b.Env), checkText("labels", b.Labels), checkConfig(b.Config)); err != nil {
		return err
	}
	if err := w.claimID(b); err != nil {
		return err
	}
	next, _ := core.NextClockRule(b)
	_, err := w.change("write sandbox", putSandbox,
		b.ID, b.Tenant, b.Name, b.Template, b.TemplateName, b.State, b.Operation,
		instant(b.OperationSince), b.Incarnation, b.Node, b.Epoch,
		b.Persistent, b.Resources.VCPUs, b.Resources.MemoryBytes, b.Resources.DiskBytes,
		jsonOf(&b.Env), jsonOf(&b.Labels), instant(b.CreatedAt), instant(b.StartedAt),
		instant(b.ExpiresAt), instant(b.DeletedAt), b.Failure,
		int64(b.Idle), b.OnIdle, instant(b.ActiveAt),
		b.Resources.Pids, b.Resources.OpenFiles, b.Resources.CPUWeight, b.Resources.IOWeight,
		instant(b.StateSince), jsonOf(&b.Rules), b.Head,
		b.Source, jsonOf(&b.Config), b.Parent, b.OperationArg, instant(next.DueAt))
	if isUnique(err) {
		return &core.Error{Code: core.CodeConflict, Field: "name", Message: fmt.Sprintf("another sandbox has the name %q", b.Name), Err: err}
	}
	return err
}

func checkConfig(c *core.TemplateConfig) error {
	if c == nil {
		return nil
	}
	return checkText("config", c.Env)
}

// PutActive writes when a sandbox was last used.
func (w *writer) PutActive(id core.SandboxID, at time.Time) error {
	_, err := w.change("write use", "UPDATE sandbox SET active_at = ? WHERE id = ? AND state <> 'deleted'", instant(at), id)
	return err
}

// claimID reserves the id of a new sandbox for ever. An id that has been used by another tenant, or whose sandbox is
// deleted or forgotten, is never used again.
func (w *writer) claimID(b core.Sandbox) error {
	n, err := w.change("reserve id",
		"INSERT INTO reserved_id (id, tenant) VALUES (?, ?) ON CONFLICT (id) DO NOTHING", b.ID, b.Tenant)
	if err != nil || n == 1 {
		return err
	}
	var tenant core.TenantID
	var state sql.Null[core.State]
	_, err = one(&w.reader, "", func(r row) (struct{}, error) {
		return struct{}{}, r.Scan(&tenant, &state)
	}, "SELECT r.tenant, s.state FROM reserved_id r LEFT JOIN sandbox s ON s.id = r.id WHERE r.id = ?", b.ID)
	switch {
	case err != nil:
		return err
	case tenant != b.Tenant, !state.Valid:
		return core.Errorf(core.CodeConflict, "the id has been used before")
	case state.V == core.StateDeleted && b.State != core.StateDeleted:
		return core.Errorf(core.CodeConflict, "the sandbox is deleted")
	}
	return nil
}

// ForgetSandboxes removes old records of deleted sandboxes; their execs go with them. One whose delete operation is still
// under way is kept: something of it may still exist on a node.
func (w *writer) ForgetSandboxes(before time.Time) (int, error) {
	n, err := w.change("forget sandboxes",
		"DELETE FROM sandbox WHERE state = 'deleted' AND operation = '' AND deleted_at < ?", instant(before))
	return int(n), err
}
