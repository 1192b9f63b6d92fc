package dialect_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/dialect/e2b"
	"shoal/internal/dialect/panda"
	"shoal/internal/httpserve"
	"shoal/internal/store"
	"shoal/internal/store/sqlite"
)

// emptyNode runs nothing: whoever gets as far as a sandbox's inside or its machine has got too far.
type emptyNode struct {
	core.Node // nil: what is not below panics
	t         *testing.T
}

func (emptyNode) List(context.Context) ([]core.NodeSandbox, error) { return nil, nil }
func (emptyNode) Exits() <-chan core.NodeExit                      { return nil }
func (emptyNode) Sweep(context.Context, core.Known) error          { return nil }

func (n emptyNode) Guest(id core.SandboxID) (core.Guest, error) {
	n.t.Errorf("the inside of %s was asked for", id)
	return nil, core.Errorf(core.CodeUnavailable, "does not run")
}

const (
	mine   = "e2b_00000000000000000000000000000000000000aa"
	theirs = core.SandboxID("s000000000000000000001")
	nobody = core.SandboxID("s000000000000000000009")
)

// twoTenants is control with the records of two tenants: one has a key, the other a sandbox that runs.
func twoTenants(t *testing.T) (*control.Service, store.Store) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "shoal.db"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	svc := control.New(control.Config{
		Store: db, Node: emptyNode{t: t}, NodeID: "n1", Logger: slog.New(slog.DiscardHandler),
		Limits: control.Limits{DefaultTTL: time.Hour, MaxTTL: 24 * time.Hour},
	})
	if err := svc.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = svc.Close() })
	now := time.Now().UTC().Truncate(time.Second)
	err = db.Update(t.Context(), func(tx store.Tx) error {
		for _, id := range []core.TenantID{"a", "b"} {
			if err := tx.PutTenant(core.Tenant{ID: id, Name: string(id), CreatedAt: now}); err != nil {
				return err
			}
		}
		key := core.Key{ID: "k1", Tenant: "a", Name: "a", Hash: core.HashSecret(mine), CreatedAt: now, Scopes: core.OrdinaryScopes()}
		if err := tx.PutKey(key); err != nil {
			return err
		}
		return tx.PutSandbox(core.Sandbox{
			ID: theirs, Tenant: "b", Name: "their-name", State: core.StateRunning, Node: "n1", TemplateName: "base", Template: "t000000000000000000001",
			CreatedAt: now, StartedAt: now, ExpiresAt: now.Add(time.Hour),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return svc, db
}

// otherTenants are calls on one sandbox, all that there are in each dialect: method, path, body.
var otherTenants = map[string][]string{
	"e2b": {
		"GET /sandboxes/ID", "DELETE /sandboxes/ID", `POST /sandboxes/ID/timeout {"timeout":5}`, `POST /sandboxes/ID/timeout {"timeout":0}`,
		`POST /sandboxes/ID/connect {"timeout":5}`, "POST /v2/sandboxes/ID/connect", "POST /sandboxes/ID/refreshes", "GET /sandboxes/ID/metrics",
		"POST /sandboxes/ID/pause", "POST /sandboxes/ID/resume", "POST /sandboxes/ID/fork", "POST /sandboxes/ID/snapshots", "PUT /sandboxes/ID/network",
		"GET /sandboxes/ID/logs", "GET /v2/sandboxes/ID/logs", "DELETE /sandboxes/ID-node1",
	},
	"panda": {
		"GET /v1/sandboxes/ID", "DELETE /v1/sandboxes/ID", "GET /v1/sandboxes/ID/lifecycle", `PATCH /v1/sandboxes/ID/lifecycle {"ttl_seconds":5}`,
		`PATCH /v1/sandboxes/ID/lifecycle {"persistent":true}`, `POST /v1/sandboxes/ID/exec {"cmd":"id"}`, `POST /v1/sandboxes/ID/exec/stream {"cmd":"id"}`,
		"GET /v1/sandboxes/ID/fs?path=/f", "PUT /v1/sandboxes/ID/fs?path=/f x", "DELETE /v1/sandboxes/ID/fs?path=/f", "GET /v1/sandboxes/ID/fs/dir?path=/",
		"GET /v1/sandboxes/ID/fs/stat?path=/", "POST /v1/sandboxes/ID/fork", "POST /v1/sandboxes/ID/hibernate",
	},
}

// TestTenantsAreApart: a sandbox of another tenant's is, to every call, one that doesn't exist, by its id as by its name.
func TestTenantsAreApart(t *testing.T) {
	svc, db := twoTenants(t)
	cfg := dialect.Config{
		Control: svc, Gate: dialect.NewGate(svc, httpserve.NewStrangers(), httpserve.NewRates(1e6, 1e6)), Logger: slog.New(slog.DiscardHandler), Closing: t.Context(),
	}
	record := func() (sb core.Sandbox) {
		t.Helper()
		err := db.View(t.Context(), func(r store.Reader) (err error) {
			sb, err = r.SandboxByID(theirs)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return sb
	}
	before := record()
	for name, open := range map[string]func(dialect.Config) (http.Handler, error){"e2b": e2b.New, "panda": panda.New} {
		h, err := open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range otherTenants[name] {
			unknown, want := ask(t, h, call, string(nobody))
			for _, ref := range []string{string(theirs), "their-name"} {
				status, got := ask(t, h, call, ref)
				// A call that is missing altogether may say so at once.
				if status != unknown || status != http.StatusNotFound && status != http.StatusNotImplemented || got != want {
					t.Errorf("%s %s: %d %s, of an id that nobody has: %d %s", name, call, status, got, unknown, want)
				}
			}
		}
		if diff := cmp.Diff(before, record()); diff != "" {
			t.Errorf("%s has changed it: %s", name, diff)
		}
	}
}

// ask makes a call of otherTenants on a sandbox, and returns the answer without what is in it of the sandbox's id and the request's.
func ask(t *testing.T, h http.Handler, call, ref string) (int, string) {
	t.Helper()
	method, rest, _ := strings.Cut(call, " ")
	path, body, _ := strings.Cut(rest, " ")
	r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+strings.Replace(path, "ID", ref, 1), strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+mine)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	reply, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(reply), ref, "ID")
	return w.Code, regexp.MustCompile(`"request_id":"[^"]*"`).ReplaceAllString(text, "")
}

// TestTokensAreApart: what opens one sandbox, or a key, opens no other from outside.
func TestTokensAreApart(t *testing.T) {
	svc, _ := twoTenants(t)
	h, err := e2b.New(dialect.Config{
		Control: svc, Gate: dialect.NewGate(svc, httpserve.NewStrangers(), httpserve.NewRates(1e6, 1e6)), Logger: slog.New(slog.DiscardHandler), Closing: t.Context(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"", mine, svc.AccessToken(core.Sandbox{ID: nobody})} {
		for _, path := range []string{"/files?path=/f", "/envs", "/metrics", "/filesystem.Filesystem/Stat", "/process.Process/List"} {
			method, body := http.MethodPost, "{}"
			if !strings.Contains(path, "/process") && !strings.Contains(path, "/filesystem") {
				method, body = http.MethodGet, ""
			}
			r := httptest.NewRequestWithContext(t.Context(), method, "http://49983-"+string(theirs)+".localhost"+path, strings.NewReader(body))
			r.Header.Set("X-Access-Token", token)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
				t.Errorf("%s with %.8q: %d %s", path, token, w.Code, w.Body)
			}
		}
	}
}
