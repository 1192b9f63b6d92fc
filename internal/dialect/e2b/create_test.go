package e2b

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
)

func TestCreate(t *testing.T) {
	w := newWorld(t, domain+":8443")
	for _, tc := range []struct {
		path, body string
		want       core.SandboxSpec
	}{
		{"/sandboxes", `{"templateID":"base"}`, core.SandboxSpec{TTL: 15 * time.Second}},
		{"/v2/sandboxes", `{"templateID":"base"}`, core.SandboxSpec{TTL: 300 * time.Second}},
		{"/v2/sandboxes", `{"templateID":"base:default","timeout":86400}`, core.SandboxSpec{TTL: 24 * time.Hour}},
		{
			"/sandboxes",
			`{"templateID":"code-interpreter-v1","timeout":60,"secure":false,"allow_internet_access":true,"metadata":{"a b":"c&d"},"envVars":{"A":"b"},
			"autoPause":false,"autoPauseMemory":true,"autoResume":{"enabled":false},"network":{"denyOut":["0.0.0.0/0","1.1.1.1"],"allowPublicTraffic":true,"egressProxy":null},
			"iam":{"tokens":{}},"mcp":null,"volumeMounts":[]}`,
			core.SandboxSpec{TTL: time.Minute, Labels: map[string]string{"a b": "c&d"}, Env: map[string]string{"A": "b"}},
		},
	} {
		got := decoded[openedSandbox](w, w.call(http.MethodPost, tc.path, tc.body), http.StatusCreated)
		want := openedSandbox{
			SandboxID: got.SandboxID, TemplateID: "t000000000000000000001", ClientID: "node1", Alias: "base", EnvdVersion: "0.6.4",
			EnvdAccessToken: "token-of-" + got.SandboxID, Domain: "e2b.test:8443",
		}
		if d := cmp.Diff(want, got); d != "" || got.SandboxID == "" {
			t.Errorf("%s: %s", tc.body, d)
		}
		tc.want.Template = "base"
		if d := cmp.Diff(tc.want, w.control.specs[len(w.control.specs)-1]); d != "" {
			t.Errorf("%s: %s", tc.body, d)
		}
	}
	if got := newWorld(t, "").create(`{"templateID":"base"}`).Domain; !strings.HasSuffix(got, ".invalid") {
		t.Errorf("without a domain clients get %q: they must not go to their vendor's", got)
	}
}

