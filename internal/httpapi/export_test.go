package httpapi

import (
	"net/http"
	"slices"

	"shoal/api"
)

// OperationOf returns the id of the operation that a request would reach, for tests.
func (a *API) OperationOf(r *http.Request) string {
	_, pattern := a.mux.Handler(r)
	i := slices.IndexFunc(api.Routes(), func(o api.Route) bool { return o.Method+" "+o.Path == pattern })
	if i < 0 {
		return ""
	}
	return api.Routes()[i].ID
}

// OperationIDs returns all operations, for tests.
func (a *API) OperationIDs() []string {
	var ids []string
	for _, o := range api.Routes() {
		ids = append(ids, o.ID)
	}
	return ids
}

// Later returns what is said to come later, for tests.
func Later() []string { return later() }
