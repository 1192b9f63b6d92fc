package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"shoal/internal/core"
)

// The headers of calls that take effect once.
const (
	onceHeader     = "Idempotency-Key"
	repeatedHeader = "Idempotency-Replayed"
)

// once returns the key that a call came with, nil if it has none. What the call says is its body, and more if that changes what is
// answered.
func (r *request) once(body []byte, more ...string) (*core.Once, error) {
	values := r.Header.Values(onceHeader)
	if len(values) == 0 {
		return nil, nil
	}
	if len(values) > 1 {
		return nil, core.Invalid(onceHeader, "%s is given more than once", onceHeader)
	}
	if err := core.CheckOnceKey(onceHeader, values[0]); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte(strings.Join(more, " ")+"\n"), body...))
	return &core.Once{Key: values[0], Digest: hex.EncodeToString(sum[:])}, nil
}

// tellRepeated says in the reply that it is that of an earlier call, if it is.
func tellRepeated(w http.ResponseWriter, o *core.Once) bool {
	if o == nil || !o.Repeated {
		return false
	}
	w.Header().Set(repeatedHeader, "true")
	return true
}
