package control

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"

	"shoal/internal/core"
	"shoal/internal/store"
)

// accessKeySetting is the setting that holds the installation's key of access tokens: 256 random bits in hex.
const accessKeySetting = "access_token_key"

// access makes the access tokens of sandboxes. They are derived from the sandbox's id, so that none is stored: the same
// sandbox always has the same one, and it ends with the sandbox, whose id is never used again.
type access struct {
	*deps
	// key is read once, at Start, before any call.
	key []byte
}

// start reads the installation's key, and makes it if there is none.
func (a *access) start(ctx context.Context) error {
	var text string
	err := a.store.View(ctx, func(r store.Reader) (err error) {
		text, err = r.Setting(accessKeySetting)
		return err
	})
	if core.IsCode(err, core.CodeNotFound) {
		fresh := make([]byte, sha256.Size)
		_, _ = rand.Read(fresh) // never fails since Go 1.24
		text = hex.EncodeToString(fresh)
		err = a.store.Update(ctx, func(tx store.Tx) error { return tx.PutSetting(accessKeySetting, text) })
	}
	if err != nil {
		return err
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != sha256.Size {
		return core.Wrap(core.CodeDataLoss, err, "the database's key of access tokens is damaged: restore the database from a backup, or delete the setting %s in it, and all access tokens become others",
			accessKeySetting)
	}
	a.key = key
	return nil
}

// AccessToken returns the secret that opens the inside of one sandbox, and nothing else, to who has no API key: 64 characters
// of lower-case hex. It may be called after Start.
func (s *Service) AccessToken(sb core.Sandbox) string {
	if len(s.access.key) == 0 {
		panic("control: AccessToken before Start") // an empty key would make tokens that anyone can make
	}
	mac := hmac.New(sha256.New, s.access.key)
	_, _ = mac.Write([]byte(sb.ID)) // a hash takes everything
	return hex.EncodeToString(mac.Sum(nil))
}

// OpenSandbox finds a sandbox of any tenant by id, for a caller without a key. opens is called with the sandbox's access token
// and reports whether the caller has shown that it knows it; it must compare in constant time. The principal that comes back
// may do everything inside that sandbox and nothing else. An id that is unknown or deleted is not_found; a caller whom opens
// turns away is unauthenticated.
func (s *Service) OpenSandbox(ctx context.Context, id core.SandboxID, opens func(token string) bool) (Principal, core.Sandbox, error) {
	seen := s.live.seen()
	sb, err := s.access.sandbox(ctx, id)
	if err != nil {
		return Principal{}, core.Sandbox{}, err
	}
	if !opens(s.AccessToken(sb)) {
		return Principal{}, core.Sandbox{}, core.Errorf(core.CodeUnauthenticated, "the sandbox's access token is missing or wrong")
	}
	var t core.Tenant
	err = s.store.View(ctx, func(r store.Reader) error {
		t, err = liveTenant(r, sb.Tenant)
		return err
	})
	if err != nil {
		return Principal{}, core.Sandbox{}, err
	}
	p := Principal{Tenant: sb.Tenant, Sandbox: sb.ID, Scopes: core.OrdinaryScopes(), Actor: core.Actor{Kind: "token", ID: string(sb.ID)}}
	p.Quota, p.home, p.seen = s.quotas.of(t), sb.Tenant, seen
	return p, sb, nil
}

// Alive reports whether a sandbox, of any tenant, is running. It needs no token and tells nothing else: it is for a liveness
// probe by who knows the id.
func (s *Service) Alive(ctx context.Context, id core.SandboxID) bool {
	sb, err := s.access.sandbox(ctx, id)
	if err != nil || sb.State != core.StateRunning {
		return false
	}
	_, err = s.node.Guest(id)
	return err == nil
}

// sandbox finds a sandbox of any tenant that isn't deleted.
func (a *access) sandbox(ctx context.Context, id core.SandboxID) (sb core.Sandbox, err error) {
	err = a.store.View(ctx, func(r store.Reader) error {
		sb, err = r.SandboxByID(id)
		return err
	})
	if err == nil && sb.State == core.StateDeleted {
		err = core.Errorf(core.CodeNotFound, "no such sandbox")
	}
	return sb, err
}
