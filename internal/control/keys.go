package control

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/obs"
	"shoal/internal/store"
)

// keys looks after API keys. Its methods are Service's.
type keys struct {
	*deps
	mu sync.Mutex
	// lastUsed is when the use of a key was last written down, of at most maxUsed keys.
	lastUsed map[core.KeyID]time.Time
}

const (
	// maxKeyLife bounds how long a key that expires may be good for.
	maxKeyLife = 10 * 365 * 24 * time.Hour
	// keepExpired is how long an expired key is still listed.
	keepExpired = 7 * 24 * time.Hour
	maxUsed     = 4096
	// maxKeyLabels bounds what each sandbox is compared with.
	maxKeyLabels = 8
)

// NewKey makes a key of the caller's tenant and returns its secret: it is kept nowhere. It may do no more than the key that makes it:
// its scopes and sandboxes are among that one's, it doesn't outlive it, and is deleted with it. Keys that the operator makes descend
// from none.
func (k *keys) NewKey(ctx context.Context, p Principal, spec core.KeySpec) (core.Key, obs.Secret, error) {
	if err := p.may("NewKey"); err != nil {
		return core.Key{}, obs.Secret{}, err
	}
	if err := p.needKey(); err != nil {
		return core.Key{}, obs.Secret{}, err
	}
	now := k.clock.Now()
	secret, err := secretFor(spec.Dialect)
	var key core.Key
	if err == nil {
		key, err = p.narrower(spec, now)
	}
	if err != nil {
		return core.Key{}, obs.Secret{}, err
	}
	key.Hash = core.HashSecret(secret)
	err = k.store.Update(ctx, func(tx store.Tx) error {
		if err := k.live.check(tx, p); err != nil { // a key that is deleted meanwhile leaves no other behind
			return err
		}
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

// narrower is the key that a caller may make of what it asks for.
func (p Principal) narrower(spec core.KeySpec, now time.Time) (core.Key, error) {
	key := core.Key{
		ID: core.KeyID(core.NewID()), Tenant: p.Tenant, Name: spec.Name, Dialect: spec.Dialect, Scopes: spec.Scopes, CreatedAt: now,
	}
	if spec.Name != "" {
		if err := core.CheckName("name", spec.Name); err != nil {
			return key, err
		}
	}
	if key.Scopes == 0 {
		key.Scopes = core.OrdinaryScopes() & p.Scopes
	}
	if key.Scopes == 0 { // a key without any could be taken for one that nothing was said of
		return key, &core.Error{
			Code: core.CodeDenied, Field: "scopes",
			Message: "the key that makes it has none of the scopes that a key gets without a word: say which of its scopes are meant: " + p.Scopes.String(),
		}
	}
	if lacks := key.Scopes &^ p.Scopes; lacks != 0 {
		return key, &core.Error{Code: core.CodeDenied, Field: "scopes", Message: "the key that makes it lacks the scopes " + lacks.String()}
	}
	if key.Admin = key.Scopes.Has(core.ScopeAdmin); key.Admin {
		if p.Tenant != core.DefaultTenant || len(spec.Labels) > 0 {
			return key, core.Invalid("scopes", "a key with the scope admin is the server's operator's: it is made in the tenant default, and without labels")
		}
		key.Scopes = core.AllScopes()
	}
	if !p.Admin {
		key.Parent, key.ExpiresAt = core.KeyID(p.Actor.ID), p.expires
	}
	switch {
	case spec.ExpiresIn < 0 || spec.ExpiresIn > maxKeyLife:
		return key, core.Invalid("expires_in_seconds", "a key is good for at most %d seconds, or for ever", int64(maxKeyLife/time.Second))
	case spec.ExpiresIn > 0 && !p.Admin && !p.expires.IsZero() && now.Add(spec.ExpiresIn).After(p.expires):
		return key, core.Invalid("expires_in_seconds", "the key that makes it expires before that")
	case spec.ExpiresIn > 0:
		key.ExpiresAt = now.Add(spec.ExpiresIn)
	}
	var err error
	if key.Labels, err = p.labeled(spec.Labels); err != nil {
		return key, err
	}
	if len(key.Labels) > maxKeyLabels {
		return key, core.Invalid("labels", "a key is restricted by at most %d labels", maxKeyLabels)
	}
	return key, checkLabels(key.Labels)
}

// under is the key to which a caller's sight of keys is bounded; empty for none. The operator, and a tenant's keys that the operator
// made for all of it, look after all keys of the tenant, others after those that descend from them.
func (p Principal) under() core.KeyID {
	if p.Admin || p.root && len(p.Labels) == 0 {
		return ""
	}
	return core.KeyID(p.Actor.ID)
}

// ListKeys returns a page of the tenant's keys, newest first, expired ones too until they are forgotten.
func (k *keys) ListKeys(ctx context.Context, p Principal, page store.Page) (list []core.Key, next string, err error) {
	if err := p.may("ListKeys"); err != nil {
		return nil, "", err
	}
	if err := p.needKey(); err != nil {
		return nil, "", err
	}
	err = k.store.View(ctx, func(r store.Reader) error {
		list, next, err = r.ListKeys(p.Tenant, store.KeyFilter{Under: p.under(), NoAdmins: !p.Admin}, page)
		return err
	})
	return list, next, err
}

// DeleteKey removes a key with all that descend from it. From then on no call is made with them, and those under way end. The admin
// key that came with the server can't be deleted: without it nobody could make another.
func (k *keys) DeleteKey(ctx context.Context, p Principal, id core.KeyID) error {
	if err := p.may("DeleteKey"); err != nil {
		return err
	}
	if err := p.needKey(); err != nil {
		return err
	}
	now := k.clock.Now()
	var gone []core.Key
	err := k.store.Update(ctx, func(tx store.Tx) error {
		key, err := p.findKey(tx, id)
		if err != nil {
			return err
		}
		if first, err := tx.Setting(adminKeyID); err == nil && first == string(key.ID) {
			return core.Errorf(core.CodeConflict,
				"the admin key can't be deleted: remove admin.key from the data directory and restart the server, which then makes another")
		}
		if gone, err = tx.DeleteKey(p.Tenant, id); err != nil {
			return err
		}
		for _, key := range gone {
			if err := keyEvent(tx, p, key, core.EventKeyDeleted, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		k.live.keysGone(gone)
		k.waiters.wake(p.Tenant)
	}
	return err
}

// findKey finds a key that the caller may look after. Others are as if they weren't there, and so are the operator's for all else.
func (p Principal) findKey(r store.Reader, id core.KeyID) (core.Key, error) {
	key, err := r.Key(p.Tenant, id)
	if err != nil {
		return key, err
	}
	ok := p.Admin || !key.Admin
	if under := p.under(); ok && under != "" {
		ok, err = r.KeyDescends(p.Tenant, id, under)
	}
	if err == nil && !ok {
		err = core.Errorf(core.CodeNotFound, "no such key")
	}
	return key, err
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
