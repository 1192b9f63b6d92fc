package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"time"
	"unicode/utf8"

	"shoal/internal/core"
	"shoal/internal/httpserve"
	"shoal/internal/httpserve/jsonbody"
)

const (
	// maxBody bounds a JSON request.
	maxBody = 1 << 20
	// bodyTimeout is how long a client may take to send a JSON request.
	bodyTimeout = 30 * time.Second
)

// decodeBody reads a JSON request into out, a pointer to a struct of package api, and accepts nothing that it would not
// keep: unknown, misspelt or repeated fields, null, broken UTF-8 and data after the end are refused by name.
func decodeBody(w http.ResponseWriter, r *request, out any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return &statusError{http.StatusUnsupportedMediaType, core.Invalid("Content-Type", "send the body as application/json")}
	}
	data, err := readBody(w, r, bodyTimeout)
	if err != nil {
		return err
	}
	return decodeJSON(data, out)
}

// readBody reads a bounded body, which must come within the time.
func readBody(w http.ResponseWriter, r *request, within time.Duration) ([]byte, error) {
	rc := http.NewResponseController(w)
	if err := httpserve.Extend(rc.SetReadDeadline, within); err != nil {
		return nil, err
	}
	// As large as it says it is, so that nothing is copied while it grows.
	var b bytes.Buffer
	b.Grow(int(min(max(r.ContentLength, 0), maxBody)) + bytes.MinRead)
	if _, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, &statusError{http.StatusRequestEntityTooLarge, core.Invalid("body", "the body has at most %d bytes", maxBody)}
		}
		return nil, core.Wrap(core.CodeInvalid, err, "the body was cut off")
	}
	// A deadline left standing would end the request's context when it passes.
	return b.Bytes(), httpserve.Extend(rc.SetReadDeadline, 0)
}

// isBinary reports whether a request's body is bytes and not JSON.
func isBinary(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/octet-stream"
}

// decodeJSON is decodeBody's work on the bytes.
func decodeJSON(data []byte, out any) error {
	if !utf8.Valid(data) {
		return core.Invalid("body", "the body is not UTF-8: bytes that aren't text go base64 into the fields that end in _raw")
	}
	return jsonbody.Decode(data, out, jsonbody.Options{}) //nolint:wrapcheck // Its errors are made for the edge.
}

// writeJSON sends a reply.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	data, err := encodeJSON(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(data); err != nil {
		return httpserve.Gone(err)
	}
	return nil
}

// encodeJSON returns v as one line of JSON. HTML is not escaped: nobody serves this as a page.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode reply: %w", err)
	}
	return b.Bytes(), nil
}
