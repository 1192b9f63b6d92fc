package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"shoal/internal/core"
)

// maxSecret bounds a key that is looked at.
const maxSecret = 512

// authenticate finds out whose request it is. The secret is compared by the hash of it, in control. An address from which too
// many requests without a good key came is refused before that.
func (a *API) authenticate(r *request) error {
	secret, malformed := bearer(r.Header)
	if err := a.strangers.admit(r.RemoteAddr, secret, r.began); err != nil {
		return err
	}
	err := malformed
	if err == nil {
		r.principal, err = a.control.Authenticate(r.Context(), secret)
	}
	if core.IsCode(err, core.CodeNotFound) {
		err = core.Wrap(core.CodeUnauthenticated, err, "the API key is unknown or expired")
	}
	switch {
	case err == nil:
		a.strangers.welcome(secret)
	case core.IsCode(err, core.CodeUnauthenticated):
		a.strangers.failed(r.RemoteAddr, secret, r.began)
	}
	return err
}

// bearer returns the secret that a request comes with.
func bearer(h http.Header) (string, error) {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return "", core.Errorf(core.CodeUnauthenticated, "an API key is needed: Authorization: Bearer <key>")
	}
	scheme, secret, _ := strings.Cut(values[0], " ")
	secret = strings.TrimSpace(secret)
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || secret == "" || len(secret) > maxSecret {
		return "", core.Errorf(core.CodeUnauthenticated, "the Authorization header is not of the form: Bearer <key>")
	}
	return secret, nil
}

// checkHost refuses a request that reached a server on loopback by a name it doesn't have: a page on the web can make a
// name of its own resolve to 127.0.0.1 and so let a browser talk to us as if we were its origin.
func (a *API) checkHost(hr *http.Request) error {
	if !a.options.Loopback {
		return nil
	}
	host := hostOnly(hr.Host)
	if strings.EqualFold(host, "localhost") {
		return nil
	}
	if slices.ContainsFunc(a.options.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		return nil
	}
	return &core.Error{Code: core.CodeDenied, Field: "Host", Message: "this server has no such host name: use localhost or 127.0.0.1, or list the name in its setting hosts"}
}

// hostOnly returns a Host header's value without port and brackets.
func hostOnly(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

// checkOrigin refuses a page of another origin. Browsers send Origin with every WebSocket and can't be kept from opening
// one to any address.
func checkOrigin(hr *http.Request) error {
	origins := hr.Header.Values("Origin")
	if len(origins) == 0 {
		return nil
	}
	u, err := url.Parse(origins[0])
	scheme := "http"
	if hr.TLS != nil {
		scheme = "https"
	}
	if err != nil || len(origins) > 1 || u.Scheme != scheme || !strings.EqualFold(u.Host, hr.Host) {
		return &core.Error{Code: core.CodeDenied, Field: "Origin", Message: "pages of other origins may not attach"}
	}
	return nil
}
