package e2b

import (
	"net/http"
	"strings"

	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/dialect/e2b/envd"
	"shoal/internal/httpserve"
)

// adapter is both sides of the dialect.
type adapter struct {
	dialect.Config
	places places
	api    *http.ServeMux
	inside *inside
}

// New returns the handler of the whole dialect: control plane and sandboxes.
func New(cfg dialect.Config) (http.Handler, error) {
	return newAdapter(cfg).handler(), nil
}

func newAdapter(cfg dialect.Config) *adapter {
	a := &adapter{Config: cfg, places: newPlaces(cfg.Domain)}
	a.inside = &inside{Config: cfg, envd: envd.New(envd.Config{Control: cfg.Control, Closing: cfg.Closing})}
	a.api = a.routes()
	return a
}

func (a *adapter) handler() http.Handler {
	return dialect.Handler("e2b", a.Config, http.HandlerFunc(a.serve), func(w http.ResponseWriter, _ *http.Request, e *core.Error) {
		writeError(w, statusOf(e), e)
	})
}

// serve decides which side a request is for.
func (a *adapter) serve(w http.ResponseWriter, r *http.Request) {
	at, err := a.places.locate(r.Host, r.Header)
	switch {
	case err != nil:
		a.fail(w, r, err)
	case at.sandbox == "":
		a.outside(w, r)
	default:
		a.inside.serve(w, r, at)
	}
}

// outside answers a request to the control plane.
func (a *adapter) outside(w http.ResponseWriter, r *http.Request) {
	if !httpserve.CleanPath(r.URL.Path) {
		a.noSuchCall(w, r)
		return
	}
	a.api.ServeHTTP(w, r)
}

func (a *adapter) noSuchCall(w http.ResponseWriter, r *http.Request) {
	e := core.Errorf(core.CodeNotFound, "E2B has no call %s %s", r.Method, clip(r.URL.Path))
	if r.URL.Path == filesPath {
		// With one origin for everything, what a signed URL lacks is the sandbox.
		e = core.Errorf(core.CodeInvalid, "this URL doesn't say which sandbox it is for: signed URLs need the server's domain and TLS (E2B_DOMAIN), "+
			"or the headers %s and %s", headerSandbox, headerPort)
	}
	a.fail(w, r, e)
}

// clip shortens what a caller sent for use in a message.
func clip(s string) string {
	const most = 120
	s = strings.ToValidUTF8(s, "\ufffd")
	if len([]rune(s)) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
