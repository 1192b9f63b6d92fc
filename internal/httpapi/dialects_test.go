package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/api"
	"shoal/internal/httpapi"
)

// getAt makes one request of an API that is reached at a host, and decodes the reply.
func getAt(t *testing.T, a *httpapi.API, host, path, key string, out any) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Host = host
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
		t.Fatal(err)
	}
	return w.Code
}

func TestCA(t *testing.T) {
	want := api.CA{Certificate: "PEM", Fingerprint: "ab", ExpiresAt: time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)}
	a, _ := newAPI(t, func(o *httpapi.Options) { o.CA = &want })
	var got api.CA
	if status := getAt(t, a, "localhost", "/v1/ca", "", &got); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestDialects: one that listens everywhere is told by the name that its caller knows the server by.
func TestDialects(t *testing.T) {
	here := api.Dialect{Name: "e2b", URL: "http://127.0.0.1:8701", Templates: map[string]string{"a": "base"}, Clients: []string{"one"}}
	anywhere := api.Dialect{Name: "panda", URL: "https://127.0.0.1:8705", Templates: map[string]string{}, Clients: []string{}}
	a, _ := newAPI(t, func(o *httpapi.Options) {
		o.Loopback = false
		o.Dialects = []httpapi.Dialect{{Dialect: here}, {Dialect: anywhere, Anywhere: true}}
	})
	for host, want := range map[string]string{
		"shoal.example:8700": "https://shoal.example:8705", "[2001:db8::1]:8700": "https://[2001:db8::1]:8705", "10.0.0.1": "https://10.0.0.1:8705",
		"evil/path": "https://127.0.0.1:8705", "a b": "https://127.0.0.1:8705", "": "https://127.0.0.1:8705", "u@h": "https://127.0.0.1:8705",
	} {
		var got api.DialectList
		getAt(t, a, host, "/v1/dialects", tenantKey, &got)
		second := anywhere
		second.URL = want
		if diff := cmp.Diff([]api.Dialect{here, second}, got.Dialects); diff != "" {
			t.Errorf("%q: %s", host, diff)
		}
	}
}
