package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// maxSecret bounds a key that is looked at.
const maxSecret = 512

// authenticate finds out whose request it is. The secret is compared by the hash of it, in control. An address from which too
// many requests without a good key came is refused before that.
func (a *API) authenticate(r *request) error {
	secret, malformed := bearer(r.Header)
	if err := a.strangers.Admit(r.RemoteAddr, secret, r.began); err != nil {
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
		a.strangers.Welcome(secret)
	case core.IsCode(err, core.CodeUnauthenticated):
		a.strangers.Failed(r.RemoteAddr, secret, r.began)
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

// checkHost refuses a request that reached a server on loopback by a name it doesn't have.
func (a *API) checkHost(hr *http.Request) error {
	if !a.options.Loopback {
		return nil
	}
	return httpserve.CheckHost(hr, a.options.Hosts)
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
