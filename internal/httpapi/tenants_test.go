package httpapi_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shoal/api"
	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/httpapi"
	"shoal/internal/httpserve"
	"shoal/internal/image/spool"
	"shoal/internal/seal"
	"shoal/internal/store"
	"shoal/internal/store/sqlite"
)

// emptyNode runs nothing. Unless it is open, whoever gets as far as a sandbox's inside or its machine has got too far.
type emptyNode struct {
	core.Node // nil: what is not below panics
	t         *testing.T
	open      atomic.Bool
}

func (*emptyNode) List(context.Context) ([]core.NodeSandbox, error) { return nil, nil }
func (*emptyNode) Exits() <-chan core.NodeExit                      { return nil }
func (*emptyNode) Sweep(context.Context, core.Known) error          { return nil }
func (*emptyNode) Delete(context.Context, core.SandboxID) error     { return nil }

func (n *emptyNode) asked(id core.SandboxID) error {
	if id != mine && !n.open.Load() {
		n.t.Errorf("%s was asked for", id)
	}
	return core.Errorf(core.CodeUnavailable, "does not run")
}

func (n *emptyNode) Guest(id core.SandboxID) (core.Guest, error) { return nil, n.asked(id) }

func (n *emptyNode) Stop(_ context.Context, id core.SandboxID) error  { return n.asked(id) }
func (n *emptyNode) Wake(_ context.Context, spec core.NodeSpec) error { return n.asked(spec.Sandbox) }

func (n *emptyNode) Reserve(_ context.Context, id core.SandboxID, _ core.Resources) error {
	return n.asked(id)
}

func (n *emptyNode) CaptureTemplate(_ context.Context, _ core.TemplateID, from core.TreeSource) (core.CapturedTree, error) {
	return core.CapturedTree{}, n.asked(from.Sandbox)
}

func (*emptyNode) ReserveAll(context.Context, []core.SandboxID, core.Resources) error { return nil }

func (*emptyNode) Release(core.SandboxID) {}

func (n *emptyNode) Checkpoint(_ context.Context, _ core.CheckpointID, from core.SandboxID) (core.CheckpointTree, error) {
	return core.CheckpointTree{}, n.asked(from)
}

func (*emptyNode) DeleteCheckpoint(context.Context, core.CheckpointID) error { return nil }

func (*emptyNode) DeleteTemplate(context.Context, core.TemplateID) error { return nil }

func (n *emptyNode) Metrics(_ context.Context, id core.SandboxID) (core.SandboxMetrics, error) {
	return core.SandboxMetrics{}, n.asked(id)
}

// mine is the sandbox of the tenant that asks.
const mine = core.SandboxID("s000000000000000000001")

// What the other tenant has: each kind's id, and its name if it has one.
var theirs = map[string][]string{
	"sandbox": {"s000000000000000000002", "their-sandbox"}, "exec": {"e000000000000000000002"}, "key": {"k000000000000000000002"},
	"template": {"t000000000000000000002", "their-template"}, "operation": {"o000000000000000000002"}, "upload": {"u000000000000000000002"}, "tenant": {"b", "their-tenant"},
	"checkpoint": {"c000000000000000000002"}, "registry": {"their-registry.example:5000"},
}

// nobodys is an id that nothing has.
const nobodys = "x000000000000000000009"

// route says how an operation is asked about something of the other tenant's: with which kind of thing in its path (by default that of the
// noun in it), query and body, in which REF stands for a thing of the kind ref, if it is there and not in the path.
type route struct {
	query, body, ref string
	header           http.Header
	// name takes the place of what the path names, if that is a new thing's.
	name string
}

// own are operations that can't name a thing of another tenant's: what they answer must be of the caller's own.
var own = route{}

