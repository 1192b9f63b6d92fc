package httpapi

import (
	"net/http"
	"strings"

	"shoal/internal/core"
)

// later are the calls of the design that this release doesn't have yet. They are refused by name, so that a caller can
// tell them from a misspelt path.
func later() []string {
	return []string{
		"POST /v1/sandboxes/{id}/freeze", "POST /v1/sandboxes/{id}/standby", "POST /v1/sandboxes/{id}/hibernate",
		"POST /v1/sandboxes/{id}/undo", "POST /v1/sandboxes/{id}/try",
		"/v1/sandboxes/{id}/services",
		"/v1/sandboxes/{id}/ports", "/v1/sandboxes/{id}/egress", "/v1/sandboxes/{id}/denials",
		"/v1/sandboxes/{id}/holds", "/v1/sandboxes/{id}/logs", "/v1/sandboxes/{id}/code",
		"/v1/builds", "/v1/volumes", "/v1/secrets", "/v1/webhooks",
		"/v1/nodes",
	}
}

// laterStates are those that no sandbox of this release is ever in.
func laterStates() []core.State {
	return []core.State{core.StateFrozen, core.StateStandby, core.StateHibernated}
}

// routeLater answers the calls of later with unsupported.
func (a *API) routeLater() {
	for _, pattern := range later() {
		_, path, found := strings.Cut(pattern, " ")
		if !found {
			path = pattern
		}
		name := path[strings.LastIndexAny(path, "/:")+1:]
		a.mux.HandleFunc(pattern, func(w http.ResponseWriter, hr *http.Request) {
			a.fail(w, requestOf(hr), core.Errorf(core.CodeUnsupported, "this release doesn't have %s (%s) yet", name, path))
		})
	}
}
