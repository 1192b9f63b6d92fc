package sqlite

import (
	"errors"

	"shoal/internal/core"
	"shoal/internal/store"
)

const noTemplate = "no such template"

const templateColumns = `id, tenant, name, version, visibility, state, source, digest, size_bytes, own_bytes, files, packages,
	user, workdir, env, entrypoint, cmd, labels, ports, progress, percent, failure, created_at, ready_at`

const selectTemplate = "SELECT " + templateColumns + `,
	(SELECT json_group_array(tag) FROM (SELECT tag FROM template_tag WHERE template = template.id ORDER BY tag)) FROM template `

// usable limits a query to the templates that a tenant may use, of those that there are.
const usable = "(tenant = ?1 OR (tenant = '" + string(core.SystemTenant) + "' AND visibility = 'public')) AND " + existing

const existing = "state <> 'deleted'"

func scanTemplate(r row) (t core.Template, err error) {
	err = r.Scan(&t.ID, &t.Tenant, &t.Name, &t.Version, &t.Visibility, &t.State, &t.Source, &t.Digest, &t.SizeBytes, &t.OwnBytes, &t.Files,
		jsonOf(&t.Packages), &t.Config.User, &t.Config.Workdir, jsonOf(&t.Config.Env), jsonOf(&t.Config.Entrypoint), jsonOf(&t.Config.Cmd),
		jsonOf(&t.Config.Labels), jsonOf(&t.Config.Ports), &t.Progress, &t.Percent,
		&t.Failure, (*instant)(&t.CreatedAt), (*instant)(&t.ReadyAt), jsonOf(&t.Tags))
	return t, err
}

// Template finds a template that the tenant may use.
func (r *reader) Template(tenant core.TenantID, ref core.TemplateRef) (core.Template, error) {
	var where string
	args := []any{tenant}
	switch {
	case ref.ID != "":
		where, args = "id = ?2", append(args, ref.ID)
	case ref.Digest != "":
		where, args = "digest = ?2 AND state = 'ready'", append(args, ref.Digest)
	case ref.Version != 0:
		where, args = "name = ?2 AND version = ?3", append(args, ref.Name, ref.Version)
	case ref.Tag != "":
		where = "id IN (SELECT template FROM template_tag WHERE name = ?2 AND tag = ?3)"
		args = append(args, ref.Name, ref.Tag)
	default:
		where, args = "name = ?2 AND state = 'ready'", append(args, ref.Name)
	}
	return one(r, noTemplate, scanTemplate, selectTemplate+"WHERE "+where+" AND "+usable+
		" ORDER BY tenant = ?1 DESC, version DESC, ready_at DESC LIMIT 1", args...)
}

// TemplateByID finds a template of any tenant.
func (r *reader) TemplateByID(id core.TemplateID) (core.Template, error) {
	return one(r, noTemplate, scanTemplate, selectTemplate+"WHERE id = ? AND "+existing, id)
}

func scanWord(r row) (s string, err error) {
	err = r.Scan(&s)
	return s, err
}

// TemplateUsers counts the sandboxes that started from a version, and names some of the tenant's.
func (r *reader) TemplateUsers(tenant core.TenantID, id core.TemplateID, most int) (n int, names []string, err error) {
	count, err := one(r, "", scanNumber, "SELECT count(*) FROM sandbox WHERE template_id = ? AND state <> 'deleted'", id)
	if err != nil || count == 0 {
		return 0, nil, err
	}
	names, err = many(r, scanWord, `SELECT CASE name WHEN '' THEN id ELSE name END FROM sandbox
		WHERE template_id = ? AND state <> 'deleted' AND tenant = ? ORDER BY created_at DESC, id LIMIT ?`, id, tenant, most)
	return int(count), names, err
}

