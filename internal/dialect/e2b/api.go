package e2b

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/httpserve"
	"shoal/internal/httpserve/jsonbody"
)

// maxBody bounds a request's body.
const maxBody = 1 << 20

// request is a call of the control plane whose caller is known.
type request struct {
	*http.Request
	principal control.Principal
	query     url.Values
}

// call answers a request. What it returns is answered in E2B's form.
type call func(w http.ResponseWriter, r request) error

// routes is the table of the control plane.
func (a *adapter) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, c := range map[string]struct {
		operation string
		call      call
		// query are the parameters that it takes.
		query []string
	}{
		"POST /sandboxes":                 {"sandboxes.create", a.createV1, nil},
		"POST /v2/sandboxes":              {"sandboxes.create", a.createV2, nil},
		"GET /sandboxes":                  {"sandboxes.list", a.listV1, []string{"metadata"}},
		"GET /v2/sandboxes":               {"sandboxes.list", a.listV2, []string{"metadata", "state", "startedAfter", "template", "order", "limit", "nextToken"}},
		"GET /sandboxes/{id}":             {"sandboxes.get", a.getSandbox, nil},
		"DELETE /sandboxes/{id}":          {"sandboxes.kill", a.killSandbox, nil},
		"POST /sandboxes/{id}/timeout":    {"sandboxes.timeout", a.setTimeout, nil},
		"POST /sandboxes/{id}/connect":    {"sandboxes.connect", a.connectV1, nil},
		"POST /v2/sandboxes/{id}/connect": {"sandboxes.connect", a.connectV2, nil},
		"POST /sandboxes/{id}/refreshes":  {"sandboxes.refresh", a.refresh, nil},
		"GET /sandboxes/{id}/metrics":     {"sandboxes.metrics", a.sandboxMetrics, []string{"start", "end"}},
		"GET /templates":                  {"templates.list", a.listTemplates, []string{"teamID"}},
		"GET /v2/templates":               {"templates.list", a.listTemplates, []string{"teamID", "limit", "nextToken"}},
		"GET /templates/{id}":             {"templates.get", a.getTemplate, []string{"limit", "nextToken"}},
		"GET /templates/{id}/{alias}":     {"templates.alias", a.getAlias, nil},
	} {
		mux.Handle(pattern, a.known(c.operation, onlyQuery(c.query, c.call)))
	}
	for pattern, l := range later {
		mux.Handle(pattern, a.known(l.operation, a.notYet(l)))
	}
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		dialect.CallOf(r.Context()).Quiet = true
		w.WriteHeader(http.StatusOK)
	})
	mux.HandleFunc("/", a.noSuchCall)
	return mux
}

// known lets only callers with a key through.
func (a *adapter) known(operation string, c call) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := dialect.CallOf(r.Context())
		call.Operation = operation
		if strings.HasPrefix(operation, "sandboxes.") { // other paths have ids of templates
			call.Sandbox = r.PathValue("id")
		}
		p, err := a.Gate.Admit(r.Context(), r.RemoteAddr, apiKey(r.Header))
		if err == nil {
			call.Principal = p
			err = c(w, request{Request: r, principal: p})
		}
		switch {
		case err == nil:
		case httpserve.Sent(w):
			_ = call.Failed(err) // for the log: the reply has begun
		default:
			a.fail(w, r, err)
		}
	})
}

// apiKey is the caller's key: X-API-Key as SDKs and CLI send it, or a bearer token.
func apiKey(h http.Header) string {
	if key := h.Get("X-API-Key"); key != "" {
		return key
	}
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// decode reads a JSON body into out. None at all is taken as {}: older clients send none where every field has a default.
func decode(w http.ResponseWriter, r request, out any) error {
	data, err := httpserve.ReadBody(w, r.Request, maxBody, httpserve.BodyTimeout)
	if err != nil {
		return err //nolint:wrapcheck // It is made for the edge.
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	return jsonbody.Decode(data, out, jsonbody.Options{NullIsAbsent: true}) //nolint:wrapcheck // Its errors are made for the edge.
}

// onlyQuery refuses what a call's query has beside the known parameters, by name: none is taken and ignored.
func onlyQuery(known []string, c call) call {
	return func(w http.ResponseWriter, r request) (err error) {
		if r.query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			return core.Invalid("query", "the query can't be read: it has a broken %% escape or a semicolon")
		}
		for name, values := range r.query {
			if !slices.Contains(known, name) {
				return core.Invalid(clip(name), "unknown query parameter %q", clip(name))
			}
			if len(values) > 1 && name != "state" {
				return core.Invalid(name, "%s is given more than once", name)
			}
		}
		return c(w, r)
	}
}
