package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shoal/internal/core"
)

// TestBatchIsAudited: the audit says what became of the many that a call asked for, and of one that can't be begun why.
func TestBatchIsAudited(t *testing.T) {
	a, fake := newAPI(t, nil)
	defer a.Close()
	for _, tt := range []struct {
		sandboxes, fails string
		code             core.Code
		detail           string
	}{
		{`{"name":"a"},{"name":"b"}`, "", "", "2 created, 0 failed"},
		{`{"name":"a"},{"name":"c"}`, "", core.CodeConflict, "1 created, 1 failed"},
		{`{},{},{}`, "CreateSandbox", core.CodeQuota, "0 created, 3 failed"},
		{`{}`, "CreateSandboxes", core.CodeQuota, ""},
	} {
		clear(fake.fail)
		if tt.fails != "" {
			fake.fail[tt.fails] = core.Errorf(core.CodeQuota, "too many")
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/sandboxes:batch", strings.NewReader(`{"sandboxes":[`+tt.sandboxes+`]}`))
		r.Host = "127.0.0.1"
		r.Header.Set("Authorization", "Bearer "+tenantKey)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r)
		if len(fake.noted) == 0 {
			t.Fatalf("nothing is noted of %d: %s", w.Code, w.Body)
		}
		if e := fake.noted[len(fake.noted)-1]; e.Operation != "createSandboxes" || e.Code != tt.code || e.Detail != tt.detail {
			t.Errorf("%s: the audit says %q, %q; it was answered %d, %s", tt.sandboxes, e.Code, e.Detail, w.Code, w.Body)
		}
	}
}

// TestForkIsAudited: of a fork all or none are made, and the audit says so.
func TestForkIsAudited(t *testing.T) {
	a, fake := newAPI(t, nil)
	defer a.Close()
	ask := func(path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		r.Host = "127.0.0.1"
		r.Header.Set("Authorization", "Bearer "+tenantKey)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r)
		return w
	}
	ask("/v1/sandboxes", `{"name":"lab"}`)
	for fails, want := range map[core.Code]string{"": "3 created, 0 failed", core.CodeExhausted: ""} {
		clear(fake.fail)
		if fails != "" {
			fake.fail["ForkSandbox"] = core.Errorf(fails, "2 of them would fit")
		}
		w := ask("/v1/sandboxes/lab/forks", `{"count":3}`)
		if e := fake.noted[len(fake.noted)-1]; e.Operation != "forkSandbox" || e.Code != fails || e.Detail != want {
			t.Errorf("the audit says %q, %q, %q; it was answered %d, %s", e.Operation, e.Code, e.Detail, w.Code, w.Body)
		}
	}
}

// TestFirstMomentOfAll: a bound that is the first moment there is is one, and not none.
func TestFirstMomentOfAll(t *testing.T) {
	a, _ := newAPI(t, nil)
	defer a.Close()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/sandboxes", strings.NewReader(`{}`))
	r.Host = "127.0.0.1"
	r.Header.Set("Authorization", "Bearer "+tenantKey)
	r.Header.Set("Content-Type", "application/json")
	a.Handler().ServeHTTP(httptest.NewRecorder(), r)
	for query, want := range map[string]bool{
		"": true, "since=0001-01-01T00:00:00Z": true, "until=0001-01-01T00:00:00Z": false,
		"until=" + time.Now().Add(time.Hour).UTC().Format(time.RFC3339): true,
	} {
		var list struct {
			Events []struct{} `json:"events"`
		}
		if code := getAt(t, a, "127.0.0.1", "/v1/events?"+query, tenantKey, &list); code != http.StatusOK || (len(list.Events) > 0) != want {
			t.Errorf("%q: %d, %d events", query, code, len(list.Events))
		}
	}
}
