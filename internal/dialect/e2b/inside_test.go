package e2b

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/dialect/e2b/envd"
)

// enter sends a request to a port of a sandbox, with a token unless it is empty.
func (w *world) enter(method, id, port, path, token string) reply {
	w.Helper()
	r := httptest.NewRequestWithContext(w.Context(), method, "http://127.0.0.1:8701"+path, http.NoBody)
	r.Header.Set(headerSandbox, id)
	r.Header.Set(headerPort, port)
	if token != "" {
		r.Header.Set(headerToken, token)
	}
	return w.send(r)
}

func TestInside(t *testing.T) {
	w := newWorld(t, domain)
	sb, other := w.create(`{"templateID":"base"}`), w.create(`{"templateID":"base"}`)
	dead := w.create(`{"templateID":"base"}`)
	failed := w.create(`{"templateID":"base"}`)
	w.call(http.MethodDelete, "/sandboxes/"+dead.SandboxID, "")
	w.control.sandboxes[3].State = core.StateFailed
	for _, tc := range []struct {
		name, method, id, port, path, token string
		status                              int
	}{
		{"health", "GET", sb.SandboxID, "49983", "/health", "", 204},
		{"health with a wrong token", "GET", sb.SandboxID, "49983", "/health", "x", 204},
		{"health, old id", "GET", sb.SandboxID + "-node1", "49983", "/health", "", 204},
		{"health of a dead one", "GET", dead.SandboxID, "49983", "/health", "", 502},
		{"health of a failed one", "GET", failed.SandboxID, "49983", "/health", "", 502},
		{"health of none", "GET", "nothing", "49983", "/health", "", 502},
		{"envs", "GET", sb.SandboxID, "49983", "/envs", sb.EnvdAccessToken, 200},
		{"envs without a token", "GET", sb.SandboxID, "49983", "/envs", "", 401},
		{"envs with a wrong token", "GET", sb.SandboxID, "49983", "/envs", "x", 401},
		{"envs with another's token", "GET", sb.SandboxID, "49983", "/envs", other.EnvdAccessToken, 401},
		{"envs with an API key", "GET", sb.SandboxID, "49983", "/envs", goodKey, 401},
		{"envs of a dead one", "GET", dead.SandboxID, "49983", "/envs", dead.EnvdAccessToken, 502},
		{"envs of a failed one", "GET", failed.SandboxID, "49983", "/envs", failed.EnvdAccessToken, 502},
		{"files without anything", "GET", sb.SandboxID, "49983", "/files?path=a", "", 401},
		{"init", "POST", sb.SandboxID, "49983", "/init", sb.EnvdAccessToken, 404},
		{"init without a token", "POST", sb.SandboxID, "49983", "/init", "", 404},
		{"a path that leads to it", "POST", sb.SandboxID, "49983", "/x/../init", sb.EnvdAccessToken, 404},
		{"two slashes", "POST", sb.SandboxID, "49983", "//init", sb.EnvdAccessToken, 404},
		{"another port", "GET", sb.SandboxID, "3000", "/", "", 501},
		{"the code interpreter", "GET", sb.SandboxID, "49999", "/", "", 501},
		{"another port of a dead one", "GET", dead.SandboxID, "3000", "/", "", 502},
	} {
		r := w.enter(tc.method, tc.id, tc.port, tc.path, tc.token)
		if r.StatusCode != tc.status {
			t.Errorf("%s: %d %s, want %d", tc.name, r.StatusCode, r.body, tc.status)
		}
		if r.StatusCode == 502 && !strings.Contains(r.body, `"message":"The sandbox was not found","code":502`) {
			t.Errorf("%s: %s", tc.name, r.body)
		}
		if words := "no code interpreter (run_code"; (tc.port == "49999") != strings.Contains(r.body, words) {
			t.Errorf("%s: %s", tc.name, r.body)
		}
		if r.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: no page may read it", tc.name)
		}
	}
}

