package control

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"shoal/internal/core"
	"shoal/internal/store"
)

// Vault seals small secrets so that who has only the store can't read them. What was sealed opens with the same bind only. Its methods may
// be used from many goroutines.
type Vault interface {
	Seal(secret []byte, bind string) ([]byte, error)
	// Open is data_loss if the key is gone, or what was sealed is not as it was.
	Open(sealed []byte, bind string) ([]byte, error)
}

// maxRegistryLogins bounds how many logins a tenant keeps, and maxKeptPassword each of them: all of them are one page of the store.
const (
	maxRegistryLogins = 100
	maxKeptPassword   = 16 << 10
)

// registryLogins keeps tenants' logins for registries, and finds them for their imports. Its exported methods are Service's. No method but
// finder gives a password out, and that only to the import that needs it.
type registryLogins struct {
	*deps
	// vault may be nil, if this server keeps no secrets.
	vault Vault
}

// PutRegistryLogin keeps a login for a registry, in place of the one that was kept for it. From then on the tenant's imports from there use
// it, unless they bring their own.
func (l *registryLogins) PutRegistryLogin(ctx context.Context, p Principal, spec core.RegistryLoginSpec) (core.RegistryLogin, error) {
	if err := p.may("PutRegistryLogin"); err != nil {
		return core.RegistryLogin{}, err
	}
	if err := p.needKey(); err != nil {
		return core.RegistryLogin{}, err
	}
	host, err := core.RegistryHost(spec.Host)
	if err == nil {
		err = checkLogin(spec.Username, spec.Password)
	}
	if err != nil {
		return core.RegistryLogin{}, err
	}
	if l.vault == nil {
		return core.RegistryLogin{}, core.Errorf(core.CodeUnsupported, "this server keeps no logins: send them with each import")
	}
	now := l.clock.Now()
	rec := core.RegistryLogin{Tenant: p.Tenant, Host: host, Username: spec.Username, CreatedAt: now, UpdatedAt: now}
	if rec.Sealed, err = l.vault.Seal([]byte(spec.Password.Reveal()), loginBind(rec)); err != nil {
		return core.RegistryLogin{}, err
	}
	err = l.store.Update(ctx, func(tx store.Tx) error {
		if err := roomForLogin(tx, p.Tenant, host); err != nil {
			return err
		}
		if err := tx.PutRegistryLogin(rec); err != nil {
			return err
		}
		if rec, err = tx.RegistryLogin(p.Tenant, host); err != nil {
			return err
		}
		return l.event(tx, p, host, core.EventLoginKept)
	})
	if err == nil {
		l.waiters.wake(p.Tenant)
	}
	return rec, err
}

// checkLogin refuses what no registry could be asked with.
func checkLogin(username string, password core.Secret) error {
	switch {
	case password == "":
		return core.Invalid("password", "a login has a password; without a username it is a token")
	case len(username) > maxUserBytes || len(password) > maxKeptPassword:
		return core.Invalid("password", "a username has at most %d bytes, a password %d", maxUserBytes, maxKeptPassword)
	case strings.ContainsAny(username, ":\r\n\x00") || !utf8.ValidString(username):
		return core.Invalid("username", "a username has no colon and no line break")
	case strings.ContainsAny(password.Reveal(), "\r\n\x00"):
		return core.Invalid("password", "a password has no line break")
	}
	return nil
}

// roomForLogin refuses one login too many, and any of a tenant that may not act.
func roomForLogin(r store.Reader, tenant core.TenantID, host string) error {
	if _, err := liveTenant(r, tenant); err != nil {
		return err
	}
	if _, err := r.RegistryLogin(tenant, host); !core.IsCode(err, core.CodeNotFound) {
		return err
	}
	list, _, err := r.ListRegistryLogins(tenant, store.Page{Limit: maxRegistryLogins})
	if err == nil && len(list) >= maxRegistryLogins {
		err = &core.Error{Code: core.CodeQuota, Message: "the tenant keeps logins for 100 registries, and no tenant keeps more: delete one first"}
	}
	return err
}

// GetRegistryLogin finds the login that is kept for a registry.
func (l *registryLogins) GetRegistryLogin(ctx context.Context, p Principal, host string) (rec core.RegistryLogin, err error) {
	if err := p.may("GetRegistryLogin"); err != nil {
		return rec, err
	}
	if err := p.needKey(); err != nil {
		return rec, err
	}
	err = l.store.View(ctx, func(r store.Reader) error {
		rec, err = r.RegistryLogin(p.Tenant, loginHost(host))
		return err
	})
	return rec, err
}

// loginHost is the host as a login is kept for it; one that can't be has none.
func loginHost(text string) string {
	host, err := core.RegistryHost(text)
	if err != nil {
		return ""
	}
	return host
}

// ListRegistryLogins returns a page of the tenant's logins, by host.
func (l *registryLogins) ListRegistryLogins(ctx context.Context, p Principal, page store.Page) (list []core.RegistryLogin, next string, err error) {
	if err := p.may("ListRegistryLogins"); err != nil {
		return nil, "", err
	}
	if err := p.needKey(); err != nil {
		return nil, "", err
	}
	err = l.store.View(ctx, func(r store.Reader) error {
		list, next, err = r.ListRegistryLogins(p.Tenant, page)
		return err
	})
	return list, next, err
}

// DeleteRegistryLogin keeps a login no longer. An import that is being made has had it.
func (l *registryLogins) DeleteRegistryLogin(ctx context.Context, p Principal, host string) error {
	if err := p.may("DeleteRegistryLogin"); err != nil {
		return err
	}
	if err := p.needKey(); err != nil {
		return err
	}
	host = loginHost(host)
	err := l.store.Update(ctx, func(tx store.Tx) error {
		if err := tx.DeleteRegistryLogin(p.Tenant, host); err != nil {
			return err
		}
		return l.event(tx, p, host, core.EventLoginDeleted)
	})
	if err == nil {
		l.waiters.wake(p.Tenant)
	}
	return err
}

// finder finds the logins of one tenant, for an import of its own.
func (l *registryLogins) finder(tenant core.TenantID) core.LoginFinder {
	return func(ctx context.Context, host string) (username string, password core.Secret, err error) {
		if l.vault == nil {
			return "", "", nil
		}
		var rec core.RegistryLogin
		err = l.store.View(ctx, func(r store.Reader) error {
			rec, err = r.RegistryLogin(tenant, loginHost(host))
			return err
		})
		if core.IsCode(err, core.CodeNotFound) {
			return "", "", nil
		}
		if err != nil {
			return "", "", err
		}
		secret, err := l.vault.Open(rec.Sealed, loginBind(rec))
		if err != nil {
			return "", "", err
		}
		return rec.Username, core.Secret(secret), nil
	}
}

// loginBind says whose and for what a sealed password is: a record that somebody changed, or copied to another tenant, doesn't open.
func loginBind(l core.RegistryLogin) string {
	text, _ := json.Marshal([]string{"registry login", string(l.Tenant), l.Host, l.Username}) // a list of strings
	return string(text)
}

// event adds an event about a login to the transaction that makes it true.
func (l *registryLogins) event(tx store.Tx, p Principal, host string, t core.EventType) error {
	_, err := tx.AppendEvent(core.Event{Tenant: p.Tenant, Type: t, At: l.clock.Now(), Actor: p.Actor, Data: map[string]string{"host": host}})
	return err
}
