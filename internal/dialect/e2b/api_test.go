package e2b

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
)

func TestKeys(t *testing.T) {
	w := newWorld(t, domain)
	for _, tc := range []struct {
		header, value string
		status        int
	}{
		{"X-API-Key", goodKey, 200},
		{"Authorization", "Bearer " + goodKey, 200},
		{"Authorization", "bearer " + goodKey, 200},
		{"Authorization", "Basic " + goodKey, 401},
		{"X-API-Key", "e2b_", 401},
		{"X-Access-Token", goodKey, 401},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v2/sandboxes", http.NoBody)
		r.Header.Set(tc.header, tc.value)
		if got := w.send(r); got.StatusCode != tc.status {
			t.Errorf("%s: %s: %d %s", tc.header, tc.value, got.StatusCode, got.body)
		}
	}
	if r := w.send(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/health", http.NoBody)); r.StatusCode != 200 {
		t.Errorf("health takes a key: %d", r.StatusCode)
	}
}

func TestSandbox(t *testing.T) {
	w := newWorld(t, domain)
	id := w.create(`{"templateID":"base","metadata":{"a":"b"}}`).SandboxID
	want := sandboxDetail{
		listedSandbox: listedSandbox{
			SandboxID: id, TemplateID: "t000000000000000000001", ClientID: "node1", Alias: "base", StartedAt: "2026-11-29T17:00:00.000Z",
			EndAt: "2026-11-29T17:05:00.000Z", CPUCount: 2, MemoryMB: 512, DiskSizeMB: 4096, EnvdVersion: "0.6.4", Metadata: map[string]string{"a": "b"},
			State: "running", VolumeMounts: []volumeMount{},
		},
		EnvdAccessToken: "token-of-" + id, Domain: domain, Lifecycle: lifecycle{OnTimeout: "kill"},
	}
	for _, ref := range []string{id, id + "-node1"} {
		got := decoded[sandboxDetail](w, w.call(http.MethodGet, "/sandboxes/"+ref, ""), 200)
		if d := cmp.Diff(want, got, cmp.AllowUnexported(sandboxDetail{})); d != "" {
			t.Error(d)
		}
	}
	w.control.sandboxes[0].ExpiresAt, w.control.sandboxes[0].Labels = time.Time{}, nil
	if got := decoded[sandboxDetail](w, w.call(http.MethodGet, "/sandboxes/"+id, ""), 200); got.EndAt != "9999-12-31T23:59:59.000Z" || got.Metadata == nil {
		t.Errorf("one without an end: %+v", got)
	}
	for _, status := range []int{204, 404} {
		if r := w.call(http.MethodDelete, "/sandboxes/"+id, ""); r.StatusCode != status || r.body != "" == (status == 204) {
			t.Errorf("kill: %d %s, want %d", r.StatusCode, r.body, status)
		}
	}
	failed := w.create(`{"templateID":"base"}`).SandboxID
	w.control.sandboxes[1].State, w.control.sandboxes[1].Failure = core.StateFailed, "it ran out of memory"
	for _, path := range []string{"", "/metrics"} {
		if r := w.call(http.MethodGet, "/sandboxes/"+failed+path, ""); r.StatusCode != 404 || !strings.Contains(r.body, "memory") {
			t.Errorf("a failed one's %q: %d %s", path, r.StatusCode, r.body)
		}
	}
	if r := w.call(http.MethodDelete, "/sandboxes/"+failed, ""); r.StatusCode != 204 {
		t.Errorf("a failed one can't be removed: %d", r.StatusCode)
	}
}

