package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// fail answers with an error and keeps its cause for the log. If the reply has begun, it cuts the connection, so that a
// part is never taken for the whole.
func (a *API) fail(w http.ResponseWriter, r *request, err error) {
	e := a.public(r, err)
	r.err, r.code = cause(err, e), e.Code
	if httpserve.Sent(w) {
		panic(http.ErrAbortHandler)
	}
	status := statusOf(e.Code)
	if fixed, ok := httpserve.FixedStatus(err); ok {
		status = fixed
	}
	body := a.encodeError(r, e)
	if body.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(body.RetryAfter, 10))
	}
	if e.Code == core.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="shoal"`)
	}
	w.Header().Del("Content-Length")
	if err := writeJSON(w, status, api.ErrorBody{Error: body}); err != nil {
		r.err = errors.Join(r.err, err)
	}
}

// public returns the error that a caller may see. Whatever is not a *core.Error is internal.
func (a *API) public(r *request, err error) *core.Error {
	if cause := r.tether.Cause(); cause != nil {
		return cause // whatever it was busy with when it was ended
	}
	var e *core.Error
	switch {
	case errors.As(err, &e):
	case r.Context().Err() != nil || errors.Is(err, httpserve.ErrGone) || errors.Is(err, context.Canceled):
		e = core.Errorf(core.CodeCanceled, "the call was canceled")
	default:
		return core.Errorf(core.CodeInternal, "internal error; the server's log has it under request id %s", r.id)
	}
	if e.Code == core.CodeCanceled && a.closing.Err() != nil {
		return core.Errorf(core.CodeUnavailable, "the server is shutting down; what was started goes on")
	}
	return e
}

// cause returns what the log should have beyond the public message, nil if there is nothing.
func cause(err error, shown *core.Error) error {
	var e *core.Error
	if errors.As(err, &e) && e == shown && e.Err == nil {
		return errors.New(e.Message)
	}
	return err
}

// encodeError returns an error in the API's form.
func (a *API) encodeError(r *request, e *core.Error) api.Error {
	wait := e.RetryAfter
	if wait == 0 && !fullDisk(e) {
		switch e.Code { //nolint:exhaustive // Waiting doesn't help against the others.
		case core.CodeExhausted, core.CodeQuota:
			if !strings.HasPrefix(e.Field, "quota.") { // that takes a delete, or a word with the operator
				wait = 5 * time.Second
			}
		case core.CodeUnavailable:
			wait = time.Second
		}
	}
	return api.Error{
		Code: string(e.Code), Message: e.Message, Field: e.Field, RequestID: r.id,
		RetryAfter: int64((wait + time.Second - 1) / time.Second), Doc: "/errors#" + string(e.Code),
	}
}

// fullDisk says that a sandbox's own disk has no room for a file, which no waiting mends.
func fullDisk(e *core.Error) bool {
	return e.Code == core.CodeExhausted && (e.Field == "path" || e.Field == "from" || e.Field == "to")
}

// unknown answers requests that no operation takes.
func (a *API) unknown(w http.ResponseWriter, hr *http.Request) {
	r := requestOf(hr)
	var allowed []string
	if !httpserve.CleanPath(hr.URL.EscapedPath()) {
		a.fail(w, r, core.Errorf(core.CodeNotFound, "no such path: it has an empty or dotted part"))
		return
	}
	for _, method := range []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	} {
		probe := hr.Clone(hr.Context())
		probe.Method = method
		if _, pattern := a.mux.Handler(probe); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		a.fail(w, r, core.Errorf(core.CodeNotFound, "no such path; GET /openapi.yaml lists those there are"))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	a.fail(w, r, httpserve.WithStatus(http.StatusMethodNotAllowed, core.Invalid("method",
		"this path takes %s only", strings.Join(allowed, ", "))))
}

// abort says why a stream that has begun ends, in its own form.
func (a *API) abort(r *request, err error) api.Error {
	e := a.public(r, err)
	r.err, r.code = cause(err, e), e.Code
	return a.encodeError(r, e)
}

// within says in which part of a request the field is that an error blames.
func within(part string, err error) error {
	e, ok := errors.AsType[*core.Error](err)
	if !ok || e.Field == "" {
		return err
	}
	return &core.Error{Code: e.Code, Field: part + "." + e.Field, Message: part + ": " + e.Message, RetryAfter: e.RetryAfter, Err: e.Err}
}
