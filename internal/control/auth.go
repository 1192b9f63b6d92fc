package control

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"

	"shoal/internal/core"
	"shoal/internal/obs"
	"shoal/internal/store"
)

// Authenticate finds who a secret belongs to. Every failure looks the same.
func (s *Service) Authenticate(ctx context.Context, secret string) (Principal, error) {
	var key core.Key
	err := s.store.View(ctx, func(r store.Reader) (err error) {
		key, err = r.KeyByHash(core.HashSecret(secret))
		return err
	})
	if err != nil && !core.IsCode(err, core.CodeNotFound) {
		return Principal{}, err
	}
	if err != nil || (!key.ExpiresAt.IsZero() && !key.ExpiresAt.After(s.clock.Now())) {
		return Principal{}, core.Errorf(core.CodeUnauthenticated, "the API key is missing, unknown or expired")
	}
	return Principal{Tenant: key.Tenant, Admin: key.Admin, Actor: core.Actor{Kind: "key", ID: string(key.ID)}}, nil
}

// adminKeyID is the setting that holds the admin key's id.
const adminKeyID = "admin_key_id"

// NewAdminKey makes the admin key and returns its secret, which is shown nowhere else. An earlier one is no longer valid.
func (s *Service) NewAdminKey(ctx context.Context) (obs.Secret, error) {
	secret := newSecret()
	err := s.store.Update(ctx, func(tx store.Tx) error {
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
			CreatedAt: s.clock.Now(),
		})
	})
	return obs.NewSecret(secret), err
}

// newSecret returns a key's secret: 256 random bits.
func newSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails since Go 1.24
	return "shoal_" + base64.RawURLEncoding.EncodeToString(b)
}

// publicMessage is what of an error may be shown.
func publicMessage(err error) string {
	var e *core.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return "an internal error: see the server's log"
}
