package core

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// KeyDialect says of which form a key's secret is: the clients of some vendors refuse a key that doesn't look like their
// vendor's. It is nothing but that form: every key works at every listener.
type KeyDialect string

// The forms of a secret.
const (
	KeyNative KeyDialect = ""
	KeyE2B    KeyDialect = "e2b"
	KeyPanda  KeyDialect = "panda"
)

// KeySpec says what key to make.
type KeySpec struct {
	// Name is for people and need not be unique; it may be empty.
	Name    string
	Dialect KeyDialect
	// ExpiresIn is how long it will be good for; zero means for as long as the key that makes it.
	ExpiresIn time.Duration
	// Scopes are what it may do; zero means what an ordinary key may, as far as the key that makes it may.
	Scopes ScopeSet
	// Labels restrict it to the sandboxes that have them all, beside those that the key that makes it is restricted to.
	Labels map[string]string
}

// Key is an API key as the store keeps it: the secret itself is shown once and never stored.
type Key struct {
	ID     KeyID
	Tenant TenantID
	Name   string
	// Hash is the hex sha256 of the secret, which has at least 160 random bits, so no slow hash is needed.
	Hash    string
	Dialect KeyDialect
	// Admin says that it is the operator's: of all tenants.
	Admin  bool
	Scopes ScopeSet
	// Labels restrict it to the sandboxes that have them all; none is no restriction.
	Labels map[string]string
	// Parent is the key that made it, and with which it ends; empty if the operator did.
	Parent KeyID
	// CreatedAt and ExpiresAt bound its use; a zero ExpiresAt means it does not expire.
	CreatedAt time.Time
	ExpiresAt time.Time
	// UsedAt is when a call was last made with it, or up to a minute before that; zero if none was.
	UsedAt time.Time
}

// HashSecret returns what Key.Hash holds for a secret.
func HashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
