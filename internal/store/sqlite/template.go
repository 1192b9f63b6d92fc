package sqlite

import (
	"shoal/internal/core"
	"shoal/internal/store"
)

const noTemplate = "no such template"

const templateColumns = `id, tenant, name, version, visibility, state, source, digest, size_bytes, packages,
	user, workdir, env, progress, percent, failure, created_at, ready_at`

const selectTemplate = "SELECT " + templateColumns + " FROM template "

// usable limits a query to the templates that a tenant may use.
const usable = "(tenant = ?1 OR (tenant = '" + string(core.SystemTenant) + "' AND visibility = 'public'))"

func scanTemplate(r row) (t core.Template, err error) {
	err = r.Scan(&t.ID, &t.Tenant, &t.Name, &t.Version, &t.Visibility, &t.State, &t.Source, &t.Digest, &t.SizeBytes,
		jsonOf(&t.Packages), &t.Config.User, &t.Config.Workdir, jsonOf(&t.Config.Env), &t.Progress, &t.Percent,
		&t.Failure, (*instant)(&t.CreatedAt), (*instant)(&t.ReadyAt))
	return t, err
}

// Template finds a template that the tenant may use: any version by id, else the newest ready one by name.
func (r *reader) Template(tenant core.TenantID, idOrName string) (core.Template, error) {
	t, err := one(r, noTemplate, scanTemplate, selectTemplate+"WHERE id = ?2 AND "+usable, tenant, idOrName)
	if !core.IsCode(err, core.CodeNotFound) {
		return t, err
	}
	return one(r, noTemplate, scanTemplate, selectTemplate+"WHERE name = ?2 AND state = 'ready' AND "+usable+
		" ORDER BY tenant = ?1 DESC, version DESC LIMIT 1", tenant, idOrName)
}

// ListTemplates returns a page of the templates that the tenant may use: by name, of one name the newest version first.
func (r *reader) ListTemplates(
	tenant core.TenantID, page store.Page,
) (list []core.Template, next string, err error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, "", err
	}
	after, ok, err := parseCursor("templates", page.Cursor)
	if err != nil {
		return nil, "", err
	}
	query := selectTemplate + "WHERE " + usable
	args := []any{tenant}
	if ok {
		query += " AND (name > ?2 OR (name = ?2 AND (version < ?3 OR (version = ?3 AND id > ?4))))"
		args = append(args, after.Name, after.Number, after.ID)
	}
	query += " ORDER BY name, version DESC, id LIMIT ?"
	list, more, err := readPage(r, scanTemplate, store.TemplateSize, page.Limit, query, append(args, page.Limit+1)...)
	if err != nil || !more {
		return list, "", err
	}
	t := list[len(list)-1]
	return list, position{Kind: "templates", Name: t.Name, Number: t.Version, ID: string(t.ID)}.String(), nil
}

// TemplatesInState returns the templates of every tenant in a state.
func (r *reader) TemplatesInState(state core.TemplateState) ([]core.Template, error) {
	return many(r, scanTemplate, selectTemplate+"WHERE state = ? ORDER BY created_at, id", state)
}

const putTemplate = "INSERT INTO template (" + templateColumns + `)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (id) DO UPDATE SET visibility = excluded.visibility, state = excluded.state, source = excluded.source,
	digest = excluded.digest, size_bytes = excluded.size_bytes, packages = excluded.packages, user = excluded.user,
	workdir = excluded.workdir, env = excluded.env, progress = excluded.progress, percent = excluded.percent,
	failure = excluded.failure, created_at = excluded.created_at, ready_at = excluded.ready_at
	WHERE template.tenant = excluded.tenant AND template.name = excluded.name AND template.version = excluded.version`

// PutTemplate inserts or replaces a template version. Owner, name and version of one never change.
func (w *writer) PutTemplate(t core.Template) (core.Template, error) {
	if t.ID == "" || t.Tenant == "" || t.Name == "" {
		return t, core.Errorf(core.CodeInvalid, "a template has an id, a tenant and a name")
	}
	if err := checkText("env", t.Config.Env); err != nil {
		return t, err
	}
	if t.Version == 0 {
		version, err := one(&w.reader, "", func(r row) (v int64, err error) {
			err = r.Scan(&v)
			return v, err
		}, "SELECT coalesce(max(version), 0) + 1 FROM template WHERE tenant = ? AND name = ?", t.Tenant, t.Name)
		if err != nil {
			return t, err
		}
		t.Version = version
	}
	n, err := w.change("write template", putTemplate,
		t.ID, t.Tenant, t.Name, t.Version, t.Visibility, t.State, t.Source, t.Digest, t.SizeBytes,
		jsonOf(&t.Packages), t.Config.User, t.Config.Workdir, jsonOf(&t.Config.Env), t.Progress, t.Percent,
		t.Failure, instant(t.CreatedAt), instant(t.ReadyAt))
	if isUnique(err) {
		return t, core.Wrap(core.CodeConflict, err, "the template %q has a version %d already", t.Name, t.Version)
	}
	if err == nil && n == 0 {
		err = core.Errorf(core.CodeConflict, "the id has been used before")
	}
	return t, err
}
