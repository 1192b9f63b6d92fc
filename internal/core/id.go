package core

import (
	"crypto/rand"
	"strings"
)

// The kinds of id. An id is opaque: 22 characters of [a-z0-9], a letter first, 108 random bits
// (log2 26 + 21·log2 36), so it is a valid DNS label and is never used again.
type (
	// SandboxID names one sandbox for ever.
	SandboxID string
	// TenantID names a tenant.
	TenantID string
	// TemplateID names one version of a template.
	TemplateID string
	// ExecID names one process that a caller started.
	ExecID string
	// KeyID names an API key; it is not the secret.
	KeyID string
	// OperationID names one piece of long work.
	OperationID string
	// NodeID names a machine that runs sandboxes.
	NodeID string
)

// IDLength is the number of characters in an id.
const IDLength = 22

const (
	letters      = "abcdefghijklmnopqrstuvwxyz"
	alphanumeric = letters + "0123456789"
)

// maxName is the greatest length of a name.
const maxName = 63

// NewID returns a fresh random id from the system's randomness.
func NewID() string {
	b := make([]byte, IDLength)
	b[0] = letters[randomBelow(len(letters))]
	for i := 1; i < IDLength; i++ {
		b[i] = alphanumeric[randomBelow(len(alphanumeric))]
	}
	return string(b)
}

// randomBelow returns an unbiased random number in [0, n), n ≤ 256, by rejection.
func randomBelow(n int) int {
	limit := 256 - 256%n
	var b [1]byte
	for {
		_, _ = rand.Read(b[:]) // crypto/rand.Read never fails since Go 1.24: it crashes the program instead.
		if int(b[0]) < limit {
			return int(b[0]) % n
		}
	}
}

// IsID reports whether s has the shape of an id.
func IsID(s string) bool {
	return len(s) == IDLength && strings.Trim(s[:1], letters) == "" && strings.Trim(s, alphanumeric) == ""
}

// CheckName returns an error that blames field unless s may name something of a tenant: 1 to 63 characters of
// [a-z0-9-], not starting with a dash, and not of the shape of an id, so that a path can hold either.
func CheckName(field, s string) error {
	if s == "" || len(s) > maxName || s[0] == '-' || strings.Trim(s, alphanumeric+"-") != "" {
		return Invalid(field, "a name has 1 to 63 characters of a-z, 0-9 and dash, and starts with a letter or digit")
	}
	if IsID(s) {
		return Invalid(field, "a name may not look like an id (22 letters and digits): add a dash")
	}
	return nil
}
