package panda

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/httpserve"
)

// failure is the vendor's form of an error, in a shape that both of its documented forms can be read from.
type failure struct {
	// Error is what the SDKs show: they take the first string among error, message and detail.
	Error   string `json:"error"`
	Code    string `json:"code"`
	Message string `json:"message"`
	// Field names what is to blame; it is ours.
	Field     string `json:"field,omitempty"`
	RequestID string `json:"request_id"`
}

// fail answers with an error and keeps its cause for the log. If the reply has begun, it cuts the connection, so that a part is
// never taken for the whole.
func (a *adapter) fail(w http.ResponseWriter, r *http.Request, err error) {
	call := dialect.CallOf(r.Context())
	shown := call.Failed(dialect.AtTheEnd(a.cfg.Closing.Err() != nil, err))
	if httpserve.Sent(w) {
		panic(http.ErrAbortHandler)
	}
	status := statusOf(shown)
	if fixed, ok := httpserve.FixedStatus(err); ok {
		status = fixed
	}
	writeFailure(w, call, status, shown)
}

// fail answers with an error of which nothing more is known, in the vendor's form.
func fail(w http.ResponseWriter, r *http.Request, e *core.Error) {
	writeFailure(w, dialect.CallOf(r.Context()), statusOf(e), e)
}

func writeFailure(w http.ResponseWriter, call *dialect.Call, status int, e *core.Error) {
	if wait := retryAfter(e); wait > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	if e.Code == core.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="shoal"`)
	}
	w.Header().Del("Content-Length")
	text := harmless(e.Message, status >= http.StatusInternalServerError)
	_ = writeJSON(w, status, failure{ // a client that is gone needs no answer
		Error: text, Code: codeOf(call.Operation, e.Code), Message: text, Field: e.Field, RequestID: call.ID,
	})
}

// codeOf returns an error's code as the vendor writes it: the noun of the call, then what is wrong.
func codeOf(operation string, code core.Code) string {
	noun, _, _ := strings.Cut(operation, ".")
	switch code { //nolint:exhaustive // The others are about what was called.
	case core.CodeUnauthenticated, core.CodeDenied, core.CodeQuota, core.CodeUnsupported:
		noun = ""
	}
	if noun == "" {
		noun = "request"
	}
	return noun + "." + string(code)
}

// statusOf is the vendor's status for an error. The SDKs choose their exception by it.
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
	case core.CodeExists, core.CodeConflict:
		return http.StatusConflict
	case core.CodeQuota:
		return http.StatusTooManyRequests
	case core.CodeExhausted:
		if fullDisk(e) {
			return http.StatusInsufficientStorage
		}
		return http.StatusServiceUnavailable
	case core.CodeUnsupported:
		if e.Field != "" {
			return http.StatusBadRequest // an option of a call that exists
		}
		return http.StatusNotImplemented
	case core.CodeUnavailable, core.CodeCanceled:
		return http.StatusServiceUnavailable
	case core.CodeTimeout:
		return http.StatusGatewayTimeout
	case core.CodeDataLoss, core.CodeInternal:
		return http.StatusInternalServerError
	}
	return http.StatusInternalServerError
}

// fullDisk says that a sandbox's own disk has no room for a file, which no waiting mends.
func fullDisk(e *core.Error) bool { return e.Code == core.CodeExhausted && e.Field == "path" }

// retryAfter is the wait that an error names. The Python SDK repeats a create after a 503, 507 or 429 with one, so there is one only
// where nothing was made: a full node, a rate, and what control says of by itself.
func retryAfter(e *core.Error) time.Duration {
	switch {
	case e.RetryAfter > 0:
		return e.RetryAfter
	case e.Code == core.CodeExhausted && !fullDisk(e):
		return 5 * time.Second
	case e.Code == core.CodeQuota:
		return time.Second
	}
	return 0
}

// traps are texts from which the SDKs conclude something: the first three that a sandbox is still starting, so that they send an
// exec again for 20 s; the others, in replies of a failing server, that a command ran into its timeout.
var traps = []struct {
	text, instead string
	always        bool
}{
	{"connect: connection refused", "the connection was refused", true},
	{"no route to host", "the host can't be reached", true},
	{"i/o timeout", "no answer in time", true},
	{"deadline exceeded", "out of time", false},
	{"timeout", "time limit", false},
}

// harmless rewords a message so that no SDK takes it for what it is not. failing says that it comes with a status of 500 or above.
func harmless(message string, failing bool) string {
	for _, trap := range traps {
		if !trap.always && !failing {
			continue
		}
		for i := indexFold(message, trap.text); i >= 0; i = indexFold(message, trap.text) {
			message = message[:i] + trap.instead + message[i+len(trap.text):]
		}
	}
	return message
}

// indexFold is strings.Index of a text of lower-case ASCII that takes any case for it.
func indexFold(s, text string) int {
	for i := 0; i+len(text) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(text)], text) {
			return i
		}
	}
	return -1
}
