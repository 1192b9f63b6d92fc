package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"shoal/internal/core"
	"shoal/internal/httpserve"
)

const (
	// maxBody bounds a JSON request.
	maxBody = 1 << 20
	// maxDepth bounds how deeply a JSON request nests.
	maxDepth = 16
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
	if loneSurrogate(data) {
		return core.Invalid("body", "the body has half of a surrogate pair, which is no character")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := checkValue(d, reflect.TypeOf(out).Elem(), "", 0); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return core.Invalid("body", "there is something after the end of the JSON value")
	}
	if err := json.Unmarshal(data, out); err != nil {
		return core.Wrap(core.CodeInvalid, err, "the body is not understood")
	}
	return nil
}

// loneSurrogate reports whether an escape in the JSON is half of a pair: encoding/json would put another character in its
// place.
func loneSurrogate(data []byte) bool {
	unit := func(i int) (rune, bool) {
		if i+6 > len(data) || data[i] != '\\' || data[i+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(data[i+2:i+6]), 16, 16)
		return rune(n), err == nil
	}
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		r, ok := unit(i)
		switch {
		case !ok:
			i++ // Another escape: its second character is not the beginning of one.
		case !utf16.IsSurrogate(r):
		default:
			low, ok := unit(i + 6)
			if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
				return true
			}
			i += 11
		}
	}
	return false
}

// checkValue walks one JSON value beside the Go type that will hold it.
func checkValue(d *json.Decoder, t reflect.Type, at string, depth int) error {
	if depth > maxDepth {
		return core.Invalid(fieldName(at), "the body nests more than %d deep", maxDepth)
	}
	token, err := d.Token()
	if err != nil {
		return core.Invalid("body", "the body is not well-formed JSON")
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := fieldName(at)
	switch token {
	case nil:
		return core.Invalid(name, "%s is null: leave it out instead", name)
	case json.Delim('{'):
		if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
			return core.Invalid(name, "%s is not %s", name, typeWords(t))
		}
		return checkObject(d, t, at, depth)
	case json.Delim('['):
		if t.Kind() != reflect.Slice || isBytes(t) {
			return core.Invalid(name, "%s is not %s", name, typeWords(t))
		}
		for i := 0; d.More(); i++ {
			if err := checkValue(d, t.Elem(), fmt.Sprintf("%s[%d]", at, i), depth+1); err != nil {
				return err
			}
		}
		return closing(d)
	}
	if !fits(token, t) {
		return core.Invalid(name, "%s is not %s", name, typeWords(t))
	}
	return nil
}

// fits reports whether a type can hold a string, number or boolean.
func fits(token json.Token, t reflect.Type) bool {
	switch v := token.(type) {
	case string:
		if isBytes(t) {
			_, err := base64.StdEncoding.DecodeString(v)
			return err == nil
		}
		return t.Kind() == reflect.String
	case json.Number:
		if t.Kind() == reflect.Float64 {
			_, err := v.Float64()
			return err == nil
		}
		_, err := v.Int64()
		return err == nil && (t.Kind() == reflect.Int || t.Kind() == reflect.Int64)
	case bool:
		return t.Kind() == reflect.Bool
	}
	return false
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// checkObject walks the rest of an object.
func checkObject(d *json.Decoder, t reflect.Type, at string, depth int) error {
	var fields map[string]reflect.Type
	if t.Kind() == reflect.Struct {
		fields = fieldTypes(t)
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return core.Invalid("body", "the body is not well-formed JSON")
		}
		name := printable(key)
		if at != "" {
			name = at + "." + name
		}
		if seen[key] {
			return core.Invalid(name, "%s is given more than once", name)
		}
		seen[key] = true
		next, known := fields[key]
		if fields == nil {
			next, known = t.Elem(), true
		}
		if !known {
			return core.Invalid(name, "unknown field %q", name)
		}
		if err := checkValue(d, next, name, depth+1); err != nil {
			return err
		}
	}
	return closing(d)
}

// closing takes the end of an object or array.
func closing(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return core.Invalid("body", "the body is not well-formed JSON")
	}
	return nil
}

// fieldTypes returns the JSON names of a struct's fields, spelt exactly: encoding/json by itself takes any case.
func fieldTypes(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = f.Type
		}
	}
	return fields
}

func fieldName(at string) string {
	if at == "" {
		return "body"
	}
	return at
}

// typeWords names a Go type as a caller knows it.
func typeWords(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // The API's types have no others.
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int64:
		return "a whole number that fits"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Slice:
		if isBytes(t) {
			return "a base64 string"
		}
		return "a list"
	}
	return "of the right type"
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
		return errWrite(err)
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
