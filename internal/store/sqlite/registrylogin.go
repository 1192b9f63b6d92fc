package sqlite

import (
	"unicode/utf8"

	"shoal/internal/core"
	"shoal/internal/store"
)

const (
	noRegistryLogin      = "no login is kept for this registry"
	registryLoginColumns = "tenant, host, username, sealed, created_at, updated_at"
	selectRegistryLogin  = "SELECT " + registryLoginColumns + " FROM registry_login "
)

func scanRegistryLogin(r row) (l core.RegistryLogin, err error) {
	err = r.Scan(&l.Tenant, &l.Host, &l.Username, &l.Sealed, (*instant)(&l.CreatedAt), (*instant)(&l.UpdatedAt))
	return l, err
}

// RegistryLogin finds a tenant's login by the registry's host.
func (r *reader) RegistryLogin(tenant core.TenantID, host string) (core.RegistryLogin, error) {
	return one(r, noRegistryLogin, scanRegistryLogin, selectRegistryLogin+"WHERE tenant = ? AND host = ?", tenant, host)
}

// ListRegistryLogins returns a page of a tenant's logins, by host.
func (r *reader) ListRegistryLogins(tenant core.TenantID, page store.Page) (list []core.RegistryLogin, next string, err error) {
	if err := checkLimit(page.Limit); err != nil {
		return nil, "", err
	}
	after, _, err := parseCursor("registry logins", page.Cursor)
	if err != nil {
		return nil, "", err
	}
	list, more, err := readPage(r, scanRegistryLogin, store.RegistryLoginSize, page.Limit,
		selectRegistryLogin+"WHERE tenant = ? AND host > ? ORDER BY host LIMIT ?", tenant, after.ID, page.Limit+1)
	if err != nil || !more {
		return list, "", err
	}
	return list, position{Kind: "registry logins", ID: list[len(list)-1].Host}.String(), nil
}

// PutRegistryLogin inserts a login, or replaces all of it but its CreatedAt.
func (w *writer) PutRegistryLogin(l core.RegistryLogin) error {
	if l.Tenant == "" || l.Host == "" || len(l.Sealed) == 0 {
		return core.Errorf(core.CodeInvalid, "a login has a tenant, a host and a secret")
	}
	if !utf8.ValidString(l.Username) {
		return core.Invalid("username", "username holds text that is not UTF-8")
	}
	_, err := w.change("write a registry's login", "INSERT INTO registry_login ("+registryLoginColumns+`) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant, host) DO UPDATE SET username = excluded.username, sealed = excluded.sealed, updated_at = excluded.updated_at`,
		l.Tenant, l.Host, l.Username, l.Sealed, instant(l.CreatedAt), instant(l.UpdatedAt))
	return err
}

// DeleteRegistryLogin removes a login.
func (w *writer) DeleteRegistryLogin(tenant core.TenantID, host string) error {
	n, err := w.change("delete a registry's login", "DELETE FROM registry_login WHERE tenant = ? AND host = ?", tenant, host)
	if err == nil && n == 0 {
		err = core.Errorf(core.CodeNotFound, noRegistryLogin)
	}
	return err
}
