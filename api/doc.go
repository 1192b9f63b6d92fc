// Package api is the contract of the native API: openapi.yaml is the source of routes, types and documents, errors.json
// that of error codes. The Go files beside them whose names end in _gen.go are made from them by `go generate ./api`.
//
// It must not know how anything is done and imports nothing of the server, so that clients can use its types. Start
// reading at openapi.yaml.
package api
