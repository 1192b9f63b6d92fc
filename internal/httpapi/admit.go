package httpapi

import (
	"net/http"

	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// let lets a caller in who is known: within the bounds of its tenant, and for as long as what it was let in by holds. What is taken here
// is given back when the request has been answered.
func (a *API) let(r *request) error {
	end, err := a.limits.Begin(r.principal.Tenant, r.principal.Quota)
	if err != nil {
		return err
	}
	r.after = append(r.after, end)
	release, err := a.control.Tie(r.principal, r.tether.End)
	if err != nil {
		return err //nolint:wrapcheck // Control's errors are made for the edge.
	}
	r.after = append(r.after, release)
	r.let = true
	return nil
}

// tenantHeader names the tenant that an operator's call is for.
const tenantHeader = "Shoal-Tenant"

// actFor has an operator's call act for the tenant that it names.
func (a *API) actFor(r *request) (err error) {
	values := r.Header.Values(tenantHeader)
	if len(values) == 0 {
		return nil
	}
	if len(values) > 1 || !refPattern().MatchString(values[0]) {
		return core.Invalid(tenantHeader, "%s names one tenant, by its id or name", tenantHeader)
	}
	p, err := a.control.ActFor(r.Context(), r.principal, values[0])
	if core.IsCode(err, core.CodeNotFound) {
		return &core.Error{Code: core.CodeNotFound, Field: tenantHeader, Message: "there is no tenant " + printable(values[0]), Err: err}
	}
	if err == nil {
		r.principal = p
	}
	return err //nolint:wrapcheck // Control's errors are made for the edge.
}

// finish gives back what the request took, and writes down what it did.
func (a *API) finish(r *request) {
	for i := len(r.after) - 1; i >= 0; i-- {
		r.after[i]()
	}
	r.tether.Release()
	if !r.let || !changes(r) {
		return
	}
	target := r.target
	if target == "" {
		target = r.PathValue("id")
		if exec := r.PathValue("exec"); exec != "" {
			target += "/" + exec
		}
	}
	outcome := r.code
	if outcome == "" {
		outcome = r.outcome
	}
	a.control.Note(r.principal, core.AuditEntry{
		At: r.began.UTC(), Remote: httpserve.RemoteHost(r.RemoteAddr), Operation: r.op.ID, Target: printable(target), Code: outcome, Detail: r.detail, RequestID: r.id,
	})
}

// changes reports whether a call changes something, or would. An exec's input and the size of its terminal belong to the exec.
func changes(r *request) bool {
	switch r.op.ID {
	case "attachExec":
		return true // it takes input
	case "writeExecStdin", "resizeExec":
		return false
	}
	return r.Method != http.MethodGet && r.Method != http.MethodHead
}
