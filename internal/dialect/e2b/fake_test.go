package e2b

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/httpserve"
	"shoal/internal/store"
)

const (
	goodKey = "e2b_00000000000000000000000000000000000000aa"
	domain  = "e2b.test"
)

var epoch = time.Date(2026, 11, 29, 17, 0, 0, 0, time.UTC)

// fakeControl is control in memory, as far as this package uses it: sandboxes are records and have nothing inside.
type fakeControl struct {
	dialect.Control // nil: a call that is not expected panics

	mu        sync.Mutex
	sandboxes []core.Sandbox
	specs     []core.SandboxSpec
	filters   []store.SandboxFilter
	// fail, by method name, is what that method returns instead of working.
	fail map[string]error
	cpu  float64
}

func (*fakeControl) Tie(control.Principal, func(error)) (func(), error) { return func() {}, nil }

func (*fakeControl) Note(control.Principal, core.AuditEntry) {}

func (f *fakeControl) Authenticate(_ context.Context, secret string) (control.Principal, error) {
	if secret != goodKey {
		return control.Principal{}, core.Errorf(core.CodeUnauthenticated, "the API key is missing, unknown or expired")
	}
	return control.Principal{Tenant: "acme"}, nil
}

func (f *fakeControl) Limits(control.Principal) control.Limits {
	return control.Limits{
		DefaultTTL: time.Hour, MaxTTL: 24 * time.Hour, Default: core.Resources{VCPUs: 1.5, MemoryBytes: 512 << 20, DiskBytes: 4 << 30},
	}
}

func (f *fakeControl) CreateSandbox(_ context.Context, p control.Principal, spec core.SandboxSpec) (core.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["CreateSandbox"]; err != nil {
		return core.Sandbox{}, err
	}
	if spec.Template != "base" {
		return core.Sandbox{}, &core.Error{Code: core.CodeNotFound, Field: "template", Message: "there is no template " + spec.Template}
	}
	f.specs = append(f.specs, spec)
	n := len(f.sandboxes)
	sb := core.Sandbox{
		ID: core.SandboxID(fmt.Sprintf("s%021d", n+1)), Tenant: p.Tenant, Template: "t000000000000000000001", TemplateName: "base", Node: "node1",
		State: core.StateRunning, Resources: f.Limits(control.Principal{}).Default, Env: spec.Env, Labels: spec.Labels, CreatedAt: epoch,
		StartedAt: epoch.Add(time.Duration(n) * time.Minute), ExpiresAt: epoch.Add(spec.TTL),
	}
	f.sandboxes = append(f.sandboxes, sb)
	return sb, nil
}

// find returns a live sandbox; the caller holds mu.
func (f *fakeControl) find(p control.Principal, ref string) (*core.Sandbox, error) {
	for i := range f.sandboxes {
		if sb := &f.sandboxes[i]; string(sb.ID) == ref && sb.Tenant == p.Tenant && sb.State != core.StateDeleted {
			return sb, nil
		}
	}
	return nil, core.Errorf(core.CodeNotFound, "no such sandbox")
}

func (f *fakeControl) GetSandbox(_ context.Context, p control.Principal, ref string) (core.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sb, err := f.find(p, ref)
	if err != nil {
		return core.Sandbox{}, err
	}
	return *sb, f.fail["GetSandbox"]
}

func (f *fakeControl) UpdateSandbox(_ context.Context, p control.Principal, ref string, patch control.SandboxPatch) (core.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sb, err := f.find(p, ref)
	if err != nil {
		return core.Sandbox{}, err
	}
	if patch.TTL != nil {
		sb.ExpiresAt = epoch.Add(*patch.TTL)
	}
	if d := patch.ExtendTTL; d != nil && epoch.Add(*d).After(sb.ExpiresAt) {
		sb.ExpiresAt = epoch.Add(*d)
	}
	return *sb, nil
}

func (f *fakeControl) DeleteSandbox(_ context.Context, p control.Principal, ref string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	sb, err := f.find(p, ref)
	if err == nil {
		sb.State = core.StateDeleted
	}
	return err
}

func (f *fakeControl) ListSandboxes(_ context.Context, p control.Principal, filter store.SandboxFilter, page store.Page) ([]core.Sandbox, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.filters = append(f.filters, filter)
	var list []core.Sandbox
	for _, sb := range f.sandboxes {
		match := sb.Tenant == p.Tenant && slices.Contains(filter.States, sb.State)
		for k, v := range filter.Labels {
			match = match && sb.Labels[k] == v
		}
		if match {
			list = append(list, sb)
		}
	}
	if !filter.OldestFirst {
		slices.Reverse(list)
	}
	from := 0
	if page.Cursor != "" {
		if _, err := fmt.Sscanf(page.Cursor, "%d", &from); err != nil {
			return nil, "", core.Invalid("cursor", "no cursor")
		}
	}
	to := min(from+page.Limit, len(list))
	if to < len(list) {
		return list[from:to], fmt.Sprint(to), nil
	}
	return list[from:to], "", nil
}

func (f *fakeControl) Metrics(context.Context, control.Principal, string) (core.SandboxMetrics, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cpu += 0.3
	return core.SandboxMetrics{At: time.Now(), CPUSeconds: f.cpu, MemoryBytes: 100, MemoryLimitBytes: 200, DiskBytes: -1}, f.fail["Metrics"]
}

