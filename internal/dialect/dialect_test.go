package dialect_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/httpserve"
)

// oneKey knows one key.
type oneKey struct{ lookups int }

func (*oneKey) Tie(control.Principal, func(error)) (func(), error) { return func() {}, nil }

func (*oneKey) Note(control.Principal, core.AuditEntry) {}

func (k *oneKey) Authenticate(_ context.Context, secret string) (control.Principal, error) {
	k.lookups++
	if secret != "good" {
		return control.Principal{}, core.Errorf(core.CodeUnauthenticated, "the API key is missing, unknown or expired")
	}
	return control.Principal{Tenant: "acme"}, nil
}

func newGate(perSecond float64, burst int) (*dialect.Gate, *oneKey) {
	keys := &oneKey{}
	return dialect.NewGate(keys, httpserve.NewStrangers(), httpserve.NewRates(perSecond, burst)), keys
}

func TestGate(t *testing.T) {
	gate, keys := newGate(0.01, 2)
	for _, secret := range []string{"", "bad", strings.Repeat("x", 10_000)} {
		if _, err := gate.Admit(t.Context(), "192.0.2.1:1", secret); !core.IsCode(err, core.CodeUnauthenticated) {
			t.Errorf("secret of %d bytes: %v", len(secret), err)
		}
	}
	if keys.lookups != 1 {
		t.Errorf("%d look-ups: no secret and one that is too long are not worth one", keys.lookups)
	}
	for i := range 3 {
		p, err := gate.Admit(t.Context(), "192.0.2.1:1", "good")
		if over := core.IsCode(err, core.CodeQuota); over != (i == 2) || (!over && p.Tenant != "acme") {
			t.Errorf("call %d: %v, %v", i, p, err)
		}
	}
	for range 200 {
		_ = gate.Guard("192.0.2.2:1", "wrong token", func() error { return core.Errorf(core.CodeUnauthenticated, "no") })
	}
	ran := false
	err := gate.Guard("192.0.2.2:1", "wrong token", func() error { ran = true; return nil })
	if !core.IsCode(err, core.CodeQuota) || ran {
		t.Errorf("after 200 failures: %v, checked: %v", err, ran)
	}
}

// serve runs one request through Handler and returns the reply and the log.
func serve(t *testing.T, adapter http.HandlerFunc) (*http.Response, string) {
	t.Helper()
	gate, _ := newGate(100, 100)
	var log bytes.Buffer
	cfg := dialect.Config{Gate: gate, Logger: slog.New(slog.NewTextHandler(&log, nil)), Closing: t.Context()}
	h := dialect.Handler("vendor", cfg, adapter, func(w http.ResponseWriter, _ *http.Request, e *core.Error) {
		http.Error(w, e.Message, http.StatusInternalServerError)
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x%0Ay?secret=1", nil))
	return w.Result(), log.String()
}

func TestHandlerTellsAndHides(t *testing.T) {
	reply, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
		c := dialect.CallOf(r.Context())
		c.Operation, c.Principal.Tenant = "sandboxes.create", "acme"
		shown := c.Failed(errors.New("disk on fire"))
		if shown.Code != core.CodeInternal || strings.Contains(shown.Message, "fire") || !strings.Contains(shown.Message, c.ID) {
			t.Errorf("shown: %v", shown)
		}
		w.WriteHeader(http.StatusTeapot)
	})
	if reply.StatusCode != http.StatusTeapot || reply.Header.Get("X-Request-Id") == "" || reply.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("reply: %v", reply)
	}
	for _, want := range []string{"disk on fire", "dialect=vendor", "operation=sandboxes.create", "status=418", "tenant_id=acme", "level=ERROR"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %q: %s", want, log)
		}
	}
	if strings.Contains(log, "secret") {
		t.Errorf("the log has the query: %s", log)
	}
}

// TestHandlerLogsNoErrorForWhoLeft: a client that goes away is no fault of the server's.
func TestHandlerLogsNoErrorForWhoLeft(t *testing.T) {
	_, log := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_ = dialect.CallOf(r.Context()).Failed(httpserve.Gone(errors.New("broken pipe")))
	})
	if !strings.Contains(log, "code=canceled") || strings.Contains(log, "level=ERROR") {
		t.Error(log)
	}
}

func TestHandlerCatchesPanics(t *testing.T) {
	reply, log := serve(t, func(http.ResponseWriter, *http.Request) { panic("boom") })
	if reply.StatusCode != http.StatusInternalServerError || !strings.Contains(log, "boom") {
		t.Errorf("%d, %s", reply.StatusCode, log)
	}
	defer func() {
		if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			t.Errorf("a panic after the reply has begun must cut the connection: %v", p)
		}
	}()
	serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK); panic("late") })
}

func TestTemplate(t *testing.T) {
	cfg := dialect.Config{Templates: map[string]string{"code-interpreter": "base"}}
	if got := cfg.Template("code-interpreter") + cfg.Template("minimal"); got != "baseminimal" {
		t.Error(got)
	}
}
