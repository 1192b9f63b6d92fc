package control

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/obs"
	"shoal/internal/store"
)

// Authenticate finds who a secret belongs to. Every failure of the secret looks the same; the key of a tenant that is suspended is
// told so.
func (k *keys) Authenticate(ctx context.Context, secret string) (Principal, error) {
	var key core.Key
	var tenant core.Tenant
	seen := k.live.seen()
	err := k.store.View(ctx, func(r store.Reader) (err error) {
		if key, err = r.KeyByHash(core.HashSecret(secret)); err != nil {
			return err
		}
		tenant, err = r.Tenant(string(key.Tenant))
		return err
	})
	if err != nil && !core.IsCode(err, core.CodeNotFound) {
		return Principal{}, err
	}
	if err != nil || expired(key, k.clock.Now()) {
		return Principal{}, core.Errorf(core.CodeUnauthenticated, "the API key is missing, unknown or expired")
	}
	if !tenant.SuspendedAt.IsZero() {
		return Principal{}, errSuspended
	}
	k.noteUse(key)
	p := Principal{
		Tenant: key.Tenant, Admin: key.Admin, Scopes: key.Scopes, Labels: key.Labels, Actor: core.Actor{Kind: actorKey, ID: string(key.ID)},
		Quota: k.quotas.of(tenant), home: key.Tenant, expires: key.ExpiresAt, seen: seen, root: key.Parent == "", name: key.Name,
	}
	if key.Admin {
		p.Scopes = core.AllScopes()
	}
	return p, nil
}

// ActFor returns the principal of an operator who acts for another tenant. Anybody else may only name their own; of other tenants, those
// that don't exist included, they are told nothing.
func (k *keys) ActFor(ctx context.Context, p Principal, ref string) (Principal, error) {
	var t core.Tenant
	err := k.store.View(ctx, func(r store.Reader) (err error) {
		t, err = r.Tenant(ref)
		return err
	})
	switch {
	case err != nil && !core.IsCode(err, core.CodeNotFound):
		return Principal{}, err
	case err == nil && t.ID == p.Tenant:
		p.acting = p.Admin
		return p, nil
	case !p.Admin:
		return Principal{}, core.Errorf(core.CodeDenied, "a key acts for its own tenant: only the operator's may name another")
	case err != nil:
		return Principal{}, err
	}
	p.Tenant, p.Quota, p.acting = t.ID, k.quotas.of(t), true
	return p, nil
}

func expired(key core.Key, now time.Time) bool {
	return !key.ExpiresAt.IsZero() && !key.ExpiresAt.After(now)
}

// usedEvery is how often the use of a key is written down.
const usedEvery = time.Minute

// noteUse writes down that a key is used, unless that was done lately. Nobody waits for it.
func (k *keys) noteUse(key core.Key) {
	now := k.clock.Now()
	k.mu.Lock()
	last := k.lastUsed[key.ID]
	if key.UsedAt.After(last) {
		last = key.UsedAt
	}
	due := now.Sub(last) >= usedEvery
	if due {
		if len(k.lastUsed) >= maxUsed {
			clear(k.lastUsed) // what it knew is on record
		}
		k.lastUsed[key.ID] = now
	}
	k.mu.Unlock()
	if !due {
		return
	}
	k.tasks.run(func(ctx context.Context) {
		err := k.store.UpdateRelaxed(ctx, func(tx store.Tx) error { return tx.PutKeyUsed(key.ID, now) })
		if err != nil && ctx.Err() == nil {
			k.log.WarnContext(ctx, "write down the use of a key", slog.String("key_id", string(key.ID)), slog.Any("err", err))
		}
	})
}

// adminKeyID is the setting that holds the admin key's id.
const adminKeyID = "admin_key_id"

// NewAdminKey makes the admin key and returns its secret, which is shown nowhere else. An earlier one is no longer valid.
func (k *keys) NewAdminKey(ctx context.Context) (obs.Secret, error) {
	secret := newSecret()
	key := core.Key{
		Tenant: core.DefaultTenant, Name: "admin", Hash: core.HashSecret(secret), Admin: true, Scopes: core.AllScopes(), CreatedAt: k.clock.Now(),
	}
	err := k.store.Update(ctx, func(tx store.Tx) error {
		id, err := tx.Setting(adminKeyID)
		if core.IsCode(err, core.CodeNotFound) {
			id = core.NewID()
			err = tx.PutSetting(adminKeyID, id)
		}
		if err != nil {
			return err
		}
		key.ID = core.KeyID(id)
		return tx.PutKey(key)
	})
	if err == nil {
		k.live.keysGone([]core.Key{key})
	}
	return obs.NewSecret(secret), err
}

// publicMessage is what of an error may be shown.
func publicMessage(err error) string {
	var e *core.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return "an internal error: see the server's log"
}
