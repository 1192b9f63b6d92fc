package sqlite

import "shoal/internal/core"

func scanKey(r row) (k core.Key, err error) {
	err = r.Scan(&k.ID, &k.Tenant, &k.Name, &k.Hash, &k.Admin, (*instant)(&k.CreatedAt), (*instant)(&k.ExpiresAt))
	return k, err
}

// KeyByHash finds the key whose secret has this hash.
func (r *reader) KeyByHash(hash string) (core.Key, error) {
	return one(r, "no such key", scanKey,
		"SELECT id, tenant, name, hash, admin, created_at, expires_at FROM api_key WHERE hash = ?", hash)
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
