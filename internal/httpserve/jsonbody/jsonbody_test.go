package jsonbody_test

import (
	"errors"
	"strings"
	"testing"

	"shoal/internal/core"
	"shoal/internal/httpserve/jsonbody"
)

type body struct {
	Name  string            `json:"name"`
	Count int               `json:"count"`
	Env   map[string]string `json:"env"`
	List  []string          `json:"list"`
	Inner *struct {
		On bool `json:"on"`
	} `json:"inner"`
	Any map[string]any `json:"any"`
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		in, field string
		lenient   bool
	}{
		{`{"name":"a","count":1,"env":{"A":"b"},"list":["x"],"inner":{"on":true},"any":{"k":[1,{"x":null}]}}`, "any.k[1].x", false},
		{`{"name":"a","count":1,"env":{"A":"b"},"list":["x"],"inner":{"on":true},"any":{"k":[1,{"x":"y"},true]}}`, "", false},
		{`{"name":null,"inner":null}`, "", true},
		{`{"inner":{"on":null}}`, "", true},
		{`{"name":null}`, "name", false},
		{`{"env":{"A":null}}`, "env.A", true},
		{`{"list":[null]}`, "list[0]", true},
		{`null`, "body", true},
		{`{"Name":"a"}`, "Name", true},
		{`{"inner":{"off":true}}`, "inner.off", true},
		{`{"count":1,"count":2}`, "count", true},
		{`{"count":"1"}`, "count", true},
		{`{"count":1.5}`, "count", true},
		{`{} {}`, "body", true},
		{`[]`, "body", true},
		{"{\"name\":\"\xff\"}", "body", true},
		{`{"any":` + strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 41), "any" + strings.Repeat(".a", 16), true},
	} {
		var out body
		err := jsonbody.Decode([]byte(tt.in), &out, jsonbody.Options{NullIsAbsent: tt.lenient})
		var e *core.Error
		switch {
		case tt.field == "" && err != nil:
			t.Errorf("%s: %v", tt.in, err)
		case tt.field != "" && (!errors.As(err, &e) || e.Code != core.CodeInvalid || e.Field != tt.field):
			t.Errorf("%s: %v, want one that blames %s", tt.in, err, tt.field)
		}
	}
}
