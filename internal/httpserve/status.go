package httpserve

import (
	"errors"

	"shoal/internal/core"
)

// statusError is an error whose status HTTP itself or a vendor prescribes, such as 405, instead of the code's.
type statusError struct {
	status int
	err    *core.Error
}

// Error returns the error's text.
func (e *statusError) Error() string { return e.err.Error() }

// Unwrap returns the error with its code.
func (e *statusError) Unwrap() error { return e.err }

// WithStatus returns an error that is answered with this status, whatever its code.
func WithStatus(status int, err *core.Error) error { return &statusError{status, err} }

// FixedStatus returns the status that WithStatus gave an error.
func FixedStatus(err error) (status int, ok bool) {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.status, true
	}
	return 0, false
}