func (f *fakeControl) ListTemplates(_ context.Context, _ control.Principal, _ store.TemplateFilter, page store.Page) ([]core.Template, string, error) {
	versions := []core.Template{
		{ID: "t000000000000000000001", Tenant: core.SystemTenant, Name: "base", Version: 2, Visibility: core.VisibilityPublic, State: core.TemplateReady, CreatedAt: epoch, ReadyAt: epoch.Add(time.Minute)},
		{ID: "t000000000000000000000", Tenant: core.SystemTenant, Name: "base", Version: 1, Visibility: core.VisibilityPublic, State: core.TemplateFailed, CreatedAt: epoch},
		{ID: "t000000000000000000002", Tenant: "acme", Name: "mine", Version: 1, Visibility: core.VisibilityPrivate, State: core.TemplateBuilding, CreatedAt: epoch},
	}
	if page.Cursor == "" {
		return versions[:1], "1", nil // a page that splits a template
	}
	return versions[1:], "", nil
}

func (f *fakeControl) GetTemplate(ctx context.Context, p control.Principal, ref string) (core.Template, error) {
	for _, cursor := range []string{"", "1"} {
		list, _, _ := f.ListTemplates(ctx, p, store.TemplateFilter{}, store.Page{Cursor: cursor})
		for _, t := range list {
			if t.Name == ref || string(t.ID) == ref {
				return t, nil
			}
		}
	}
	return core.Template{}, core.Errorf(core.CodeNotFound, "no such template")
}

func (f *fakeControl) AccessToken(sb core.Sandbox) string { return "token-of-" + string(sb.ID) }

func (f *fakeControl) OpenSandbox(_ context.Context, id core.SandboxID, opens func(string) bool) (control.Principal, core.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sb, err := f.find(control.Principal{Tenant: "acme"}, string(id))
	if err != nil {
		return control.Principal{}, core.Sandbox{}, err
	}
	if !opens(f.AccessToken(*sb)) {
		return control.Principal{}, core.Sandbox{}, core.Errorf(core.CodeUnauthenticated, "the sandbox's access token is missing or wrong")
	}
	return control.Principal{Tenant: sb.Tenant, Sandbox: sb.ID}, *sb, nil
}

func (f *fakeControl) Alive(_ context.Context, id core.SandboxID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	sb, err := f.find(control.Principal{Tenant: "acme"}, string(id))
	return err == nil && sb.State == core.StateRunning
}

// world is the dialect on a fake control.
type world struct {
	*testing.T
	control *fakeControl
	handler http.Handler
	// stop says that the server is about to end.
	stop context.CancelFunc
}

func newWorld(t *testing.T, domain string) *world {
	t.Helper()
	f := &fakeControl{fail: map[string]error{}}
	closing, stop := context.WithCancel(t.Context())
	a := newAdapter(dialect.Config{
		Control: f, Gate: dialect.NewGate(f, httpserve.NewStrangers(), httpserve.NewRates(1e6, 1e6)), Logger: slog.New(slog.DiscardHandler),
		Templates: map[string]string{"code-interpreter-v1": "base"}, Domain: domain, Closing: closing,
	})
	envd := a.inside.envd
	a.inside.envd = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" || r.Method == http.MethodOptions {
			envd.ServeHTTP(w, r)
			return
		}
		fmt.Fprint(w, "inside") // there are no files and processes in a record
	})
	return &world{t, f, a.handler(), stop}
}

// reply is what came back.
type reply struct {
	*http.Response
	body string
}

// send sends a request and checks the form that every error has.
func (w *world) send(r *http.Request) reply {
	w.Helper()
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	res := rec.Result()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.Fatal(err)
	}
	if res.StatusCode >= 400 {
		var e struct {
			Code    int
			Message string
		}
		if json.Unmarshal(body, &e) != nil || e.Code != res.StatusCode || e.Message == "" {
			w.Errorf("%s %s: the error's code is not its status %d, or it has no message: %s", r.Method, r.URL, res.StatusCode, body)
		}
	}
	return reply{res, string(body)}
}

// call makes a call of the control plane.
func (w *world) call(method, path, body string) reply {
	w.Helper()
	r := httptest.NewRequestWithContext(w.Context(), method, "http://localhost:8701"+path, strings.NewReader(body))
	r.Header.Set("X-API-Key", goodKey)
	return w.send(r)
}

// create makes a sandbox.
func (w *world) create(body string) openedSandbox {
	w.Helper()
	return decoded[openedSandbox](w, w.call(http.MethodPost, "/v2/sandboxes", body), http.StatusCreated)
}

// decoded reads a reply that has the status.
func decoded[T any](w *world, r reply, status int) (out T) {
	w.Helper()
	if r.StatusCode != status {
		w.Fatalf("%d, want %d: %s", r.StatusCode, status, r.body)
	}
	d := json.NewDecoder(bytes.NewReader([]byte(r.body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		w.Fatalf("%s: %v", r.body, err)
	}
	return out
}

var errSecret = errors.New("disk I/O error at /secret/path")
