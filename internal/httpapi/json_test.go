package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/httpserve"
	"shoal/internal/httpserve/jsonbody"
)

func TestDecodeJSON(t *testing.T) {
	deep := strings.Repeat(`{"env":`, 40) + "1" + strings.Repeat("}", 40)
	for _, tt := range []struct{ name, in, field string }{
		{"empty", ``, "body"},
		{"not UTF-8", "{\"name\":\"\xff\"}", "body"},
		{"deep", deep, "env.env"},
		{"array in a string", `{"name":["a"]}`, "name"},
		{"object in a string", `{"name":{}}`, "name"},
		{"bytes as a list", `{"stdin_raw":[1]}`, "stdin_raw"},
		{"broken base64", `{"stdin_raw":"a"}`, "stdin_raw"},
		{"huge float", `{"timeout_seconds":1e999}`, "timeout_seconds"},
		{"huge int", `{"rows":1e999}`, "rows"},
		{"fraction", `{"rows":1.0}`, "rows"},
		{"bool as string", `{"tty":"true"}`, "tty"},
		{"nested item", `{"cmd":["a",null]}`, "cmd[1]"},
		{"lone high surrogate", `{"shell":"\ud800"}`, "body"},
		{"lone low surrogate", `{"shell":"\udc00\ud800"}`, "body"},
		{"high surrogate, then an escape", `{"shell":"\ud83d\n"}`, "body"},
		{"surrogate after a backslash", `{"shell":"\\\ud83d"}`, "body"},
		{"empty key", `{"":1}`, ""},
		{"unprintable key", "{\"a\\u0000b\":1}", `a\x00b`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var body api.CreateExecRequest
			if tt.name == "deep" || strings.Contains(tt.in, "name") {
				var sandbox api.CreateSandboxRequest
				checkInvalid(t, decodeJSON([]byte(tt.in), &sandbox), tt.field)
				return
			}
			checkInvalid(t, decodeJSON([]byte(tt.in), &body), tt.field)
		})
	}
}

// TestDecodeEscapes keeps escapes that are whole.
func TestDecodeEscapes(t *testing.T) {
	for in, want := range map[string]string{
		`\ud83d\ude00`: "😀", `\\ud83d`: `\ud83d`, `\u0041\n\"`: "A\n\"", `\ufffd`: "\ufffd", `\\\ud83d\ude00`: `\😀`,
	} {
		var body api.CreateExecRequest
		if err := decodeJSON([]byte(`{"shell":"`+in+`"}`), &body); err != nil || body.Shell != want {
			t.Errorf("%s: %q, %v, want %q", in, body.Shell, err, want)
		}
	}
}

func checkInvalid(t *testing.T, err error, field string) {
	t.Helper()
	e, ok := err.(*core.Error) //nolint:errorlint // It must be exactly one.
	if !ok || e.Code != core.CodeInvalid || e.Field != field {
		t.Errorf("got %#v, want invalid for field %q", err, field)
	}
}

func TestDecodeBodyLimit(t *testing.T) {
	big := `{"shell":"` + strings.Repeat("a", maxBody) + `"}`
	r := newRequest(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(big)), httpserve.NewReply(httptest.NewRecorder()))
	r.Header.Set("Content-Type", "application/json")
	var body api.CreateExecRequest
	err := decodeBody(httptest.NewRecorder(), r, &body)
	if status, ok := httpserve.FixedStatus(err); !ok || status != http.StatusRequestEntityTooLarge {
		t.Errorf("got %v, want 413", err)
	}
}

// FuzzDecodeJSON shows that whatever is accepted is what encoding/json makes of it, without anything dropped: encoding it
// again gives the same fields.
func FuzzDecodeJSON(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"cmd":["a","b"],"env":{"A":"b"},"tty":true,"rows":1}`, `{"stdin_raw":"AA==","timeout_seconds":1.5}`,
		`{"Cmd":[]}`, `{"cmd":[],"cmd":[]}`, "{\"shell\":\"\\ud800\"}", `[[[[`, `{"a":{"b":`, `nul`, "\xff", `{"rows":-0}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var body api.CreateExecRequest
		if decodeJSON(data, &body) != nil {
			return
		}
		var want map[string]any
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatalf("accepted %q: %v", data, err)
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		var again api.CreateExecRequest
		if err := d.Decode(&again); err != nil {
			t.Fatalf("accepted %q: %v", data, err)
		}
		known := jsonbody.FieldTypes(reflect.TypeFor[api.CreateExecRequest]())
		for name := range want {
			if _, ok := known[name]; !ok {
				t.Fatalf("accepted the field %q", name)
			}
		}
	})
}

func FuzzParseRange(f *testing.F) {
	for _, s := range []string{"bytes=0-1", "bytes=-5", "bytes=5-", "bytes=-", "bytes=0-9223372036854775807", "x", "bytes=1-0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, err := parseRange(&http.Request{Header: http.Header{"Range": {value}}})
		if err != nil {
			return
		}
		if got.whole || got.from < 0 || got.suffix < 0 || (got.suffix == 0 && got.length == 0) || got.length < -1 {
			t.Errorf("parseRange(%q) = %+v", value, got)
		}
	})
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x00b\xff")
	f.Fuzz(func(t *testing.T, s string) {
		out := printable(s)
		if len([]rune(out)) > 65 || strings.ContainsAny(out, "\n\x00") {
			t.Errorf("printable(%q) = %q", s, out)
		}
	})
}