// routes has every operation that takes a key. One that is missing fails the test: say here how it names what may not be the caller's.
func routes() map[string]route {
	named := func(body string) route { return route{body: body} }
	file := route{query: "path=/f"}
	return map[string]route{
		"getServerMetrics": own, "listDialects": own, "getVersion": own, "createTenant": named(`{"name":"new"}`), "listTenants": own,
		"getTenant": own, "updateTenant": named(`{"suspended":true}`), "deleteTenant": {query: "force=true"}, "getQuota": own,
		"listAudit": {query: "actor=REF", ref: "key"}, "createKey": named(`{"scopes":["files"]}`), "listKeys": own, "deleteKey": own,
		"listEvents": own, "getUsage": {query: "sandbox=REF", ref: "sandbox"}, "listOperations": own, "getOperation": own, "cancelOperation": own, "listTemplates": own, "getTemplate": own,
		"createTemplate": {body: `{"name":"new","from_sandbox":"REF"}`, ref: "sandbox"}, "deleteTemplate": own, "tagTemplate": own,
		"untagTemplate": own, "deleteUpload": own, "listRegistries": own, "getRegistry": own, "deleteRegistry": own,
		"putRegistry":  {body: `{"username":"u","password":"p"}`, name: "new.example"},
		"createUpload": {body: "x", header: http.Header{"Content-Type": {"application/octet-stream"}}},

		"createCheckpoint": named(`{}`), "listSandboxCheckpoints": own, "getCheckpoint": own, "deleteCheckpoint": own,
		"updateCheckpoint": named(`{"comment":"mine"}`), "listCheckpoints": {query: "sandbox=REF", ref: "sandbox"},

		"forkSandbox":        named(`{"count":2}`),
		"createSandboxes":    {body: `{"sandboxes":[{"template":"REF"}]}`, ref: "template"},
		"getOrCreateSandbox": {body: `{"template":"REF"}`, ref: "template", name: "new"},
		"createSandbox":      {body: `{"template":"REF"}`, ref: "template"}, "listSandboxes": {query: "template=REF", ref: "template"},
		"getSandbox": own, "updateSandbox": named(`{"labels":{"a":"b"}}`), "deleteSandbox": own, "stopSandbox": named(`{"grace_seconds":0}`), "wakeSandbox": own, "restoreSandbox": named(`{"checkpoint_id":"c000000000000000000001"}`), "resetSandbox": named(`{}`), "getSandboxMetrics": own, "getSandboxWhy": own, "listSandboxEvents": own,

		"createExec": named(`{"shell":"id"}`), "listExecs": own, "getExec": own, "cancelExec": own,
		"attachExec": {header: http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}}}, "resizeExec": named(`{"rows":1,"cols":1}`),
		"signalExec": named(`{"signal":"SIGTERM"}`), "writeExecStdin": named(`{"data":"x"}`),

		"readFile": file, "writeFile": {query: "path=/f", body: "x"}, "changeFile": {query: "path=/f", body: `{"mode":"0600"}`}, "removeFile": file,
		"getPartialFile": own, "deletePartialFile": own, "checksumFile": file, "linkFile": named(`{"path":"/l","target":"/f"}`), "listFiles": file, "makeDirectory": named(`{"path":"/d"}`),
		"moveFile": named(`{"from":"/a","to":"/b"}`), "statFile": file, "diffSandbox": {query: "against=REF", ref: "sandbox"}, "watchFiles": file, "readArchive": file, "writeArchive": {query: "path=/d", body: "x"}, "signFile": named(`{"path":"/f"}`),
	}
}

// kindOf is the kind of thing that the {id} of a path names.
func kindOf(path string) string {
	noun, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	return strings.TrimSuffix(strings.NewReplacer("sandboxes", "sandboxs", "registries", "registrys").Replace(noun), "s")
}

// apart is a server on a real control and database, with two tenants.
type apart struct {
	*testing.T
	handler http.Handler
	node    *emptyNode
}

