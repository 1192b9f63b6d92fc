package control

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"time"

	"shoal/internal/core"
	"shoal/internal/obs"
	"shoal/internal/store"
)

// keys looks after API keys. Its methods are Service's.
type keys struct{ *deps }

// maxKeyLife bounds how long a key that expires may be good for.
const maxKeyLife = 10 * 365 * 24 * time.Hour

// NewKey makes a key of the caller's tenant, which is no admin's, and returns its secret: it is kept nowhere. Only an admin's
// key may make keys, list or delete them.
func (k *keys) NewKey(ctx context.Context, p Principal, spec core.KeySpec) (core.Key, obs.Secret, error) {
	if err := keysAllowed(p); err != nil {
		return core.Key{}, obs.Secret{}, err
	}
	secret, err := secretFor(spec.Dialect)
	if err == nil && spec.Name != "" {
		err = core.CheckName("name", spec.Name)
	}
	if err == nil && (spec.ExpiresIn < 0 || spec.ExpiresIn > maxKeyLife) {
		err = core.Invalid("expires_in_seconds", "a key is good for at most %d seconds, or for ever", int64(maxKeyLife/time.Second))
	}
	if err != nil {
		return core.Key{}, obs.Secret{}, err
	}
	now := k.clock.Now()
	key := core.Key{
		ID: core.KeyID(core.NewID()), Tenant: p.Tenant, Name: spec.Name, Hash: core.HashSecret(secret), CreatedAt: now,
	}
	if spec.ExpiresIn > 0 {
		key.ExpiresAt = now.Add(spec.ExpiresIn)
	}
	err = k.store.Update(ctx, func(tx store.Tx) error {
		if err := k.quotas.key(tx, p.Tenant); err != nil {
			return err
		}
		if err := tx.PutKey(key); err != nil {
			return err
		}
		return keyEvent(tx, p, key, core.EventKeyCreated, now)
	})
	if err != nil {
		return core.Key{}, obs.Secret{}, err
	}
	k.waiters.wake(p.Tenant)
	return key, obs.NewSecret(secret), nil
}

// ListKeys returns a page of the tenant's keys, newest first, expired ones too.
func (k *keys) ListKeys(ctx context.Context, p Principal, page store.Page) (list []core.Key, next string, err error) {
	if err := keysAllowed(p); err != nil {
		return nil, "", err
	}
	err = k.store.View(ctx, func(r store.Reader) error {
		list, next, err = r.ListKeys(p.Tenant, page)
		return err
	})
	return list, next, err
}

// DeleteKey removes a key. From then on no call is made with it; streams that are open go on. The admin key can't be
// deleted: without it nobody could make another.
func (k *keys) DeleteKey(ctx context.Context, p Principal, id core.KeyID) error {
	if err := keysAllowed(p); err != nil {
		return err
	}
	now := k.clock.Now()
	err := k.store.Update(ctx, func(tx store.Tx) error {
		key, err := tx.Key(p.Tenant, id)
		if err != nil {
			return err
		}
		if key.Admin {
			return core.Errorf(core.CodeConflict,
				"the admin key can't be deleted: remove admin.key from the data directory and restart the server, which then makes another")
		}
		if err := tx.DeleteKey(p.Tenant, id); err != nil {
			return err
		}
		return keyEvent(tx, p, key, core.EventKeyDeleted, now)
	})
	if err == nil {
		k.waiters.wake(p.Tenant)
	}
	return err
}

// keysAllowed refuses who may not have to do with keys.
func keysAllowed(p Principal) error {
	if !p.Admin {
		return core.Errorf(core.CodeDenied, "only an admin's key may make, list and delete keys")
	}
	return nil
}

// keyEvent adds an event about a key to the transaction that makes it true.
func keyEvent(tx store.Tx, p Principal, key core.Key, t core.EventType, at time.Time) error {
	data := map[string]string{"key_id": string(key.ID)}
	if key.Name != "" {
		data["name"] = key.Name
	}
	_, err := tx.AppendEvent(core.Event{Tenant: key.Tenant, Type: t, At: at, Actor: p.Actor, Data: data})
	return err
}

// secretFor returns a new secret of the form that the clients of a vendor take: E2B's want e2b_ and lower-case hex digits, and
// PandaStack's keys begin with pds_.
func secretFor(d core.KeyDialect) (string, error) {
	switch d {
	case core.KeyNative:
		return newSecret(), nil
	case core.KeyE2B:
		return "e2b_" + hex.EncodeToString(randomBytes(20)), nil
	case core.KeyPanda:
		return "pds_" + hex.EncodeToString(randomBytes(24)), nil
	}
	return "", core.Invalid("dialect", "dialect is e2b or panda, or left out")
}

// newSecret returns the secret of a key of our own form: 256 random bits.
func newSecret() string { return "shoal_" + base64.RawURLEncoding.EncodeToString(randomBytes(32)) }

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails since Go 1.24
	return b
}
