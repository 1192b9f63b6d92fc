package core

import (
	"errors"
	"fmt"
	"time"
)

// Error is the only error type that crosses a contract or reaches a caller.
//
// Message is written for the tenant and is safe to show; Err is the operator's cause and is only ever logged.
type Error struct {
	Code    Code
	Message string
	// Field names the request field that is to blame, as the API spells it; empty if none is.
	Field string
	// RetryAfter is how long a caller should wait before the same call may succeed; zero if waiting does not help.
	RetryAfter time.Duration
	// Err is the cause. It is never sent to a caller.
	Err error
}

// Error returns the code, the public message and the cause: it is the operator's view, for logs.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error with a public message made from format and no cause. To keep a cause out of the message, use
// Wrap; %w is not understood here.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap returns an Error with a public message and a cause that is only logged.
func Wrap(code Code, err error, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Err: err}
}

// Invalid returns an invalid-argument error that blames one field.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of the first Error in err's chain, CodeInternal for any other non-nil error, and the
// empty code for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// IsCode reports whether err carries the code.
func IsCode(err error, code Code) bool { return err != nil && CodeOf(err) == code }