func newApart(t *testing.T) *apart {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "shoal.db"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	node := &emptyNode{t: t}
	uploads := t.TempDir()
	if err := errors.Join(os.Mkdir(uploads+"/b", 0o700), os.WriteFile(uploads+"/b/"+theirs["upload"][0], nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	kept, err := spool.Open(spool.Config{Dir: uploads})
	if err != nil {
		t.Fatal(err)
	}
	svc := control.New(control.Config{
		Store: db, Node: node, NodeID: "n1", Logger: slog.New(slog.DiscardHandler), Spool: kept, Vault: seal.New(filepath.Join(t.TempDir(), seal.KeyFile)),
		Limits: control.Limits{
			DefaultTTL: time.Hour, MaxTTL: 24 * time.Hour, DefaultTemplate: "base",
			Default: core.Resources{VCPUs: 1, MemoryBytes: 512 << 20, Pids: 64, OpenFiles: 1024, CPUWeight: 100, IOWeight: 100},
			Max:     core.Resources{VCPUs: 4, MemoryBytes: 8 << 30, Pids: 64, OpenFiles: 1024, CPUWeight: 100, IOWeight: 100},
		},
	})
	if err := svc.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = svc.Close() })
	if err := db.Update(t.Context(), fillApart); err != nil {
		t.Fatal(err)
	}
	a, err := httpapi.New(svc, httpapi.Options{Logger: slog.New(slog.DiscardHandler), Rates: httpserve.NewRates(1e6, 1e6)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return &apart{t, a.Handler(), node}
}

// The keys: of the tenant that asks, of the other one, and of the other one for sandboxes with a label that its sandbox doesn't have.
const (
	asking   = "shoal_asking"
	owner    = "shoal_owner"
	narrowed = "shoal_narrowed"
)

func fillApart(tx store.Tx) error {
	now := time.Now().UTC().Truncate(time.Second)
	sandbox := func(id, name string, tenant core.TenantID, tmpl string) core.Sandbox {
		return core.Sandbox{
			ID: core.SandboxID(id), Tenant: tenant, Name: name, State: core.StateRunning, Node: "n1", TemplateName: tmpl, Template: core.TemplateID(tmpl),
			Incarnation: 1, Epoch: 1, CreatedAt: now, StartedAt: now, ExpiresAt: now.Add(time.Hour), Labels: map[string]string{"secret": "their-label"},
		}
	}
	all := core.AllScopes().Without(core.ScopeAdmin)
	for _, put := range []error{
		tx.PutTenant(core.Tenant{ID: "a", Name: "a", CreatedAt: now}),
		tx.PutTenant(core.Tenant{ID: "b", Name: "their-tenant", CreatedAt: now}),
		tx.PutKey(core.Key{ID: "k000000000000000000001", Tenant: "a", Hash: core.HashSecret(asking), CreatedAt: now, Scopes: all}),
		tx.PutKey(core.Key{ID: "k000000000000000000002", Tenant: "b", Hash: core.HashSecret("x"), CreatedAt: now, Scopes: all}),
		tx.PutKey(core.Key{ID: "k000000000000000000003", Tenant: "b", Hash: core.HashSecret(owner), CreatedAt: now, Scopes: all}),
		tx.PutKey(core.Key{
			ID: "k000000000000000000004", Tenant: "b", Hash: core.HashSecret(narrowed), CreatedAt: now, Scopes: all, Parent: "k000000000000000000003",
			Labels: map[string]string{"team": "x"},
		}),
		tx.PutSandbox(sandbox(string(mine), "mine", "a", "base")),
		tx.PutSandbox(sandbox(theirs["sandbox"][0], "their-sandbox", "b", theirs["template"][0])),
		tx.PutRegistryLogin(core.RegistryLogin{Tenant: "b", Host: theirs["registry"][0], Username: "their-user", Sealed: []byte{1}, CreatedAt: now, UpdatedAt: now}),
		tx.PutCheckpoint(core.Checkpoint{
			ID: core.CheckpointID(theirs["checkpoint"][0]), Tenant: "b", Sandbox: core.SandboxID(theirs["sandbox"][0]), Kind: core.CheckpointDisk,
			State: core.CheckpointReady, Cause: core.CauseCall, Comment: "their-comment", CreatedAt: now, Labels: map[string]string{"secret": "their-label"},
		}),
		tx.PutExec(core.Exec{ID: core.ExecID(theirs["exec"][0]), Sandbox: core.SandboxID(theirs["sandbox"][0]), StartedAt: now}),
		tx.PutOperation(core.Operation{
			ID: core.OperationID(theirs["operation"][0]), Tenant: "b", Kind: "import", State: core.OperationRunning, CreatedAt: now,
		}),
	} {
		if put != nil {
			return put
		}
	}
	if _, err := tx.AppendEvent(core.Event{Tenant: "b", Sandbox: core.SandboxID(theirs["sandbox"][0]), Type: core.EventSandboxRunning, At: now}); err != nil {
		return err
	}
	_, err := tx.PutTemplate(core.Template{
		ID: core.TemplateID(theirs["template"][0]), Tenant: "b", Name: "their-template", State: core.TemplateReady, Visibility: core.VisibilityPrivate, CreatedAt: now,
	})
	if err != nil {
		return err
	}
	return tx.TagTemplate("b", "their-template", "stable", core.TemplateID(theirs["template"][0]))
}

var perCall = regexp.MustCompile(`"request_id":"[^"]*"`)

// ask calls an operation about a thing, and returns the answer without what is in it of the thing's name and the request's id.
func (a *apart) ask(key string, op api.Route, r route, sandbox, ref string) (int, string) {
	a.Helper()
	path := strings.NewReplacer("{id}", cmp.Or(r.name, ref), "{host}", cmp.Or(r.name, ref)).Replace(op.Path)
	if strings.Contains(op.Path, "{exec}") && sandbox != "" { // of a sandbox of the caller's own
		path = strings.Replace(op.Path, "{id}", sandbox, 1)
	}
	path = strings.NewReplacer("{tag}", "stable", "{partial}", "p").Replace(path)
	path = strings.Replace(path, "{exec}", map[bool]string{true: ref, false: theirs["exec"][0]}[sandbox != ""], 1)
	query, body := strings.ReplaceAll(r.query, "REF", ref), strings.ReplaceAll(r.body, "REF", ref)
	ctx, cancel := context.WithTimeout(a.Context(), 5*time.Second)
	defer cancel()
	req := httptest.NewRequestWithContext(ctx, op.Method, "http://localhost"+path+"?"+query, strings.NewReader(body))
	if body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	req.Header.Set("Content-Type", map[bool]string{true: "application/json", false: "application/octet-stream"}[strings.HasPrefix(body, "{")])
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, req)
	reply, err := io.ReadAll(w.Result().Body)
	if err != nil {
		a.Fatal(err)
	}
	text := strings.ReplaceAll(perCall.ReplaceAllString(string(reply), ""), ref, "REF")
	return w.Code, text
}

// taking lists the operations that take a key, with their routes.
func taking(t *testing.T) (ops []api.Route, by map[string]route) {
	t.Helper()
	by = routes()
	known := map[string]bool{}
	for _, op := range api.Routes() {
		known[op.ID] = true
		if op.Open {
			continue
		}
		if _, ok := by[op.ID]; !ok {
			t.Errorf("the operation %s (%s %s) has no case here", op.ID, op.Method, op.Path)
			continue
		}
		ops = append(ops, op)
	}
	for id := range by {
		if !known[id] {
			t.Errorf("there is no operation %s", id)
		}
	}
	return ops, by
}

// TestCheckpointsAreApart: what starts from another tenant's checkpoint is answered as what starts from none.
func TestCheckpointsAreApart(t *testing.T) {
	a := newApart(t)
	ops, _ := taking(t)
	for _, op := range ops {
		r, ok := map[string]route{
			"createSandbox":      {body: `{"from_checkpoint":"REF"}`, ref: "checkpoint"},
			"createSandboxes":    {body: `{"count":1,"sandbox":{"from_checkpoint":"REF"}}`, ref: "checkpoint"},
			"getOrCreateSandbox": {body: `{"from_checkpoint":"REF"}`, ref: "checkpoint", name: "new"},
		}[op.ID]
		if !ok {
			continue
		}
		for _, ref := range theirs["checkpoint"] {
			a.same(asking, op, r, "", ref)
			a.same(narrowed, op, r, "", ref)
		}
	}
}

// refsOf is what of the other tenant's an operation is asked about; nothing for one that names nothing.
func refsOf(op api.Route, r route) []string {
	switch {
	case r.ref != "":
		return theirs[r.ref]
	case strings.Contains(op.Path, "{id}"), strings.Contains(op.Path, "{host}") && r.name == "":
		return theirs[kindOf(op.Path)]
	}
	return nil
}

// TestTenantsAreApart asks every operation about everything of another tenant's, by id and by name, and about an id that nobody has: the
// answers must be the same to the byte, and show nothing of the other tenant's. So it is for a key of the same tenant that is for other
// sandboxes. The owner must get another answer, or the test would show nothing.
func TestTenantsAreApart(t *testing.T) {
	a := newApart(t)
	ops, by := taking(t)
	for _, op := range ops {
		r := by[op.ID]
		for _, ref := range refsOf(op, r) {
			a.same(asking, op, r, "", ref)
			if strings.Contains(op.Path, "{exec}") {
				a.same(asking, op, r, string(mine), theirs["exec"][0])
			}
			if kind := kindOf(op.Path); kind == "sandbox" && r.ref == "" || kind == "key" {
				a.same(narrowed, op, r, "", ref)
			}
		}
		if len(refsOf(op, r)) == 0 {
			_, text := a.ask(asking, op, r, "", nobodys)
			a.showsNothing(op, text)
		}
	}
	a.node.open.Store(true)
	slices.SortStableFunc(ops, func(x, y api.Route) int { // what ends something comes last, and the sandbox itself last of all
		rank := func(op api.Route) int {
			if op.Method != http.MethodDelete {
				return 0
			}
			return 1000 - len(op.Path)
		}
		return rank(x) - rank(y)
	})
	for _, op := range ops {
		r := by[op.ID]
		if refs := refsOf(op, r); len(refs) > 0 && kindOf(op.Path) != "tenant" && op.ID != "listAudit" { // what only the operator may do is denied to all
			status, text := a.ask(owner, op, r, "", refs[0])
			if none, absent := a.ask(owner, op, r, "", nobodys); status == none && text == absent {
				t.Errorf("%s: its owner gets what nobody gets: %d %s", op.ID, status, text)
			}
		}
	}
}

// same fails unless the answer about a thing is that about nothing.
func (a *apart) same(key string, op api.Route, r route, sandbox, ref string) {
	a.Helper()
	unknown, want := a.ask(key, op, r, sandbox, nobodys)
	status, got := a.ask(key, op, r, sandbox, ref)
	if status != unknown || got != want {
		a.Errorf("%s about %s: %d %s\nabout nothing: %d %s", op.ID, ref, status, got, unknown, want)
	}
	list := (strings.HasPrefix(op.ID, "list") || op.ID == "createSandboxes") && r.ref != "" // what is asked for comes in a line of its own
	if status != http.StatusNotFound && status != http.StatusForbidden && (!list || status != http.StatusOK) {
		a.Errorf("%s about %s: %d %s", op.ID, ref, status, got)
	}
	a.showsNothing(op, got)
}

// TestNamesOfOthers: get-or-create under a name that another tenant's sandbox has is as under one that is free.
func TestNamesOfOthers(t *testing.T) {
	a := newApart(t)
	op := api.Route{ID: "getOrCreateSandbox", Method: http.MethodPut, Path: "/v1/sandboxes/{id}"}
	body := route{body: `{}`}
	free, want := a.ask(asking, op, body, "", "free")
	status, got := a.ask(asking, op, body, "", theirs["sandbox"][1])
	if status != free || got != want {
		t.Errorf("under another's name: %d %s\nunder a free one: %d %s", status, got, free, want)
	}
	a.showsNothing(op, got)
}

func (a *apart) showsNothing(op api.Route, text string) {
	a.Helper()
	for _, refs := range theirs {
		for _, ref := range append(refs, "their-label") {
			if len(ref) > 1 && strings.Contains(text, ref) {
				a.Errorf("%s shows %s: %s", op.ID, ref, text)
			}
		}
	}
}
