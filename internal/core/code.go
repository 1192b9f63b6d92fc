package core

// Code is the class of an Error. The set is closed: api/errors.json is its registry.
type Code string

// The error codes.
const (
	CodeInvalid         Code = "invalid"
	CodeUnauthenticated Code = "unauthenticated"
	CodeDenied          Code = "denied"
	CodeNotFound        Code = "not_found"
	CodeExists          Code = "exists"
	CodeConflict        Code = "conflict"
	CodeQuota           Code = "quota"
	CodeExhausted       Code = "exhausted"
	CodeUnsupported     Code = "unsupported"
	CodeUnavailable     Code = "unavailable"
	CodeTimeout         Code = "timeout"
	CodeCanceled        Code = "canceled"
	CodeDataLoss        Code = "data_loss"
	CodeInternal        Code = "internal"
)
