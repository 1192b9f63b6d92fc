// Package httpapi is the native API: it authenticates, decodes strictly, calls control and encodes. Its routes are those
// of api/openapi.yaml, and the table from error code to HTTP status is here and nowhere else.
//
// It must not know how anything is done: no store, node or runtime, only the use cases of control. Start reading at
// api.go, then sandboxes.go for what a handler looks like.
package httpapi
