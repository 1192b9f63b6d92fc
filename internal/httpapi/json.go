package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"unicode/utf8"

	"shoal/internal/core"
	"shoal/internal/httpserve"
	"shoal/internal/httpserve/jsonbody"
)

// maxBody bounds a JSON request.
const maxBody = 1 << 20

// decodeBody reads a JSON request into out, a pointer to a struct of package api, and accepts nothing that it would not
// keep: unknown, misspelt or repeated fields, null, broken UTF-8 and data after the end are refused by name.
func decodeBody(w http.ResponseWriter, r *request, out any) error {
	_, err := readBody(w, r, out)
	return err
}

// readBody is decodeBody that also returns what was decoded.
func readBody(w http.ResponseWriter, r *request, out any) ([]byte, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return nil, httpserve.WithStatus(http.StatusUnsupportedMediaType, core.Invalid("Content-Type", "send the body as application/json"))
	}
	data, err := httpserve.ReadBody(w, r.Request, maxBody, httpserve.BodyTimeout)
	if err != nil {
		return nil, err
	}
	return data, decodeJSON(data, out)
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
