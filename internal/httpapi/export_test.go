package httpapi

import (
	"net/http"
	"slices"
	"time"

	"shoal/api"
)

// OperationOf returns the id of the operation that a request would reach, for tests.
func (a *API) OperationOf(r *http.Request) string {
	_, pattern := a.mux.Handler(r)
	i := slices.IndexFunc(api.Operations(), func(o api.Operation) bool { return o.Method+" "+o.Path == pattern })
	if i < 0 {
		return ""
	}
	return api.Operations()[i].ID
}

// OperationIDs returns all operations, for tests.
func (a *API) OperationIDs() []string {
	var ids []string
	for _, o := range api.Operations() {
		ids = append(ids, o.ID)
	}
	return ids
}

// MaxStrangers is how many addresses are remembered.
const MaxStrangers = maxStrangers

// Strangers are for tests of what happens in time.
type Strangers struct{ *strangers }

// NewStrangers returns one that has seen nobody.
func NewStrangers() Strangers { return Strangers{newStrangers()} }

// Admit is admit.
func (s Strangers) Admit(remote, secret string, now time.Time) error {
	return s.admit(remote, secret, now)
}

// Failed is failed.
func (s Strangers) Failed(remote, secret string, now time.Time) { s.failed(remote, secret, now) }

// MayLog is mayLog.
func (s Strangers) MayLog(remote string, now time.Time) (int, bool) { return s.mayLog(remote, now) }

// Len is how many addresses are remembered.
func (s Strangers) Len() int { return s.addrs.order.Len() }
