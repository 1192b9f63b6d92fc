package sqlite

import (
	"shoal/internal/core"
	"shoal/internal/store"
)

const (
	noKey     = "no such key"
	selectKey = "SELECT id, tenant, name, hash, admin, created_at, expires_at FROM api_key "
)

func scanKey(r row) (k core.Key, err error) {
	err = r.Scan(&k.ID, &k.Tenant, &k.Name, &k.Hash, &k.Admin, (*instant)(&k.CreatedAt), (*instant)(&k.ExpiresAt))
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
func (r *reader) ListKeys(tenant core.TenantID, page store.Page) (list []core.Key, next string, err error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, "", err
	}
	after, ok, err := parseCursor("keys", page.Cursor)
	if err != nil {
		return nil, "", err
	}
	query, args := selectKey+"WHERE tenant = ?1", []any{tenant}
	if ok {
		query += " AND (created_at, id) < (?2, ?3)"
		args = append(args, after.At, after.ID)
	}
	list, more, err := readPage(r, scanKey, store.KeySize, page.Limit, query+" ORDER BY created_at DESC, id DESC LIMIT ?",
		append(args, page.Limit+1)...)
	if err != nil || !more {
		return list, "", err
	}
	last := list[len(list)-1]
	return list, position{Kind: "keys", At: nanoseconds(last.CreatedAt), ID: string(last.ID)}.String(), nil
}

// DeleteKey removes a key.
func (w *writer) DeleteKey(tenant core.TenantID, id core.KeyID) error {
	n, err := w.change("delete key", "DELETE FROM api_key WHERE id = ? AND tenant = ?", id, tenant)
	if err == nil && n == 0 {
		err = core.Errorf(core.CodeNotFound, noKey)
	}
	return err
}

// PutKey inserts or replaces a key. Its tenant never changes.
func (w *writer) PutKey(k core.Key) error {
	if k.ID == "" || k.Tenant == "" || k.Hash == "" {
		return core.Errorf(core.CodeInvalid, "a key has an id, a tenant and a hash")
	}
	n, err := w.change("write key", `INSERT INTO api_key (id, tenant, name, hash, admin, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, hash = excluded.hash, admin = excluded.admin,
		created_at = excluded.created_at, expires_at = excluded.expires_at
		WHERE api_key.tenant = excluded.tenant`,
		k.ID, k.Tenant, k.Name, k.Hash, k.Admin, instant(k.CreatedAt), instant(k.ExpiresAt))
	if err == nil && n == 0 {
		err = core.Errorf(core.CodeConflict, "the id has been used before")
	}
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
