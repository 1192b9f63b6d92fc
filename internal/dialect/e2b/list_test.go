package e2b

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
	"shoal/internal/store"
)

func TestList(t *testing.T) {
	w := newWorld(t, domain)
	var ids []string
	for _, user := range []string{"a", "b", "a", "a"} {
		ids = append(ids, w.create(`{"templateID":"base","metadata":{"user":"`+user+`"}}`).SandboxID)
	}
	w.control.sandboxes[3].State = core.StateFailed
	for _, tc := range []struct {
		path, next string
		want       []int
	}{
		{"/sandboxes", "", []int{2, 1, 0}},
		{"/sandboxes?metadata=user%3Db", "", []int{1}},
		{"/v2/sandboxes", "", []int{2, 1, 0}},
		{"/v2/sandboxes?order=asc&limit=2", "2", []int{0, 1}},
		{"/v2/sandboxes?order=asc&limit=2&nextToken=2", "", []int{2}},
		{"/v2/sandboxes?order=desc&state=running&limit=100&metadata=user%253Da", "", []int{2, 0}},
		{"/v2/sandboxes?state=running,paused", "", []int{2, 1, 0}},
		{"/v2/sandboxes?state=paused", "", nil},
	} {
		r := w.call(http.MethodGet, tc.path, "")
		var got []int
		for _, sb := range decoded[[]listedSandbox](w, r, 200) {
			for i, id := range ids {
				if id == sb.SandboxID {
					got = append(got, i)
				}
			}
		}
		if d := cmp.Diff(tc.want, got); d != "" || r.Header.Get("X-Next-Token") != tc.next || !strings.HasPrefix(r.body, "[") {
			t.Errorf("%s: %s, next %q", tc.path, d, r.Header.Get("X-Next-Token"))
		}
	}
	w.control.filters = nil
	r := w.call(http.MethodGet, "/v2/sandboxes?template=code-interpreter-v1&startedAfter=2026-01-02T15:04:05.5%2B01:00", "")
	want := []store.SandboxFilter{{States: []core.State{core.StateRunning}, Template: "base", StartedAfter: time.Date(2026, 1, 2, 14, 4, 5, 5e8, time.UTC)}}
	if d := cmp.Diff(want, w.control.filters); r.StatusCode != 200 || d != "" {
		t.Errorf("%d: %s", r.StatusCode, d)
	}
	for _, query := range []string{
		"limit=0", "limit=101", "limit=x", "order=up", "state=frozen", "startedAfter=yesterday", "template=base:v1", "nextToken=x", "metadata=a", "metadata=%25zz", "page=2",
	} {
		if r := w.call(http.MethodGet, "/v2/sandboxes?"+query, ""); r.StatusCode != 400 || !strings.Contains(r.body, strings.Split(query, "=")[0]) {
			t.Errorf("%s: %d %s", query, r.StatusCode, r.body)
		}
	}
	if r := w.call(http.MethodGet, "/sandboxes?state=paused", ""); r.StatusCode != 400 {
		t.Errorf("a filter of the other list: %d %s", r.StatusCode, r.body)
	}
}

func TestParseMetadata(t *testing.T) {
	for in, want := range map[string]map[string]string{
		"":                          nil,
		"a=b":                       {"a": "b"},
		"a%2520b=c%2526d":           {"a b": "c&d"}, // what is left of "a%252520b%3Dc%252526d" in a request
		"a%20b=c":                   {"a b": "c"},
		"k=v&k2=v2":                 {"k": "v", "k2": "v2"},
		"k=":                        {"k": ""},
		"k=a=b":                     {"k": "a=b"},
		"k=100%2525":                {"k": "100%"},
		"k=%25C3%25BC&k=%25C3%25BC": {"k": "ü"},
		"k=a+b":                     {"k": "a+b"},
	} {
		got, err := parseMetadata(in)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%q: %v %s", in, err, d)
		}
	}
	for _, in := range []string{"a", "=b", "a=b&", "%", "a=%25", "a=1&a=2", "a=%25zz"} {
		if got, err := parseMetadata(in); err == nil {
			t.Errorf("%q: %v", in, got)
		}
	}
}

// FuzzParseMetadata shows that a filter as the SDKs write it comes back as it was, and that nothing else breaks it.
func FuzzParseMetadata(f *testing.F) {
	f.Add("a b", "c&d", "x")
	f.Add("%", "=", "a=1&a=2")
	f.Add("ü", "\xff", "%25zz")
	f.Fuzz(func(t *testing.T, key, value, raw string) {
		if m, err := parseMetadata(raw); err == nil && raw != "" && len(m) == 0 {
			t.Errorf("%q selects nothing out", raw)
		}
		if key == "" {
			return
		}
		once := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
		twice := func(s string) string { return once(once(s)) }
		got, err := parseMetadata(twice(key) + "=" + twice(value))
		if err != nil || got[key] != value || len(got) != 1 {
			t.Errorf("%q=%q: %v, %v", key, value, got, err)
		}
	})
}

// FuzzListQuery shows that whatever a query says, it is refused by name or is a filter that the store takes.
func FuzzListQuery(f *testing.F) {
	f.Add("limit=5&nextToken=x&order=asc&state=running,paused&template=base&startedAfter=2026-01-02T15:04:05Z&metadata=a%3Db")
	f.Add("state=,&limit=-1&startedAfter=9999-99-99")
	a := &adapter{}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		filter, page, none, err := a.listQuery(q)
		if err != nil {
			if !core.IsCode(err, core.CodeInvalid) {
				t.Errorf("%q: %v", query, err)
			}
			return
		}
		if page.Limit < 1 || page.Limit > maxPage || len(filter.States) != 1 || none && !strings.Contains(query, "paused") {
			t.Errorf("%q: %+v %+v %v", query, filter, page, none)
		}
	})
}
