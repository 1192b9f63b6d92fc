package control

import (
	"context"
	"errors"

	"shoal/internal/core"
	"shoal/internal/obs"
	"shoal/internal/store"
)

// Authenticate finds who a secret belongs to. Every failure looks the same.
func (k *keys) Authenticate(ctx context.Context, secret string) (Principal, error) {
	var key core.Key
	err := k.store.View(ctx, func(r store.Reader) (err error) {
		key, err = r.KeyByHash(core.HashSecret(secret))
		return err
	})
	if err != nil && !core.IsCode(err, core.CodeNotFound) {
		return Principal{}, err
	}
	if err != nil || (!key.ExpiresAt.IsZero() && !key.ExpiresAt.After(k.clock.Now())) {
		return Principal{}, core.Errorf(core.CodeUnauthenticated, "the API key is missing, unknown or expired")
	}
	return Principal{Tenant: key.Tenant, Admin: key.Admin, Actor: core.Actor{Kind: "key", ID: string(key.ID)}}, nil
}

// adminKeyID is the setting that holds the admin key's id.
const adminKeyID = "admin_key_id"

// NewAdminKey makes the admin key and returns its secret, which is shown nowhere else. An earlier one is no longer valid.
func (k *keys) NewAdminKey(ctx context.Context) (obs.Secret, error) {
	secret := newSecret()
	err := k.store.Update(ctx, func(tx store.Tx) error {
		id, err := tx.Setting(adminKeyID)
		if core.IsCode(err, core.CodeNotFound) {
			id = core.NewID()
			err = tx.PutSetting(adminKeyID, id)
		}
		if err != nil {
			return err
		}
		return tx.PutKey(core.Key{
			ID: core.KeyID(id), Tenant: core.DefaultTenant, Name: "admin", Hash: core.HashSecret(secret), Admin: true,
			CreatedAt: k.clock.Now(),
		})
	})
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
