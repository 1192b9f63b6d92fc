package httpapi

import (
	"net/http"

	"shoal/api"
	"shoal/internal/control"
	"shoal/internal/core"
)

func (a sandboxAPI) stopSandbox(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	var body api.StopSandboxRequest
	if r.hasBody() {
		if err := decodeBody(w, r, &body); err != nil {
			return err
		}
	}
	grace := control.DefaultGrace
	if s := body.GraceSeconds; s != nil {
		if !(*s >= 0 && *s <= control.MaxGrace.Seconds()) {
			return core.Invalid("grace_seconds", "grace_seconds is 0 to %g", control.MaxGrace.Seconds())
		}
		if grace, err = seconds("grace_seconds", *s); err != nil {
			return err
		}
	}
	sandbox, err := a.control.StopSandbox(r.Context(), r.principal, ref, grace)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeSandbox(sandbox))
}

func (a sandboxAPI) wakeSandbox(w http.ResponseWriter, r *request) error {
	ref, err := r.sandbox()
	if err != nil {
		return err
	}
	sandbox, err := a.control.WakeSandbox(r.Context(), r.principal, ref)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeSandbox(sandbox))
}

// hasBody reports whether a request whose body may be left out has one.
func (r *request) hasBody() bool { return r.ContentLength != 0 || r.Header.Get("Content-Type") != "" }
