package oci

import (
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"shoal/internal/core"
)

// checkedTransport is between the library and the guarded dialer. It sees every single request: of redirects, and to the token service that
// a registry names.
//
//   - Without TLS only what the operator lists is spoken to.
//   - The tenant's user name, password or token go to the registry, its host and port, and to a token service that it names of the same
//     host or owner (the same registrable domain), and nowhere else: what else it names, and whatever it redirects to, gets none.
//   - A request that carries a body, which is one that may hold a secret, is not redirected.
//   - The answers that are read whole are bounded.
type checkedTransport struct {
	inner    http.RoundTripper
	registry string
	plain    []string
	// secrets are the values of an Authorization header that would give the caller's credentials away.
	secrets []string
}

// secretHeaders are the headers that carry a caller's own credentials.
func secretHeaders(src core.ImageSource) []string {
	password := src.Password.Reveal()
	switch {
	case password == "":
		return nil
	case src.Username == "":
		return []string{"Bearer " + password}
	}
	return []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(src.Username+":"+password))}
}

// RoundTrip makes one request.
func (t *checkedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !speaksPlain(t.plain, req.URL.Host) {
		return nil, core.Errorf(core.CodeDenied, "%s would be spoken to without encryption, and the operator's templates.http_registries does not list it", req.URL.Host)
	}
	if req.Response != nil && req.Body != nil && req.Body != http.NoBody {
		return nil, core.Errorf(core.CodeDenied, "%s redirects a login to another place: it is not sent there", req.Response.Request.URL.Host)
	}
	if slices.Contains(t.secrets, req.Header.Get("Authorization")) && !t.mayHaveLogin(req) {
		return nil, core.Errorf(core.CodeDenied, "the registry %s wants the login at %s, which is another's: it is not sent there", t.registry, req.URL.Host)
	}
	resp, err := t.inner.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	first := req
	for first.Response != nil && first.Response.Request != nil {
		first = first.Response.Request
	}
	if !strings.Contains(first.URL.Path, "/blobs/") {
		resp.Body = &bounded{ReadCloser: resp.Body, left: maxManifest}
	}
	return resp, nil
}

// mayHaveLogin reports whether a request may carry the login: to the registry itself, or, where it was not redirected, to its owner's
// token service.
func (t *checkedTransport) mayHaveLogin(req *http.Request) bool {
	return strings.EqualFold(req.URL.Host, t.registry) || req.Response == nil && sameOwner(req.URL.Hostname(), hostOf(t.registry))
}

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

// sameOwner reports whether two hosts are the same, or names below one domain that somebody registered.
func sameOwner(a, b string) bool {
	a, b = strings.ToLower(strings.TrimSuffix(a, ".")), strings.ToLower(strings.TrimSuffix(b, "."))
	if a == b {
		return true
	}
	for _, host := range []string{a, b} {
		if _, err := netip.ParseAddr(host); err == nil {
			return false
		}
	}
	ownerA, errA := publicsuffix.EffectiveTLDPlusOne(a)
	ownerB, errB := publicsuffix.EffectiveTLDPlusOne(b)
	return errA == nil && errB == nil && ownerA == ownerB
}

// bounded is a body that ends in an error where it becomes too large.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLarge()
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge()
	}
	return n, err
}

func errTooLarge() error {
	return core.Errorf(core.CodeInvalid, "an answer of the registry has more than %d MiB where a manifest or token was to be", maxManifest>>20)
}