func TestTimeouts(t *testing.T) {
	w := newWorld(t, domain)
	id := w.create(`{"templateID":"base","timeout":100}`).SandboxID
	for _, tc := range []struct {
		path, body string
		status     int
		left       int64
	}{
		{"/sandboxes/ID/timeout", `{"timeout":50}`, 204, 50},
		{"/sandboxes/ID/timeout", `{}`, 400, 50},
		{"/sandboxes/ID/timeout", `{"timeout":86401}`, 400, 50},
		{"/sandboxes/ID/connect", `{"timeout":40}`, 200, 50},
		{"/sandboxes/ID/connect", `{"timeout":60}`, 200, 60},
		{"/sandboxes/ID/connect", `{"timeout":0}`, 200, 60},
		{"/sandboxes/ID/connect", `{}`, 400, 60},
		{"/sandboxes/ID/connect", `{"timeout":86401}`, 400, 60},
		{"/v2/sandboxes/ID/connect", `{"timeout":-1}`, 400, 60},
		{"/v2/sandboxes/ID/connect", `{"memory":false}`, 200, 300},
		{"/v2/sandboxes/ID/connect", `{"x":1}`, 400, 300},
		{"/sandboxes/ID/refreshes", ``, 204, 300},
		{"/sandboxes/ID/refreshes", `{"duration":400}`, 204, 400},
		{"/sandboxes/ID/refreshes", `{"duration":3601}`, 400, 400},
		{"/sandboxes/ID/timeout", `{"timeout":10}`, 204, 10},
		{"/sandboxes/ID/refreshes", `{"duration":1}`, 204, 15},
	} {
		r := w.call(http.MethodPost, strings.Replace(tc.path, "ID", id, 1), tc.body)
		if left := w.control.sandboxes[0].ExpiresAt.Unix() - epoch.Unix(); r.StatusCode != tc.status || left != tc.left {
			t.Errorf("%s %s: %d %s, %d s left, want %d", tc.path, tc.body, r.StatusCode, r.body, left, tc.left)
		}
	}
	got := decoded[openedSandbox](w, w.call(http.MethodPost, "/v2/sandboxes/"+id+"/connect", ``), 200)
	if got.EnvdAccessToken != "token-of-"+id || got.Domain != domain {
		t.Errorf("connect: %+v", got)
	}
	for _, status := range []int{204, 404} {
		if r := w.call(http.MethodPost, "/sandboxes/"+id+"/timeout", `{"timeout":-5}`); r.StatusCode != status {
			t.Errorf("no time left: %d %s, want %d", r.StatusCode, r.body, status)
		}
	}
	for _, path := range []string{"/sandboxes/ID/connect", "/sandboxes/ID/refreshes"} {
		if r := w.call(http.MethodPost, strings.Replace(path, "ID", id, 1), `{"timeout":1}`); r.StatusCode != 404 && path != "/sandboxes/ID/refreshes" {
			t.Errorf("%s of a dead one: %d", path, r.StatusCode)
		}
	}
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, domain)
		id := w.create(`{"templateID":"base"}`).SandboxID
		got := decoded[[]metricBody](w, w.call(http.MethodGet, "/sandboxes/"+id+"/metrics", ""), 200)
		if len(got) != 1 || got[0].CPUUsedPct < 79.9 || got[0].CPUUsedPct > 80.1 || got[0].MemUsed != 100 || got[0].DiskUsed != 0 || got[0].CPUCount != 2 {
			t.Errorf("%+v", got) // 0.3 s in 0.25 s on 1.5 cores
		}
		for query, n := range map[string]int{"start=1&end=2": 0, "start=1": 1, "end=99999999999": 1, "start=99999999999": 0} {
			if got := decoded[[]metricBody](w, w.call(http.MethodGet, "/sandboxes/"+id+"/metrics?"+query, ""), 200); len(got) != n {
				t.Errorf("%s: %d samples, want %d", query, len(got), n)
			}
		}
		if r := w.call(http.MethodGet, "/sandboxes/"+id+"/metrics?start=x", ""); r.StatusCode != 400 {
			t.Errorf("%d", r.StatusCode)
		}
	})
}

