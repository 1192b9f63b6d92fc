package wire

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"shoal/internal/core"
)

// Fault is the payload of an error frame.
type Fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
}

const (
	maxFaultMessage = 1024
	maxFaultField   = 64
)

// FaultOf returns what is told of an error: the public part of a core.Error, and nothing of any other.
func FaultOf(err error) Fault {
	var e *core.Error
	if errors.As(err, &e) {
		return Fault{Code: string(e.Code), Message: e.Message, Field: e.Field}
	}
	return Fault{Code: string(core.CodeInternal), Message: "the guest agent met an unexpected error"}
}

// Err returns the fault as an error. The guest wrote it, so an unknown code becomes internal, and text is cut and
// freed of control characters.
func (f Fault) Err() *core.Error {
	e := &core.Error{Code: core.CodeInternal, Message: printable(f.Message, maxFaultMessage), Field: printable(f.Field, maxFaultField)}
	switch c := core.Code(f.Code); c {
	case core.CodeInvalid, core.CodeDenied, core.CodeNotFound, core.CodeExists, core.CodeConflict, core.CodeQuota,
		core.CodeExhausted, core.CodeUnsupported, core.CodeUnavailable, core.CodeTimeout, core.CodeCanceled,
		core.CodeDataLoss, core.CodeInternal:
		e.Code = c
	case core.CodeUnauthenticated:
		// A guest has no say in who the caller is.
	}
	if e.Message == "" {
		e.Message = "the guest agent gave no reason"
	}
	return e
}

// printable cuts s to at most limit bytes and replaces what is not printable UTF-8.
func printable(s string, limit int) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s[:min(len(s), limit)])
}
