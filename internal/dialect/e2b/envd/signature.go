package envd

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"shoal/internal/core"
)

// Signed is what a signed address says: it stands for the sandbox's access token on one file.
type Signed struct {
	// Path is as in the address, not made absolute.
	Path string
	// Operation is "read" or "write".
	Operation string
	// User is empty if the address has none.
	User      string
	Signature string
	// Expiration is in seconds since 1970, as written in the address; empty for an address that holds as long as the sandbox.
	Expiration string
}

// SignedOf returns what a request to /files says. ok is false for a request that no signature can stand for.
func SignedOf(method string, query url.Values) (s Signed, ok bool) {
	s = Signed{
		Path: query.Get("path"), User: query.Get("username"), Signature: query.Get("signature"), Expiration: query.Get("signature_expiration"),
	}
	switch method {
	case http.MethodGet, http.MethodHead:
		s.Operation = "read"
	case http.MethodPost:
		s.Operation = "write"
	default:
		return s, false
	}
	return s, true
}

// Sign returns the signature of an address with an access token.
func (s Signed) Sign(token string) string {
	parts := []string{s.Path, s.Operation, s.User, token}
	if s.Expiration != "" {
		parts = append(parts, s.Expiration)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, ":")))
	return "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// CheckSignature reports whether a signed address opens a sandbox with the access token: nil, or an unauthenticated error in the words
// that clients know.
func CheckSignature(s Signed, token string, now time.Time) error {
	if s.Signature == "" {
		return core.Errorf(core.CodeUnauthenticated, "missing signature query parameter")
	}
	// Part of what is hashed is the caller's own, with colons between: a colon inside could make one file's signature stand for another's.
	ambiguous := strings.Contains(s.User, ":") || strings.Trim(s.Expiration, "0123456789") != ""
	if token == "" || ambiguous || subtle.ConstantTimeCompare([]byte(s.Sign(token)), []byte(s.Signature)) != 1 {
		return core.Errorf(core.CodeUnauthenticated, "invalid signature")
	}
	if s.Expiration == "" {
		return nil
	}
	at, err := strconv.ParseInt(s.Expiration, 10, 64)
	if err != nil {
		return core.Errorf(core.CodeUnauthenticated, "invalid signature")
	}
	if now.Unix() > at {
		return core.Errorf(core.CodeUnauthenticated, "signature is already expired")
	}
	return nil
}