func TestTemplates(t *testing.T) {
	w := newWorld(t, domain)
	for _, path := range []string{"/templates", "/v2/templates?teamID=acme&limit=10"} {
		got := decoded[[]templateBody](w, w.call(http.MethodGet, path, ""), 200)
		if len(got) != 2 || got[0].BuildCount != 2 || got[0].TemplateID != "t000000000000000000001" || !got[0].IsDefault || got[0].BuildStatus != "ready" ||
			got[1].IsDefault || got[1].Public || got[1].BuildStatus != "building" {
			t.Errorf("%s: %+v", path, got)
		}
		if d := cmp.Diff([]string{"base", "code-interpreter-v1"}, got[0].Names); d != "" {
			t.Error(d)
		}
	}
	for _, ref := range []string{"base", "base:default", "code-interpreter-v1", "t000000000000000000000"} {
		got := decoded[struct {
			templateBody
			Builds []buildBody `json:"builds"`
		}](w, w.call(http.MethodGet, "/templates/"+ref, ""), 200)
		if len(got.Builds) != 2 || got.Builds[1].Status != "error" || got.Builds[1].FinishedAt != "" {
			t.Errorf("%s: %+v", ref, got)
		}
	}
	alias := w.call(http.MethodGet, "/templates/aliases/code-interpreter-v1", "")
	if want := `{"templateID":"t000000000000000000001","public":true}`; alias.StatusCode != 200 || alias.body != want {
		t.Errorf("%d %s", alias.StatusCode, alias.body)
	}
	for path, status := range map[string]int{
		"/templates/none": 404, "/templates/a%2Fb": 404, "/templates/aliases/none": 404, "/templates?teamID=other": 403, "/templates?x=1": 400, "/v2/templates?nextToken=x": 400, "/v2/templates?limit=0": 400,
		"/templates?limit=1": 400, "/templates/base?nextToken=-1": 400,
	} {
		if r := w.call(http.MethodGet, path, ""); r.StatusCode != status {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
}

// TestTemplatePages: a page has as many as were asked for, and says where the next begins.
func TestGrouped(t *testing.T) {
	var groups [][]core.Template
	for _, tmpl := range []core.Template{
		{Tenant: core.SystemTenant, Name: "base", Version: 3},
		{Tenant: "acme", Name: "base", Version: 2},
		{Tenant: core.SystemTenant, Name: "base", Version: 2},
		{Tenant: "acme", Name: "base", Version: 1},
		{Tenant: core.SystemTenant, Name: "base", Version: 1},
		{Tenant: "acme", Name: "mine", Version: 1},
	} {
		groups = grouped(groups, tmpl)
	}
	var sizes []int
	for _, g := range groups {
		sizes = append(sizes, len(g))
	}
	if d := cmp.Diff([]int{3, 2, 1}, sizes); d != "" {
		t.Error(d)
	}
}

func TestTemplatePages(t *testing.T) {
	w := newWorld(t, domain)
	first := w.call(http.MethodGet, "/v2/templates?limit=1", "")
	token := first.Header.Get("X-Next-Token")
	if got := decoded[[]templateBody](w, first, 200); len(got) != 1 || got[0].Names[0] != "base" || token == "" {
		t.Errorf("%+v, then %q", got, token)
	}
	last := w.call(http.MethodGet, "/v2/templates?limit=1&nextToken="+token, "")
	if got := decoded[[]templateBody](w, last, 200); len(got) != 1 || got[0].Names[0] != "mine" || last.Header.Get("X-Next-Token") != "" {
		t.Errorf("%+v, then %q", got, last.Header.Get("X-Next-Token"))
	}
	var one struct {
		templateBody
		Builds []buildBody `json:"builds"`
	}
	builds := w.call(http.MethodGet, "/templates/base?limit=1", "")
	if one = decoded[struct {
		templateBody
		Builds []buildBody `json:"builds"`
	}](w, builds, 200); len(one.Builds) != 1 || one.BuildCount != 2 || builds.Header.Get("X-Next-Token") != "1" {
		t.Errorf("%+v, then %q", one, builds.Header.Get("X-Next-Token"))
	}
}

// TestCurrentTemplate: the id that stands for a name is one that a sandbox can be created from, if there is any.
func TestCurrentTemplate(t *testing.T) {
	failed, ready, old := core.Template{ID: "t3", State: core.TemplateFailed}, core.Template{ID: "t2", State: core.TemplateReady}, core.Template{ID: "t1", State: core.TemplateReady}
	if got := current([]core.Template{failed, ready, old}); got.ID != "t2" {
		t.Errorf("after a build that failed: %s", got.ID)
	}
	if got := current([]core.Template{failed}); got.ID != "t3" {
		t.Errorf("of none that is ready: %s", got.ID)
	}
}

// TestQueriesAreRead: what a query asks for is done or refused, never passed over.
func TestQueriesAreRead(t *testing.T) {
	w := newWorld(t, domain)
	id := w.create(`{"templateID":"base"}`).SandboxID
	for _, call := range []string{
		"GET /v2/sandboxes?state=%zz", "GET /v2/sandboxes?state=running;limit=1", "GET /v2/sandboxes?limit=1&limit=2", "GET /sandboxes?state=running",
		"GET /sandboxes/" + id + "?x=1", "POST /v2/sandboxes?timeout=5", "POST /sandboxes/" + id + "/timeout?timeout=5", "GET /sandboxes/" + id + "/metrics?step=1",
		"GET /templates/aliases/base?x=1", "DELETE /sandboxes/" + id + "?force=true",
	} {
		method, path, _ := strings.Cut(call, " ")
		if r := w.call(method, path, `{"templateID":"base","timeout":5}`); r.StatusCode != 400 {
			t.Errorf("%s: %d %s", call, r.StatusCode, r.body)
		}
	}
	if r := w.call(http.MethodGet, "/v2/sandboxes?state=running&state=paused", ""); r.StatusCode != 200 {
		t.Errorf("two states: %d %s", r.StatusCode, r.body)
	}
}

// TestServerEnds: a call that the server's own end cuts short may have been carried out, and is not the caller's fault.
func TestServerEnds(t *testing.T) {
	w := newWorld(t, domain)
	w.control.fail["CreateSandbox"] = core.Errorf(core.CodeCanceled, "the call was canceled")
	w.stop()
	r := w.call(http.MethodPost, "/v2/sandboxes", `{"templateID":"base"}`)
	if r.StatusCode != 503 || r.Header.Get("Should-Retry") != "false" || !strings.Contains(r.body, "shutting down") {
		t.Errorf("%d %v %s", r.StatusCode, r.Header, r.body)
	}
}

// TestLater: what isn't there is refused with words, after whatever is wrong with the request anyway.
func TestLater(t *testing.T) {
	w := newWorld(t, domain)
	id := w.create(`{"templateID":"base"}`).SandboxID
	for pattern, l := range later {
		method, path, ok := strings.Cut(pattern, " ")
		if !ok {
			method, path = http.MethodGet, pattern
		}
		if strings.HasSuffix(path, "/") {
			path += "x/builds"
		}
		path = strings.NewReplacer("{id}", id, "{volume}", "v", "{secret}", "s", "{team}", "t").Replace(path)
		r := w.call(method, path, "")
		if r.StatusCode != 501 || !strings.Contains(r.body, strings.ReplaceAll(l.words[:12], "`", "")) || r.Header.Get("Should-Retry") != "false" {
			t.Errorf("%s: %d %s", pattern, r.StatusCode, r.body)
		}
		if l.inSandbox {
			if r := w.call(method, strings.Replace(path, id, "s00000000000000000none", 1), ""); r.StatusCode != 404 {
				t.Errorf("%s of no sandbox: %d %s", pattern, r.StatusCode, r.body)
			}
		}
		anonymous := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, http.NoBody)
		if r := w.send(anonymous); r.StatusCode != 401 {
			t.Errorf("%s without a key: %d", pattern, r.StatusCode)
		}
	}
	if r := w.call(http.MethodGet, "/templates/base/tags", ""); r.StatusCode != 501 {
		t.Errorf("tags: %d %s", r.StatusCode, r.body)
	}
	for _, path := range []string{"/", "/nothing", "//sandboxes", "/sandboxes/", "/sandboxes/../sandboxes", "/v2/sandboxes/x"} {
		if r := w.call(http.MethodPut, path, ""); r.StatusCode != 404 {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
}
