// Package jsonbody decodes JSON that a caller sent into a Go struct and accepts nothing that it would not keep: unknown, misspelt or
// repeated fields and broken text are refused by name, where encoding/json by itself would drop or change them.
//
// It knows no request: a body is read, and bounded, by who calls it. Start with Decode.
package jsonbody

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"shoal/internal/core"
)

// maxDepth bounds how deeply a body nests.
const maxDepth = 16

// Options say how strict it is.
type Options struct {
	// NullIsAbsent takes a field that is null as one that was left out, as some clients write it. Otherwise it is refused.
	NullIsAbsent bool
}

// Decode decodes data into out, a pointer to a struct. Its errors are *core.Error and blame the field.
func Decode(data []byte, out any, o Options) error {
	if !utf8.Valid(data) {
		return core.Invalid("body", "the body is not UTF-8")
	}
	if loneSurrogate(data) {
		return core.Invalid("body", "the body has half of a surrogate pair, which is no character")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	w := walker{Decoder: d, Options: o}
	if err := w.value(reflect.TypeOf(out).Elem(), "", 0, false); err != nil {
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

// walker goes through a body beside the type that will hold it.
type walker struct {
	*json.Decoder
	Options
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

// value walks one JSON value beside the Go type that will hold it. field says that it is a struct's.
func (d walker) value(t reflect.Type, at string, depth int, field bool) error {
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
		if d.NullIsAbsent && field {
			return nil
		}
		return core.Invalid(name, "%s is null: leave it out instead", name)
	case json.Delim('{'):
		if t.Kind() == reflect.Interface {
			return d.object(reflect.TypeFor[map[string]any](), at, depth)
		}
		if t.Kind() != reflect.Struct && t.Kind() != reflect.Map || isTime(t) {
			return core.Invalid(name, "%s is not %s", name, typeWords(t))
		}
		return d.object(t, at, depth)
	case json.Delim('['):
		if t.Kind() == reflect.Interface {
			t = reflect.TypeFor[[]any]()
		}
		if t.Kind() != reflect.Slice || isBytes(t) {
			return core.Invalid(name, "%s is not %s", name, typeWords(t))
		}
		for i := 0; d.More(); i++ {
			if err := d.value(t.Elem(), fmt.Sprintf("%s[%d]", at, i), depth+1, false); err != nil {
				return err
			}
		}
		return d.closing()
	}
	if t.Kind() != reflect.Interface && !fits(token, t) {
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
		if isTime(t) {
			_, err := time.Parse(time.RFC3339Nano, v)
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

func isTime(t reflect.Type) bool { return t == reflect.TypeFor[time.Time]() }

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// object walks the rest of an object.
func (d walker) object(t reflect.Type, at string, depth int) error {
	var fields map[string]reflect.Type
	if t.Kind() == reflect.Struct {
		fields = FieldTypes(t)
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
		if err := d.value(next, name, depth+1, fields != nil); err != nil {
			return err
		}
	}
	return d.closing()
}

// closing takes the end of an object or array.
func (d walker) closing() error {
	if _, err := d.Token(); err != nil {
		return core.Invalid("body", "the body is not well-formed JSON")
	}
	return nil
}

// FieldTypes returns the JSON names of a struct's fields, spelt exactly: encoding/json by itself takes any case.
func FieldTypes(t reflect.Type) map[string]reflect.Type {
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
	if isTime(t) {
		return "a time as RFC 3339 has it"
	}
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

// printable makes a caller's text fit to be shown back: UTF-8 and short.
func printable(s string) string {
	const most = 64
	out := []rune(strconv.QuoteToGraphic(s))
	out = out[1 : len(out)-1]
	if len(out) > most {
		return string(out[:most]) + "…"
	}
	return string(out)
}