// ListTemplates returns a page of the templates that the tenant may use: by name, of one name the newest version first.
func (r *reader) ListTemplates(
	tenant core.TenantID, filter store.TemplateFilter, page store.Page,
) (list []core.Template, next string, err error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, "", err
	}
	after, ok, err := parseCursor("templates", page.Cursor)
	if err != nil {
		return nil, "", err
	}
	query, args := selectTemplate+"WHERE "+usable, []any{tenant}
	if filter.Own {
		query += " AND tenant = ?1"
	}
	if filter.Name != "" {
		query += " AND name = ?"
		args = append(args, filter.Name)
	}
	if ok {
		query += " AND (name > ? OR (name = ? AND (version < ? OR (version = ? AND id > ?))))"
		args = append(args, after.Name, after.Name, after.Number, after.Number, after.ID)
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
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (id) DO UPDATE SET visibility = excluded.visibility, state = excluded.state, source = excluded.source,
	digest = excluded.digest, size_bytes = excluded.size_bytes, own_bytes = excluded.own_bytes, files = excluded.files, packages = excluded.packages,
	user = excluded.user, workdir = excluded.workdir, env = excluded.env, entrypoint = excluded.entrypoint, cmd = excluded.cmd,
	labels = excluded.labels, ports = excluded.ports, progress = excluded.progress, percent = excluded.percent,
	failure = excluded.failure, created_at = excluded.created_at, ready_at = excluded.ready_at
	WHERE template.tenant = excluded.tenant AND template.name = excluded.name AND template.version = excluded.version
	AND template.state <> 'deleted'`

// PutTemplate inserts or replaces a template version.
func (w *writer) PutTemplate(t core.Template) (core.Template, error) {
	if t.ID == "" || t.Tenant == "" || t.Name == "" {
		return t, core.Errorf(core.CodeInvalid, "a template has an id, a tenant and a name")
	}
	err := errors.Join(checkText("env", t.Config.Env), checkText("labels", t.Config.Labels),
		checkText("entrypoint", nil, t.Config.Entrypoint...), checkText("cmd", nil, t.Config.Cmd...), checkText("ports", nil, t.Config.Ports...))
	if err != nil {
		return t, err
	}
	if t.Version, err = w.nextVersion(t); err != nil {
		return t, err
	}
	n, err := w.change("write template", putTemplate,
		t.ID, t.Tenant, t.Name, t.Version, t.Visibility, t.State, t.Source, t.Digest, t.SizeBytes, t.OwnBytes, t.Files,
		jsonOf(&t.Packages), t.Config.User, t.Config.Workdir, jsonOf(&t.Config.Env), jsonOf(&t.Config.Entrypoint), jsonOf(&t.Config.Cmd),
		jsonOf(&t.Config.Labels), jsonOf(&t.Config.Ports), t.Progress, t.Percent,
		t.Failure, instant(t.CreatedAt), instant(t.ReadyAt))
	if isUnique(err) {
		return t, core.Wrap(core.CodeConflict, err, "the template %q has a version %d already", t.Name, t.Version)
	}
	if err == nil && n == 0 {
		err = core.Errorf(core.CodeConflict, "the id has been used before")
	}
	if err != nil || t.State != core.TemplateDeleted {
		return t, err
	}
	_, err = w.change("take tags away", "DELETE FROM template_tag WHERE template = ?", t.ID)
	return t, err
}

// nextVersion returns the version of a template, for a new one the next of its name, and notes that it is taken.
func (w *writer) nextVersion(t core.Template) (int64, error) {
	return one(&w.reader, "", scanNumber, `INSERT INTO template_head (tenant, name, version) VALUES (?1, ?2, max(?3, 1))
		ON CONFLICT (tenant, name) DO UPDATE SET version = CASE ?3 WHEN 0 THEN version + 1 ELSE max(version, ?3) END
		RETURNING CASE ?3 WHEN 0 THEN version ELSE ?3 END`, t.Tenant, t.Name, t.Version)
}

// ForgetTemplate removes a deleted template's record.
func (w *writer) ForgetTemplate(id core.TemplateID) error {
	_, err := w.change("forget template", "DELETE FROM template WHERE id = ? AND state = 'deleted'", id)
	return err
}

// TagTemplate makes a tag point to a version.
func (w *writer) TagTemplate(tenant core.TenantID, name, tag string, id core.TemplateID) error {
	n, err := w.change("write tag", `INSERT INTO template_tag (tenant, name, tag, template)
		SELECT tenant, name, ?3, id FROM template WHERE id = ?4 AND tenant = ?1 AND name = ?2 AND `+existing+`
		ON CONFLICT (tenant, name, tag) DO UPDATE SET template = excluded.template`, tenant, name, tag, id)
	if err == nil && n == 0 {
		err = core.Errorf(core.CodeNotFound, noTemplate)
	}
	return err
}

// UntagTemplate takes a tag away.
func (w *writer) UntagTemplate(tenant core.TenantID, name, tag string) error {
	n, err := w.change("remove tag", "DELETE FROM template_tag WHERE tenant = ? AND name = ? AND tag = ?", tenant, name, tag)
	if err == nil && n == 0 {
		err = core.Errorf(core.CodeNotFound, "no such tag")
	}
	return err
}
