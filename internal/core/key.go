package core

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Key is an API key as the store keeps it: the secret itself is shown once and never stored.
type Key struct {
	ID     KeyID
	Tenant TenantID
	Name   string
	// Hash is the hex sha256 of the secret, which has 256 random bits, so no slow hash is needed.
	Hash  string
	Admin bool
	// CreatedAt and ExpiresAt bound its use; a zero ExpiresAt means it does not expire.
	CreatedAt time.Time
	ExpiresAt time.Time
}

// HashSecret returns what Key.Hash holds for a secret.
func HashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
