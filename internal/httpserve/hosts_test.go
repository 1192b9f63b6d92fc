package httpserve_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"shoal/internal/httpserve"
)

// named answers with its name.
func named(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Served-By", name) })
}

func servedBy(t *testing.T, domain, host string) string {
	t.Helper()
	h := httpserve.ByHost{Domain: domain, Other: named("api"), Below: map[string]http.Handler{"e2b": named("e2b"), "panda": named("panda")}}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Header().Get("Served-By")
}

func TestByHost(t *testing.T) {
	for host, want := range map[string]string{
		"api.e2b.shoal.test": "e2b", "49983-iabc.e2b.shoal.test:8443": "e2b", "API.E2B.Shoal.Test.": "e2b", "a.b.e2b.shoal.test": "e2b",
		"api.panda.shoal.test": "panda", "x.panda.shoal.test:1": "panda",
		"shoal.test": "api", "api.shoal.test:8443": "api", "e2b.shoal.test": "api", "x.other.shoal.test": "api", "10.0.0.1": "api",
		"[::1]:8443": "api", "api.e2b.evil.test": "api", "api.e2b.shoal.test.evil": "api", "api.e2bshoal.test": "api",
		".e2b.shoal.test": "api", "": "api", "..": "api", "localhost": "api",
	} {
		if got := servedBy(t, "shoal.test", host); got != want {
			t.Errorf("%q: %s, want %s", host, got, want)
		}
	}
	for _, host := range []string{"api.e2b.", "x.e2b", "api.e2b.shoal.test", "."} {
		if got := servedBy(t, "", host); got != "api" {
			t.Errorf("without a domain %q: %s", host, got)
		}
	}
}

func TestIsLocal(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8701": true, "LOCALHOST.": true, "1-a.e2b.localhost:8701": true, "127.0.0.1:1": true, "[::1]:1": true, "::1": true,
		"127.8.9.1": true, "shoal.test": true, "1-a.e2b.shoal.test:8701": true, "Proxy.Test": true,
		"evil.test": false, "notlocalhost": false, "localhost.evil.test": false, "xshoal.test": false, "10.0.0.1": false, "": false, "0.0.0.0": false,
		"[::ffff:10.0.0.1]:1": false, "127.0.0.1.evil.test": false,
	} {
		if got := httpserve.IsLocal(host, []string{"shoal.test", "proxy.test", ""}); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

// FuzzByHost: whatever a client names, only a name below a vendor's label reaches that vendor's protocol.
func FuzzByHost(f *testing.F) {
	for _, s := range []string{"api.e2b.shoal.test", "[::1]:8443", "x.e2b.shoal.test:", "]:e2b", "\x00.e2b.shoal.test", "É.e2b.shoal.test."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name := httpserve.HostName(host)
		want := "api"
		for _, vendor := range []string{"e2b", "panda"} {
			if rest, ok := strings.CutSuffix(name, "."+vendor+".shoal.test"); ok && rest != "" {
				want = vendor
			}
		}
		if got := servedBy(t, "shoal.test", host); got != want {
			t.Errorf("%q: %s, want %s", host, got, want)
		}
		if httpserve.IsLocal(host, nil) && strings.HasSuffix(name, ".test") {
			t.Errorf("%q is taken for this machine's", host)
		}
	})
}
