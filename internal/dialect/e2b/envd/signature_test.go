package envd_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd"
)

// What a client makes of these.
const (
	signedToken = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0"
	signedHello = "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E"
)

func TestSignature(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	hello := envd.Signed{Path: "hello.txt", Operation: "read", User: "user", Signature: signedHello}
	if got := hello.Sign(signedToken); got != signedHello {
		t.Errorf("%s", got)
	}
	until := func(s envd.Signed, at int64) envd.Signed {
		s.Expiration = strconv.FormatInt(at, 10)
		s.Signature = s.Sign(signedToken)
		return s
	}
	change := func(f func(*envd.Signed)) envd.Signed {
		s := hello
		f(&s)
		return s
	}
	for name, c := range map[string]struct {
		s    envd.Signed
		want string
	}{
		"good":              {hello, ""},
		"in time":           {until(hello, now.Unix()), ""},
		"too late":          {until(hello, now.Unix()-1), "signature is already expired"},
		"no signature":      {change(func(s *envd.Signed) { s.Signature = "" }), "missing signature query parameter"},
		"another path":      {change(func(s *envd.Signed) { s.Path = "hello.txt2" }), "invalid signature"},
		"another user":      {change(func(s *envd.Signed) { s.User = "root" }), "invalid signature"},
		"another operation": {change(func(s *envd.Signed) { s.Operation = "write" }), "invalid signature"},
		"padded":            {change(func(s *envd.Signed) { s.Signature += "=" }), "invalid signature"},
		"added expiry":      {change(func(s *envd.Signed) { s.Expiration = "9999999999" }), "invalid signature"},
		// The fields are joined by colons: moving one over must not make another file's signature good.
		"moved colons": {envd.Signed{Path: "hello.txt", Operation: "read", User: "user:" + signedToken, Signature: hello.Sign(signedToken)}, "invalid signature"},
		"odd expiry":   {change(func(s *envd.Signed) { s.Expiration = "1e99"; s.Signature = s.Sign(signedToken) }), "invalid signature"},
		"huge expiry":  {change(func(s *envd.Signed) { s.Expiration = strings.Repeat("9", 30); s.Signature = s.Sign(signedToken) }), "invalid signature"},
	} {
		err := envd.CheckSignature(c.s, signedToken, now)
		if c.want == "" && err != nil || c.want != "" && (!core.IsCode(err, core.CodeUnauthenticated) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	none := change(func(s *envd.Signed) { s.Signature = s.Sign("") })
	if err := envd.CheckSignature(none, "", now); err == nil {
		t.Error("a sandbox without a token was opened")
	}
}

func TestSignedOf(t *testing.T) {
	q := url.Values{"path": {"a b"}, "username": {"u"}, "signature": {"v1_+/"}, "signature_expiration": {"7"}}
	want := envd.Signed{Path: "a b", User: "u", Signature: "v1_+/", Expiration: "7"}
	for method, operation := range map[string]string{http.MethodGet: "read", http.MethodHead: "read", http.MethodPost: "write", http.MethodDelete: ""} {
		s, ok := envd.SignedOf(method, q)
		want.Operation = operation
		if s != want || ok != (operation != "") {
			t.Errorf("%s: %+v, %v", method, s, ok)
		}
	}
}

// FuzzSignature: an address is opened by its own signature only.
func FuzzSignature(f *testing.F) {
	f.Add("hello.txt", "read", "user", signedHello, "")
	f.Add("a:read:u", "read", "", "v1_", "1")
	f.Add("hello.txt", "read", "user:"+signedToken, signedHello, "0")
	now := time.Unix(1_800_000_000, 0)
	f.Fuzz(func(t *testing.T, path, operation, user, signature, expiration string) {
		s := envd.Signed{Path: path, Operation: operation, User: user, Signature: signature, Expiration: expiration}
		if err := envd.CheckSignature(s, signedToken, now); err == nil && signature != s.Sign(signedToken) {
			t.Errorf("%+v was opened", s)
		}
		if s.Signature = s.Sign("another token"); envd.CheckSignature(s, signedToken, now) == nil {
			t.Errorf("%+v was opened by another sandbox's token", s)
		}
	})
}
