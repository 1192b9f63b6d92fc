package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shoal/internal/httpapi"
	shoal "shoal/sdk/go"
)

func TestClientStopAndWake(t *testing.T) {
	c, fake := newClient(t, nil)
	create(t, c, "x")
	half := 500 * time.Millisecond
	for name, tc := range map[string]struct {
		grace *time.Duration
		want  time.Duration
	}{"default": {nil, 10 * time.Second}, "none": {new(time.Duration), 0}, "half a second": {&half, half}} {
		sb, err := c.Sandboxes().Stop(t.Context(), "x", shoal.StopOptions{Grace: tc.grace})
		if err != nil || sb.State != shoal.StateStopped || sb.StateSince.IsZero() || fake.grace != tc.want {
			t.Errorf("%s: %+v, %v, with a grace of %s", name, sb, err, fake.grace)
		}
	}
	sb, err := c.Sandboxes().Wake(t.Context(), "x")
	if err != nil || sb.State != shoal.StateRunning || sb.Incarnation < 2 {
		t.Errorf("%+v, %v", sb, err)
	}
	_, err = c.Sandboxes().Wake(t.Context(), "nobody")
	wantCode(t, err, shoal.CodeNotFound)
}

// TestStopBody: the body may be left out, and is checked if it isn't.
func TestStopBody(t *testing.T) {
	a, _ := newAPI(t, nil)
	server := httptest.NewServer(a.Handler())
	t.Cleanup(server.Close)
	c := &shoal.Client{BaseURL: server.URL, APIKey: tenantKey}
	create(t, c, "x")
	for body, want := range map[string]int{
		"": http.StatusOK, "{}": http.StatusOK, `{"grace_seconds":0}`: http.StatusOK, `{"grace_seconds":60}`: http.StatusOK,
		`{"grace_seconds":61}`: http.StatusBadRequest, `{"grace_seconds":-1}`: http.StatusBadRequest, `{"grace":1}`: http.StatusBadRequest,
		`{"grace_seconds":null}`: http.StatusBadRequest, "[]": http.StatusBadRequest,
	} {
		w := post(t, a, "/v1/sandboxes/x/stop", body)
		if w.Code != want {
			t.Errorf("%q: %d, want %d: %s", body, w.Code, want, w.Body)
		}
	}
}

// post posts a body, or none if that is empty, as the tenant.
func post(t *testing.T, a *httpapi.API, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+tenantKey)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, req)
	return w
}