func TestCreateRefuses(t *testing.T) {
	w := newWorld(t, domain)
	for _, tc := range []struct {
		fields string
		status int
		words  string
	}{
		{`"x":1`, 400, `unknown field "x"`},
		{`"Timeout":1`, 400, `unknown field "Timeout"`},
		{`"network":{"x":1}`, 400, `"network.x"`},
		{`"timeout":0`, 400, "Timeout must be greater than 0"},
		{`"timeout":-9223372036854775808`, 400, "Timeout must be greater than 0"},
		{`"timeout":86401`, 400, "Timeout cannot be greater than 24 hours"},
		{`"timeout":9223372036854775807`, 400, "Timeout cannot be greater than 24 hours"},
		{`"timeout":"60"`, 400, "timeout"},
		{`"metadata":{"a":1}`, 400, "metadata.a"},
		{`"metadata":{"a":null}`, 400, "metadata.a"},
		{`"autoPause":true`, 501, "pause"},
		{`"autoPauseMemory":false`, 400, "autoPause"},
		{`"autoResume":{"enabled":true}`, 501, "autoResume"},
		{`"iam":{"tokens":{"a":{"audience":"x"}}}`, 501, "iam"},
		{`"mcp":{}`, 501, "mcp"},
		{`"volumeMounts":[{"name":"a","path":"/b"}]`, 501, "volumeMounts"},
		{`"network":{"allowOut":["x.org"]}`, 501, "network.allowOut"},
		{`"network":{"denyOut":["x.org"]}`, 400, "network.denyOut"},
		{`"network":{"rules":{"x":[]}}`, 501, "network.rules"},
		{`"network":{"egressProxy":{"address":"x:1"}}`, 501, "network.egressProxy"},
		{`"network":{"dnsServers":["1.1.1.1"]}`, 501, "network.dnsServers"},
		{`"network":{"allowPublicTraffic":false}`, 501, "network.allowPublicTraffic"},
		{`"network":{"maskRequestHost":"x"}`, 501, "network.maskRequestHost"},
		{`"network":{"httpsPorts":[8443]}`, 501, "network.httpsPorts"},
		{`"templateID":"base"`, 400, "templateID"},
	} {
		r := w.call(http.MethodPost, "/v2/sandboxes", `{"templateID":"base",`+tc.fields+`}`)
		if r.StatusCode != tc.status || !strings.Contains(strings.ReplaceAll(r.body, `\"`, `"`), tc.words) {
			t.Errorf("%s: %d %s", tc.fields, r.StatusCode, r.body)
		}
		if r.StatusCode == 501 && r.Header.Get("Should-Retry") != "false" {
			t.Errorf("%s: it may be tried again", tc.fields)
		}
	}
	for body, status := range map[string]int{``: 400, `{}`: 400, `[]`: 400, `{`: 400, `{"templateID":"other"}`: 404, `{"templateID":"base:v2"}`: 404} {
		if r := w.call(http.MethodPost, "/sandboxes", body); r.StatusCode != status {
			t.Errorf("%q: %d %s", body, r.StatusCode, r.body)
		}
	}
	if r := w.call(http.MethodPost, "/sandboxes", `{"templateID":"`+strings.Repeat("a", maxBody)+`"}`); r.StatusCode != 413 {
		t.Errorf("a huge body: %d %s", r.StatusCode, r.body)
	}
	keyed := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v2/sandboxes", strings.NewReader(`{"templateID":"base"}`))
	keyed.Header.Set("X-API-Key", goodKey)
	keyed.Header.Set("Idempotency-Key", "a")
	if r := w.send(keyed); r.StatusCode != 501 || !strings.Contains(r.body, "idempotency") {
		t.Errorf("an idempotency key: %d %s", r.StatusCode, r.body)
	}
	if len(w.control.sandboxes) != 0 {
		t.Errorf("%d sandboxes were made", len(w.control.sandboxes))
	}
}

// TestCreateAgain: clients repeat a create only if nothing can have come of it.
func TestCreateAgain(t *testing.T) {
	for _, tc := range []struct {
		err           error
		status        int
		again, after  string
		code, message string
	}{
		{&core.Error{Code: core.CodeExhausted, Message: "no room", RetryAfter: 1500 * time.Millisecond}, 503, "true", "2", "sandbox_capacity_unavailable", "no room"},
		{&core.Error{Code: core.CodeUnavailable, Field: "template", Message: "template base is still being built: 5 %", RetryAfter: time.Second}, 503, "true", "1", "", "still being built"},
		{&core.Error{Code: core.CodeQuota, Message: "too many", RetryAfter: time.Second}, 429, "true", "1", "", "too many"},
		{core.Errorf(core.CodeUnavailable, "its guest agent did not answer"), 503, "false", "", "", "guest agent"},
		{core.Errorf(core.CodeTimeout, "it took too long"), 504, "false", "", "", "too long"},
		{errSecret, 500, "false", "", "", "request id"},
		{core.Invalid("labels", "too many labels"), 400, "", "", "", "metadata: too many labels"},
		{&core.Error{Code: core.CodeNotFound, Field: "template", Message: "there is no template x"}, 404, "", "", "", "no template x: `e2b template list` shows"},
		{core.Errorf(core.CodeDenied, "no"), 403, "", "", "", "no"},
		{core.Errorf(core.CodeCanceled, "deleted meanwhile"), 409, "", "", "", "deleted"},
	} {
		w := newWorld(t, domain)
		w.control.fail["CreateSandbox"] = tc.err
		r := w.call(http.MethodPost, "/v2/sandboxes", `{"templateID":"base"}`)
		if r.StatusCode != tc.status || r.Header.Get("Should-Retry") != tc.again || r.Header.Get("Retry-After") != tc.after {
			t.Errorf("%v: %d %v", tc.err, r.StatusCode, r.Header)
		}
		if !strings.Contains(r.body, tc.message) || !strings.Contains(r.body, tc.code) || strings.Contains(r.body, "secret") {
			t.Errorf("%v: %s", tc.err, r.body)
		}
	}
}
