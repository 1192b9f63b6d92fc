package panda

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/httpserve"
)

const (
	// keepalive is the silence after which a stream says that it lives: proxies close what is silent for a minute.
	keepalive = 15 * time.Second
	// stall is how long a client may take over one write or read before it is dropped.
	stall = 2 * time.Minute
)

// adapter answers requests. It holds nothing that outlives one.
type adapter struct {
	cfg       dialect.Config
	mux       *http.ServeMux
	keepalive time.Duration
}

// New returns the handler of PandaStack's API, which lives below /v1 at the root of its listener or host name.
func New(cfg dialect.Config) (http.Handler, error) {
	if cfg.Control == nil || cfg.Gate == nil || cfg.Logger == nil || cfg.Closing == nil {
		return nil, errors.New("the PandaStack dialect needs control, a gate, a logger and the server's life")
	}
	if cfg.Collecting == nil {
		cfg.Collecting = httpserve.NewCollecting(httpserve.CollectBytes)
	}
	return newAdapter(cfg, keepalive).handler(), nil
}

func newAdapter(cfg dialect.Config, keepalive time.Duration) *adapter {
	a := &adapter{cfg: cfg, mux: http.NewServeMux(), keepalive: keepalive}
	a.route()
	return a
}

func (a *adapter) handler() http.Handler {
	return dialect.Handler("panda", a.cfg, http.HandlerFunc(a.serve), fail)
}

func (a *adapter) serve(w http.ResponseWriter, r *http.Request) {
	// The mux would redirect such a path, which turns a mistake into a second request.
	if !httpserve.CleanPath(r.URL.EscapedPath()) {
		a.fail(w, r, core.Errorf(core.CodeNotFound, "no such path: it has an empty or dotted part"))
		return
	}
	a.mux.ServeHTTP(w, r)
}

// request is one request that has been let in.
type request struct {
	*http.Request
	*dialect.Call
	query url.Values
}

// sandbox is the sandbox that the path names.
func (r *request) sandbox() string { return r.PathValue("id") }

// operation is one call's code. It either replies or returns an error and has written nothing.
type operation func(w http.ResponseWriter, r *request) error

// endpoint runs an operation with all that comes before it.
func (a *adapter) endpoint(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		r := &request{Request: hr, Call: dialect.CallOf(hr.Context())}
		r.Operation, r.Sandbox = rt.operation, hr.PathValue("id")
		err := a.admit(r, rt) //nolint:contextcheck // The request carries the context.
		if err == nil {
			err = rt.run(w, r)
		}
		if err != nil {
			a.fail(w, hr, err)
		}
	})
}

// admit decides whether a request may reach its operation.
func (a *adapter) admit(r *request, rt route) (err error) {
	if r.query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		return core.Invalid("query", "the query can't be read: it has a broken %% escape or a semicolon")
	}
	secret, err := secretOf(r)
	if err != nil {
		return err
	}
	if r.Principal, err = a.cfg.Gate.Admit(r.Context(), r.RemoteAddr, secret); err != nil {
		return err
	}
	if rt.missing {
		return nil // It refuses whatever is asked.
	}
	for name, values := range r.query {
		if !slices.Contains(rt.query, name) {
			return core.Invalid(printable(name), "unknown parameter %q", printable(name))
		}
		if len(values) > 1 {
			return core.Invalid(name, "%s is given more than once", name)
		}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return core.Invalid("Content-Encoding", "send the body as it is, without Content-Encoding")
	}
	if !rt.body && r.ContentLength > 0 {
		return core.Invalid("body", "this call takes no body")
	}
	return nil
}

// secretOf returns the key that a request carries: in its Authorization header or, for a browser's streams that can't set one, in the
// query of a GET, which is then taken out of it.
func secretOf(r *request) (string, error) {
	inQuery := r.query.Get("access_token")
	if r.query.Has("access_token") {
		if r.Method != http.MethodGet {
			return "", core.Invalid("access_token", "a key in the address is taken for GET only: send Authorization: Bearer KEY")
		}
		r.query.Del("access_token")
	}
	header := r.Header.Get("Authorization")
	if header == "" {
		return inQuery, nil
	}
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", nil
	}
	return strings.TrimSpace(secret), nil
}
