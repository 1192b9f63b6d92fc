package control

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

const (
	// maxGrant bounds how long a signed URL lasts, usualGrant is how long it does without a word on it.
	maxGrant   = 7 * 24 * time.Hour
	usualGrant = time.Hour
	// maxGrantToken bounds a token that is looked at.
	maxGrantToken = 16 << 10
	// signingWord derives the key of grants from that of access tokens. No sandbox's id has a dash, so no access token is such a key.
	signingWord = "signed-file-grants"
)

// signing makes and opens grants of single files. Nothing is stored of them: a grant holds by its signature, until its time is over, its
// sandbox is deleted, or the key that made it is deleted or expires.
type signing struct {
	*finder
	access *access
}

// grantClaims is what a token says. Its fields are short because it travels in a URL.
type grantClaims struct {
	Sandbox  core.SandboxID `json:"s"`
	Home     core.TenantID  `json:"h"`
	Key      string         `json:"k"`
	Expires  int64          `json:"e"`
	Path     []byte         `json:"p"`
	Write    bool           `json:"w,omitempty"`
	MaxBytes int64          `json:"m,omitempty"`
	User     string         `json:"u,omitempty"`
	Parents  bool           `json:"d,omitempty"`
}

// SignFile makes a grant of one file, for who has no key. Only who showed a key can make one.
func (s *signing) SignFile(ctx context.Context, p Principal, ref string, g core.FileGrant) (core.SignedGrant, error) {
	if err := p.may("SignFile"); err != nil {
		return core.SignedGrant{}, err
	}
	var sb core.Sandbox
	err := s.store.View(ctx, func(r store.Reader) (err error) {
		sb, err = p.findToChange(r, ref)
		return err
	})
	if err == nil {
		err = checkGrant(g)
	}
	if err == nil && p.Actor.Kind != actorKey {
		err = core.Errorf(core.CodeDenied, "only who shows an API key can sign URLs")
	}
	if err != nil {
		return core.SignedGrant{}, err
	}
	if g.For == 0 {
		g.For = usualGrant
	}
	// Whole seconds are what the token has.
	until := s.clock.Now().Add(g.For).Truncate(time.Second).UTC()
	claims := grantClaims{
		Sandbox: sb.ID, Home: p.home, Key: p.Actor.ID, Expires: until.Unix(), Path: []byte(g.Path), Write: g.Write, MaxBytes: g.MaxBytes,
		User: g.User, Parents: g.Parents,
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return core.SignedGrant{}, err
	}
	text := base64.RawURLEncoding.EncodeToString(body)
	token := text + "." + base64.RawURLEncoding.EncodeToString(s.mac(text))
	return core.SignedGrant{FileGrant: g, Sandbox: sb.ID, Token: token, ExpiresAt: until}, nil
}

func checkGrant(g core.FileGrant) error {
	switch {
	case len(g.Path) > 4096 || strings.ContainsRune(g.Path, 0):
		return core.Invalid("path", "path can have at most 4096 bytes and no NUL")
	case g.Path == "" || g.Path[0] != '/':
		return core.Invalid("path", "path must be absolute, it begins with a slash: %q", g.Path)
	case g.For < 0 || g.For > maxGrant || g.For != 0 && g.For < time.Second:
		return core.Invalid("expires_in_seconds", "a signed URL lasts 1 second to 7 days")
	case !g.Write && (g.MaxBytes != 0 || g.User != "" || g.Parents):
		return core.Invalid("method", "max_bytes, user and parents are for PUT")
	case g.MaxBytes < 0:
		return core.Invalid("max_bytes", "max_bytes is not negative")
	case len(g.User) > 255:
		return core.Invalid("user", "user has at most 255 bytes")
	}
	return nil
}

// mac signs a token's text.
func (s *signing) mac(text string) []byte {
	if len(s.access.key) == 0 {
		panic("control: a grant before Start") // an empty key would make tokens that anyone can make
	}
	key := hmac.New(sha256.New, s.access.key)
	_, _ = key.Write([]byte(signingWord)) // a hash takes everything
	m := hmac.New(sha256.New, key.Sum(nil))
	_, _ = m.Write([]byte(text))
	return m.Sum(nil)
}

// OpenGrant finds what a token opens, and who made it: the principal may do with files what that key may, in that sandbox only. A
// token that nobody here signed tells its bearer nothing.
func (s *signing) OpenGrant(ctx context.Context, token string) (Principal, core.SignedGrant, error) {
	seen := s.live.seen()
	text, sum, ok := strings.Cut(token, ".")
	given, err := base64.RawURLEncoding.DecodeString(sum)
	if !ok || err != nil || len(token) > maxGrantToken || !hmac.Equal(given, s.mac(text)) {
		return Principal{}, core.SignedGrant{}, core.Errorf(core.CodeUnauthenticated, "the URL's signature is missing or wrong")
	}
	var c grantClaims
	body, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(body, &c)
	}
	if err != nil {
		return Principal{}, core.SignedGrant{}, core.Wrap(core.CodeUnauthenticated, err, "the URL was signed by another release: have it signed again")
	}
	now, until := s.clock.Now(), time.Unix(c.Expires, 0).UTC()
	if !until.After(now) {
		return Principal{}, core.SignedGrant{}, core.Errorf(core.CodeUnauthenticated, "the signed URL has expired")
	}
	p, err := s.signer(ctx, c, now)
	if err != nil {
		return Principal{}, core.SignedGrant{}, err
	}
	p.seen = seen
	g := core.FileGrant{Path: string(c.Path), Write: c.Write, MaxBytes: c.MaxBytes, User: c.User, Parents: c.Parents, For: until.Sub(now)}
	return p, core.SignedGrant{FileGrant: g, Sandbox: c.Sandbox, Token: token, ExpiresAt: until}, nil
}

// signer returns who signed, as far as that still holds, narrowed to the sandbox's files.
func (s *signing) signer(ctx context.Context, c grantClaims, now time.Time) (Principal, error) {
	sb, err := s.access.sandbox(ctx, c.Sandbox)
	if err != nil {
		return Principal{}, err
	}
	var key core.Key
	var tenant core.Tenant
	err = s.store.View(ctx, func(r store.Reader) (err error) {
		if key, err = r.Key(c.Home, core.KeyID(c.Key)); err != nil {
			return err
		}
		tenant, err = liveTenant(r, sb.Tenant)
		if key.Admin && core.IsCode(err, core.CodeDenied) {
			err = nil // the operator's keys act for a tenant that is suspended, too
		}
		return err
	})
	if core.IsCode(err, core.CodeNotFound) || err == nil && (expired(key, now) || !key.Admin && key.Tenant != sb.Tenant) {
		return Principal{}, core.Errorf(core.CodeUnauthenticated, "the key that signed the URL is no longer valid")
	}
	if err != nil {
		return Principal{}, err
	}
	scopes := core.ScopesOf(core.ScopeFiles)
	if !key.Admin && !key.Scopes.Has(core.ScopeFiles) {
		scopes = 0
	}
	return Principal{
		Tenant: sb.Tenant, Sandbox: sb.ID, Scopes: scopes, Labels: key.Labels, Actor: core.Actor{Kind: actorKey, ID: string(key.ID)},
		Quota: s.quotas.of(tenant), home: c.Home, expires: key.ExpiresAt, name: key.Name,
	}, nil
}
