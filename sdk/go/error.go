package shoal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"shoal/api"
)

// Error is why a call failed: what the server answered, or why it could not be reached (code unavailable).
type Error struct {
	// Code is the class of the error; a program decides by it.
	Code Code
	// Message is for people.
	Message string
	// Field names the request field that is to blame, or is "url" if that is BaseURL; empty if none is.
	Field string
	// RetryAfter is how long to wait before the same call may succeed; zero if the server didn't say.
	RetryAfter time.Duration
	// Doc is the path on the server where the code is explained.
	Doc string
	// RequestID names the request in the server's log; empty if it was not reached.
	RequestID string
	// Status is the HTTP status; zero if there was no reply.
	Status int
	// Err is the cause on this side, such as a refused connection; nil if the server answered.
	Err error
}

// Error returns the code, the message and the cause, if any.
func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Message
	if e.Field != "" {
		s += " (" + e.Field + ")"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause on this side.
func (e *Error) Unwrap() error { return e.Err }

// ErrorCode returns the code of the first *Error in err's chain, and the empty code if there is none.
func ErrorCode(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// maxErrorBody bounds how much of an error reply is read.
const maxErrorBody = 64 << 10

// replyError makes an Error of a reply with an error status.
func replyError(resp *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // A short body is told apart below.
	var body api.ErrorBody
	if err := json.Unmarshal(data, &body); err != nil || body.Error.Code == "" {
		if resp.StatusCode == http.StatusBadRequest && resp.Request != nil && resp.Request.URL.Scheme == "http" && bytes.Contains(data, []byte("HTTPS")) {
			// What Go's and other servers answer, in HTTP, where they wait for TLS.
			return schemeError(resp.Request.URL, "https")
		}
		return foreignError(resp)
	}
	e := fromAPI(body.Error)
	e.Status = resp.StatusCode
	return e
}

// fromAPI makes an Error of the API's own form.
func fromAPI(e api.Error) *Error {
	return &Error{
		Code: Code(e.Code), Message: e.Message, Field: e.Field, Doc: e.Doc, RequestID: e.RequestID,
		RetryAfter: time.Duration(e.RetryAfter) * time.Second,
	}
}

// foreignError makes an Error of a reply that is not Shoal's, such as a proxy's.
func foreignError(resp *http.Response) error {
	e := &Error{
		Code: CodeInternal, Status: resp.StatusCode,
		Message: fmt.Sprintf("the reply is %s and not of a Shoal server", resp.Status),
	}
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.Code = CodeUnavailable
	case http.StatusTooManyRequests:
		e.Code = CodeQuota
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// transportError makes an Error of a failure on the way. The end of the caller's own context is passed on as it is.
func transportError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var at *url.Error
	if errors.Is(err, http.ErrSchemeMismatch) && errors.As(err, &at) {
		if u, perr := url.Parse(at.URL); perr == nil {
			return schemeError(u, "http")
		}
	}
	return &Error{Code: CodeUnavailable, Message: "the server can't be reached or broke off", Err: err}
}

// schemeError says that the server at u speaks the other of http and https.
func schemeError(u *url.URL, speaks string) error {
	return &Error{
		Code: CodeInvalid, Field: fieldURL,
		Message: fmt.Sprintf("the server at %s speaks %s and not %s: its address is %s://%s", u.Host, speaks, u.Scheme, speaks, u.Host),
	}
}

// fieldURL is the field of an error that blames the client's BaseURL.
const fieldURL = "url"

const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 30 * time.Second
)

// delay says how long to wait before a call is tried again, and whether it should be.
func delay(err error, attempt int) (time.Duration, bool) {
	var e *Error
	if !errors.As(err, &e) || !e.Code.passes() || e.RetryAfter > maxDelay {
		return 0, false
	}
	if e.RetryAfter > 0 {
		return e.RetryAfter, true
	}
	d := min(firstDelay<<min(attempt, 10), maxDelay)
	// Half of it is random, so that many clients don't come back together.
	return d/2 + rand.N(d/2+1), true //nolint:gosec // Nothing depends on nobody guessing it.
}
