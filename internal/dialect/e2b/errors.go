package e2b

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/httpserve"
)

// errorBody is E2B's form of an error. Some clients look at its code, others at the status: they are always the same number.
type errorBody struct {
	Code      int    `json:"code"`
	Message   string `json:"message"`
	ErrorCode string `json:"error_code,omitempty"`
}

// statusOf returns the HTTP status of an error.
func statusOf(e *core.Error) int {
	switch e.Code {
	case core.CodeInvalid:
		return http.StatusBadRequest
	case core.CodeUnauthenticated:
		return http.StatusUnauthorized
	case core.CodeDenied:
		return http.StatusForbidden
	case core.CodeNotFound:
		return http.StatusNotFound
	case core.CodeExists, core.CodeConflict, core.CodeCanceled:
		return http.StatusConflict
	case core.CodeQuota:
		return http.StatusTooManyRequests
	case core.CodeUnsupported:
		return http.StatusNotImplemented
	case core.CodeExhausted, core.CodeUnavailable:
		return http.StatusServiceUnavailable
	case core.CodeTimeout:
		return http.StatusGatewayTimeout
	case core.CodeDataLoss, core.CodeInternal:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}

// fail answers with an error and notes it for the log.
func (a *adapter) fail(w http.ResponseWriter, r *http.Request, err error) {
	shown := dialect.CallOf(r.Context()).Failed(dialect.AtTheEnd(a.Closing.Err() != nil, err))
	status := statusOf(shown)
	if fixed, ok := httpserve.FixedStatus(err); ok {
		status = fixed
	}
	writeError(w, status, shown)
}

// writeError sends an error.
func writeError(w http.ResponseWriter, status int, e *core.Error) {
	body := errorBody{Code: status, Message: e.Message}
	if e.Code == core.CodeExhausted {
		body.ErrorCode = "sandbox_capacity_unavailable"
	}
	setRetry(w.Header(), status, e)
	// A reply that can't be sent has nobody to tell.
	_ = writeJSON(w, status, body)
}

// setRetry says whether a call may be repeated. The Python SDK repeats those that were answered 429, 502, 503 or 504 unless it is told
// not to, creates too. They may be only where the server names a time, which it does where nothing has been done.
func setRetry(h http.Header, status int, e *core.Error) {
	again := e.RetryAfter > 0 && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable)
	if again {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	if status == http.StatusTooManyRequests || status >= http.StatusInternalServerError {
		h.Set("Should-Retry", strconv.FormatBool(again))
	}
}

// writeJSON sends a reply.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode reply: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("send reply: %w", err)
	}
	return nil
}

// asE2B gives an error of the core the name that its field has here, and says where a template's name may come from.
func asE2B(err error) error {
	var e *core.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Code == core.CodeNotFound && e.Field == "template" {
		named := *e
		named.Message += ": `e2b template list` shows what there is, and the server's setting e2b.templates gives it further names"
		return &named
	}
	name, ok := map[string]string{
		"labels": "metadata", "label": "metadata", "env": "envVars", "template": "templateID", "ttl_seconds": "timeout", "cursor": "nextToken",
	}[e.Field]
	if !ok || e.Code != core.CodeInvalid {
		return err
	}
	renamed := *e
	renamed.Field, renamed.Message = name, name+": "+e.Message
	return &renamed
}

// rfc3339 is how times are written.
func rfc3339(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