// TestRefusedCalls: a client of the RPC services reads errors in the form of its protocol, but for one that has no sandbox.
func TestRefusedCalls(t *testing.T) {
	w := newWorld(t, domain)
	sb := w.create(`{"templateID":"base"}`)
	for _, tc := range []struct {
		kind, id, token string
		status          int
		words           string
	}{
		{"application/json", sb.SandboxID, "", 401, `{"code":"unauthenticated","message":"unauthorized access`},
		{"application/connect+json", sb.SandboxID, "", 200, `{"error":{"code":"unauthenticated","message":"unauthorized access`},
		{"application/connect+json", "s00000000000000000none", "", 502, `"message":"The sandbox was not found"`},
		{"application/json", "s00000000000000000none", "", 502, `"message":"The sandbox was not found"`},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://49983-"+tc.id+"."+domain+"/process.Process/Start", strings.NewReader("{}"))
		r.Header.Set("Content-Type", tc.kind)
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, r)
		if rec.Code != tc.status || !strings.Contains(rec.Body.String(), tc.words) {
			t.Errorf("%s: %d %s", tc.kind, rec.Code, rec.Body)
		}
	}
	ask := httptest.NewRequestWithContext(t.Context(), http.MethodOptions, "https://49983-"+sb.SandboxID+"."+domain+"/process.Process/Start", http.NoBody)
	ask.Header.Set("Access-Control-Request-Headers", "x-access-token,authorization")
	if r := w.send(ask); r.StatusCode != 204 || r.Header.Get("Access-Control-Allow-Headers") != "x-access-token,authorization" || r.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("preflight: %d %v", r.StatusCode, r.Header)
	}
}

func TestSignedFiles(t *testing.T) {
	w := newWorld(t, domain)
	sb, other := w.create(`{"templateID":"base"}`), w.create(`{"templateID":"base"}`)
	later, before := fmt.Sprint(time.Now().Unix()+60), fmt.Sprint(time.Now().Unix()-60)
	for _, tc := range []struct {
		name, method, token string
		signed              envd.Signed
		path                string
		status              int
		words               string
	}{
		{"read", "GET", sb.EnvdAccessToken, envd.Signed{Path: "a b.txt", Operation: "read"}, "/files", 200, "inside"},
		{"read for a time", "GET", sb.EnvdAccessToken, envd.Signed{Path: "a", Operation: "read", User: "root", Expiration: later}, "/files", 200, ""},
		{"write", "POST", sb.EnvdAccessToken, envd.Signed{Path: "a", Operation: "write"}, "/files", 200, ""},
		{"too late", "GET", sb.EnvdAccessToken, envd.Signed{Path: "a", Operation: "read", Expiration: before}, "/files", 401, "expired"},
		{"write what may be read", "POST", sb.EnvdAccessToken, envd.Signed{Path: "a", Operation: "read"}, "/files", 401, "invalid signature"},
		{"another's", "GET", other.EnvdAccessToken, envd.Signed{Path: "a", Operation: "read"}, "/files", 401, "invalid signature"},
		{"another path", "GET", sb.EnvdAccessToken, envd.Signed{Path: "a", Operation: "read"}, "/envs", 401, "access token"},
	} {
		q := url.Values{"path": {tc.signed.Path}, "signature": {tc.signed.Sign(tc.token)}}
		if tc.signed.User != "" {
			q.Set("username", tc.signed.User)
		}
		if tc.signed.Expiration != "" {
			q.Set("signature_expiration", tc.signed.Expiration)
		}
		r := httptest.NewRequestWithContext(t.Context(), tc.method, "https://49983-"+sb.SandboxID+"."+domain+tc.path+"?"+q.Encode(), http.NoBody)
		if got := w.send(r); got.StatusCode != tc.status || !strings.Contains(got.body, tc.words) {
			t.Errorf("%s: %d %s", tc.name, got.StatusCode, got.body)
		}
	}
	if r := w.call(http.MethodGet, "/files?path=a&signature=v1_x", ""); r.StatusCode != 400 || !strings.Contains(r.body, "E2B_DOMAIN") {
		t.Errorf("a URL that names no sandbox: %d %s", r.StatusCode, r.body)
	}
}

// TestTokensAreNotGuessed: an address that comes with wrong tokens too often is refused before anything is looked at.
func TestTokensAreNotGuessed(t *testing.T) {
	w := newWorld(t, domain)
	sb := w.create(`{"templateID":"base"}`)
	last := reply{}
	for i := range 400 {
		last = w.enter(http.MethodGet, sb.SandboxID, "49983", "/envs", fmt.Sprint("guess-", i))
	}
	if last.StatusCode != 429 || last.Header.Get("Retry-After") == "" {
		t.Errorf("after 400 wrong tokens: %d %s", last.StatusCode, last.body)
	}
	if r := w.enter(http.MethodGet, sb.SandboxID, "49983", "/health", ""); r.StatusCode != 204 {
		t.Errorf("health: %d", r.StatusCode)
	}
}
