package sqlite

import (
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

const (
	noKey      = "no such key"
	keyColumns = "id, tenant, name, hash, admin, created_at, expires_at, dialect, scopes, labels, parent, used_at"
	selectKey  = "SELECT " + keyColumns + " FROM api_key "
	// family is a key of a tenant with all that descend from it: ?1 is the tenant, ?2 the key.
	family = `WITH RECURSIVE family (id) AS (
		SELECT id FROM api_key WHERE id = ?2 AND tenant = ?1
		UNION SELECT k.id FROM api_key k JOIN family f ON k.parent = f.id WHERE k.tenant = ?1) `
)

func scanKey(r row) (k core.Key, err error) {
	var scopes []string
	err = r.Scan(&k.ID, &k.Tenant, &k.Name, &k.Hash, &k.Admin, (*instant)(&k.CreatedAt), (*instant)(&k.ExpiresAt),
		&k.Dialect, jsonOf(&scopes), jsonOf(&k.Labels), &k.Parent, (*instant)(&k.UsedAt))
	for _, s := range scopes {
		k.Scopes |= core.ScopesOf(core.Scope(s)) // a word of a newer program's gives nothing
	}
	return k, err
}

// KeyByHash finds the key whose secret has this hash.
func (r *reader) KeyByHash(hash string) (core.Key, error) {
	return one(r, noKey, scanKey, selectKey+"WHERE hash = ?", hash)
}

// Key finds a key of a tenant by its id.
func (r *reader) Key(tenant core.TenantID, id core.KeyID) (core.Key, error) {
	return one(r, noKey, scanKey, selectKey+"WHERE id = ? AND tenant = ?", id, tenant)
}

// ListKeys returns a page of a tenant's keys, newest first.
func (r *reader) ListKeys(tenant core.TenantID, filter store.KeyFilter, page store.Page) (list []core.Key, next string, err error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, "", err
	}
	after, ok, err := parseCursor("keys", page.Cursor)
	if err != nil {
		return nil, "", err
	}
	query := selectKey + "WHERE tenant = ?1"
	if filter.Under != "" {
		query = family + query + " AND id IN (SELECT id FROM family)"
	}
	if filter.NoAdmins {
		query += " AND NOT admin"
	}
	if ok {
		query += " AND (created_at, id) < (?3, ?4)"
	}
	list, more, err := readPage(r, scanKey, store.KeySize, page.Limit, query+" ORDER BY created_at DESC, id DESC LIMIT ?5",
		tenant, filter.Under, after.At, after.ID, page.Limit+1)
	if err != nil || !more {
		return list, "", err
	}
	last := list[len(list)-1]
	return list, position{Kind: "keys", At: nanoseconds(last.CreatedAt), ID: string(last.ID)}.String(), nil
}

// KeyDescends reports whether a key is another one or descends from it.
func (r *reader) KeyDescends(tenant core.TenantID, id, from core.KeyID) (bool, error) {
	n, err := one(r, "", scanNumber, family+"SELECT count(*) FROM family WHERE id = ?3", tenant, from, id)
	return n > 0, err
}

// DeleteKey removes a key with all that descend from it.
func (w *writer) DeleteKey(tenant core.TenantID, id core.KeyID) ([]core.Key, error) {
	list, err := many(&w.reader, scanKey, family+selectKey+"WHERE id IN (SELECT id FROM family) ORDER BY id <> ?2, created_at, id", tenant, id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, core.Errorf(core.CodeNotFound, noKey)
	}
	_, err = w.change("delete key", family+"DELETE FROM api_key WHERE id IN (SELECT id FROM family)", tenant, id)
	return list, err
}

// PutKey inserts or replaces a key. Its tenant and parent never change.
func (w *writer) PutKey(k core.Key) error {
	if k.ID == "" || k.Tenant == "" || k.Hash == "" {
		return core.Errorf(core.CodeInvalid, "a key has an id, a tenant and a hash")
	}
	if err := checkText("labels", k.Labels); err != nil {
		return err
	}
	scopes := k.Scopes.List()
	n, err := w.change("write key", "INSERT INTO api_key ("+keyColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, hash = excluded.hash, admin = excluded.admin,
		created_at = excluded.created_at, expires_at = excluded.expires_at, dialect = excluded.dialect, scopes = excluded.scopes,
		labels = excluded.labels, used_at = excluded.used_at
		WHERE api_key.tenant = excluded.tenant AND api_key.parent = excluded.parent`,
		k.ID, k.Tenant, k.Name, k.Hash, k.Admin, instant(k.CreatedAt), instant(k.ExpiresAt),
		k.Dialect, jsonOf(&scopes), jsonOf(&k.Labels), k.Parent, instant(k.UsedAt))
	if err == nil && n == 0 {
		err = core.Errorf(core.CodeConflict, "the id has been used before")
	}
	return err
}

// PutKeyUsed writes when a key was last used.
func (w *writer) PutKeyUsed(id core.KeyID, at time.Time) error {
	_, err := w.change("write use of a key", "UPDATE api_key SET used_at = ? WHERE id = ?", instant(at), id)
	return err
}

// ForgetKeys removes the keys that expired before t. What descends from one has expired too.
func (w *writer) ForgetKeys(before time.Time) error {
	_, err := w.change("forget keys", "DELETE FROM api_key WHERE expires_at < ?", instant(before))
	return err
}

// Setting reads a value of the server itself.
func (r *reader) Setting(name string) (string, error) {
	return one(r, "no such setting", func(r row) (v string, err error) {
		err = r.Scan(&v)
		return v, err
	}, "SELECT value FROM setting WHERE name = ?", name)
}

// PutSetting inserts or replaces a value of the server itself.
func (w *writer) PutSetting(name, value string) error {
	if name == "" {
		return core.Errorf(core.CodeInvalid, "a setting has a name")
	}
	_, err := w.change("write setting",
		"INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value)
	return err
}
