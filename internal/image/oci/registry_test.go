package oci

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"shoal/internal/core"
	"shoal/internal/outbound"
)

const (
	user     = "alice"
	password = "correct horse"
)

var basic = "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))

// recorder is a server that keeps what it was asked.
type recorder struct {
	*httptest.Server
	host string
	mu   sync.Mutex
	seen []string
}

func newRecorder(tb testing.TB, answer http.HandlerFunc) *recorder {
	tb.Helper()
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.seen = append(r.seen, req.Header.Get("Authorization")+" "+req.URL.String()+" "+string(body))
		r.mu.Unlock()
		answer(w, req)
	}))
	tb.Cleanup(r.Close)
	r.host = r.Listener.Addr().String()
	return r
}

func (r *recorder) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.seen, "\n")
}

// withLogin adds the caller's credentials.
func withLogin(cfg Config) Config {
	cfg.Source.Username, cfg.Source.Password = user, password
	return cfg
}

// TestBasicLogin: the credentials of the call are used, and no others; without them, or with wrong ones, the registry's refusal is told.
func TestBasicLogin(t *testing.T) {
	home := t.TempDir()
	config := filepath.Join(home, ".docker")
	h := newHub(t)
	ref := h.push(t, "private:v1", sample(t))
	if err := os.Mkdir(config, 0o700); err != nil {
		t.Fatal(err)
	}
	login := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, h.host, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	if err := os.WriteFile(filepath.Join(config, "config.json"), []byte(login), 0o600); err != nil {
		t.Fatal(err)
	}
	// The operator's own login, which would do.
	t.Setenv("HOME", home)
	t.Setenv("DOCKER_CONFIG", config)
	t.Setenv("DOCKER_AUTH_CONFIG", login)
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == basic {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	wantError(t, h.configFor(t, ref), core.CodeDenied, "refuses access")
	wrong := withLogin(h.configFor(t, ref))
	wrong.Source.Password = "wrong"
	wantError(t, wrong, core.CodeDenied, "with the login that it got: user name or password is wrong")
	cfg := withLogin(h.configFor(t, ref))
	checkSample(t, cfg, mustImport(t, cfg))
	half := h.configFor(t, ref)
	half.Source.Username = user
	wantError(t, half, core.CodeInvalid, "no password")
}

// TestKeptLogin: the login that is kept for the registry is asked for by its host, once, and used unless the import brings one.
func TestKeptLogin(t *testing.T) {
	h := newHub(t)
	ref := h.push(t, "private:v1", sample(t))
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == basic {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	var asked []string
	kept := func(_ context.Context, host string) (string, core.Secret, error) {
		asked = append(asked, host)
		if host != h.host {
			return "", "", nil
		}
		return user, password, nil
	}
	cfg := h.configFor(t, ref)
	cfg.Source.Login = kept
	checkSample(t, cfg, mustImport(t, cfg))
	if len(asked) != 1 || asked[0] != h.host {
		t.Errorf("asked for %q", asked)
	}
	own := h.configFor(t, ref)
	own.Source.Login, own.Source.Username, own.Source.Password = kept, user, "wrong"
	wantError(t, own, core.CodeDenied, "refuses access")
	if len(asked) != 1 {
		t.Errorf("asked for %q though the import has its own", asked)
	}
	hub := newConfig(t)
	hub.Source.Ref = "alpine"
	hub.Source.Login = func(_ context.Context, host string) (string, core.Secret, error) {
		asked = append(asked, host)
		return "", "", core.Errorf(core.CodeDataLoss, "no key")
	}
	wantError(t, hub, core.CodeDataLoss, "no key")
	if asked[1] != core.DockerHub {
		t.Errorf("asked for %q", asked)
	}
}

// TestTokenLogin: a token service of the registry's own host gets the login and its token opens the registry; a token that the caller has
// is used as it is.
func TestTokenLogin(t *testing.T) {
	h := newHub(t)
	ref := h.push(t, "private:v1", sample(t))
	tokens := newRecorder(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != basic {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"token":"the-token"}`)
	})
	// A registry may only name a literal private address if it is its own: so it names it by name.
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer the-token" {
			return false
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://tokens.hub.test:%s/token",service="s"`, portOf(tokens.host)))
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	byName := func(cfg Config) Config {
		cfg.Source.Ref = strings.Replace(ref, "127.0.0.1", "hub.test", 1)
		cfg.PlainHTTP = []string{"hub.test", "tokens.hub.test"}
		cfg.Guard = outbound.New(outbound.Config{
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Resolver: loopbackNames{"hub.test", "tokens.hub.test", "elsewhere.test"},
		})
		return cfg
	}
	cfg := withLogin(byName(h.configFor(t, ref)))
	checkSample(t, cfg, mustImport(t, cfg))
	if !strings.Contains(tokens.all(), "scope=repository%3Aprivate%3Apull") {
		t.Errorf("asked for %s", tokens.all())
	}
	wantError(t, byName(h.configFor(t, ref)), core.CodeDenied, "refuses access")
	cfg = byName(h.configFor(t, ref))
	cfg.Source.Password = "the-token"
	checkSample(t, cfg, mustImport(t, cfg))
}

func portOf(host string) string { return host[strings.LastIndex(host, ":")+1:] }

// TestLoginStaysAtHome: whatever a registry says, the caller's credentials reach no other host.
func TestLoginStaysAtHome(t *testing.T) {
	needRoot(t)
	img := sample(t)
	thief := newRecorder(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"token":"x"}`) })
	elsewhere := "http://elsewhere.test:" + portOf(thief.host)
	challenge := func(realm string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="s"`, realm))
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
	}
	for name, before := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"realm elsewhere": challenge(elsewhere + "/token"),
		"realm that redirects": func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/token" {
				http.Redirect(w, r, elsewhere+"/token", http.StatusTemporaryRedirect)
				return true
			}
			return challenge("http://"+r.Host+"/token")(w, r)
		},
		"everything redirects": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		},
		"blobs redirect after a login": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Authorization") != basic {
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
			if strings.Contains(r.URL.Path, "/blobs/") {
				http.Redirect(w, r, elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
				return true
			}
			return false
		},
		"blobs redirect to another port": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Authorization") != basic {
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
			http.Redirect(w, r, "http://hub.test:"+portOf(thief.host)+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			ref := h.push(t, "private:v1", img)
			h.before = before
			for _, tokenOnly := range []bool{false, true} {
				cfg := withLogin(h.configFor(t, ref))
				if tokenOnly {
					cfg.Source.Username = ""
				}
				cfg.Source.Ref = strings.Replace(ref, "127.0.0.1", "hub.test", 1)
				cfg.PlainHTTP = []string{"hub.test", "elsewhere.test"}
				cfg.Guard = outbound.New(outbound.Config{
					Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Resolver: loopbackNames{"hub.test", "elsewhere.test"},
				})
				if _, err := Import(t.Context(), cfg); err == nil {
					t.Error("the import went through")
				}
			}
			if all := thief.all(); strings.Contains(all, basic) || strings.Contains(all, password) || strings.Contains(all, strings.ReplaceAll(password, " ", "+")) {
				t.Errorf("the credentials reached another host:\n%s", all)
			}
		})
	}
	if thief.all() == "" {
		t.Error("nothing ever reached the other host, so the test shows nothing")
	}
}

// TestBlobsElsewhere: layers that a registry keeps at another host are fetched there, without credentials, and checked.
func TestBlobsElsewhere(t *testing.T) {
	h := newHub(t)
	ref := h.push(t, "app:v1", sample(t))
	inner := h.Config.Handler
	storage := newRecorder(t, func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("From-Storage", "yes")
		inner.ServeHTTP(w, r)
	})
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("From-Storage") == "" && strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(w, r, storage.URL+r.URL.Path, http.StatusFound)
			return true
		}
		return false
	}
	cfg := withLogin(h.configFor(t, ref))
	cfg.PlainHTTP = append(cfg.PlainHTTP, storage.host)
	checkSample(t, cfg, mustImport(t, cfg))
	if n := strings.Count(storage.all(), "/blobs/"); n != 4 || strings.Contains(storage.all(), "Basic") {
		t.Errorf("the storage was asked %d times:\n%s", n, storage.all())
	}
}

// TestForbiddenPlaces: what the guard forbids is not reached by any way that a registry has to send us there.
func TestForbiddenPlaces(t *testing.T) {
	h := newHub(t)
	ref := h.push(t, "app:v1", sample(t))
	inside := newRecorder(t, func(http.ResponseWriter, *http.Request) {})
	guarded := func(cfg Config) Config {
		cfg.Guard = outbound.New(outbound.Config{
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Resolver: loopbackNames{"inside.test"},
			Own: func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort(inside.host)} },
		})
		cfg.PlainHTTP = append(cfg.PlainHTTP, "inside.test", inside.host, "169.254.169.254", "10.0.0.1")
		return cfg
	}
	for _, target := range []string{"http://inside.test:" + portOf(inside.host), inside.URL, "http://169.254.169.254", "http://10.0.0.1", "https://[::ffff:169.254.169.254]"} {
		h.before = func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, target+r.URL.Path, http.StatusFound)
			return true
		}
		wantError(t, guarded(h.configFor(t, ref)), core.CodeDenied, "")
		h.before = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/blobs/") {
				http.Redirect(w, r, target+r.URL.Path, http.StatusFound)
				return true
			}
			return false
		}
		wantError(t, guarded(h.configFor(t, ref)), core.CodeDenied, "")
		h.before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token"`, target))
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		if _, err := Import(t.Context(), guarded(h.configFor(t, ref))); err == nil {
			t.Errorf("a token from %s was taken", target)
		}
	}
	if inside.all() != "" {
		t.Errorf("it was reached: %s", inside.all())
	}
	cfg := newConfig(t)
	cfg.Guard = outbound.New(outbound.Config{})
	for _, ref := range []string{"127.0.0.1:5000/x", "169.254.169.254/x/y", "[::1]:5000/x", "10.1.2.3/x/y"} {
		cfg.Source.Ref = ref
		wantError(t, cfg, core.CodeDenied, "")
	}
}

// TestPlainHTTP: without TLS only what the operator lists is spoken to, also where the library would try.
func TestPlainHTTP(t *testing.T) {
	h := newHub(t)
	ref := h.push(t, "app:v1", sample(t))
	cfg := h.configFor(t, ref)
	cfg.PlainHTTP = []string{"127.0.0.1:1", "registry.test"}
	wantError(t, cfg, core.CodeDenied, "templates.http_registries does not list it")
	cfg.PlainHTTP = []string{"127.0.0.1"}
	mustImport(t, cfg)
}

// TestUntrusted: a registry with a certificate of nobody's is not spoken to, and that is said.
func TestUntrusted(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.StartTLS()
	t.Cleanup(server.Close)
	cfg := newConfig(t)
	cfg.Source.Ref = strings.TrimPrefix(server.URL, "https://") + "/app:v1"
	wantError(t, cfg, core.CodeUnavailable, "its certificate is not one that this server trusts")
}

// TestBrokenDownloads: a connection that breaks is taken up where it broke, whether the registry knows ranges or not.
func TestBrokenDownloads(t *testing.T) {
	for _, ranges := range []bool{true, false} {
		t.Run(fmt.Sprintf("ranges %v", ranges), func(t *testing.T) {
			h := newHub(t)
			content := strings.Repeat("0123456789abcdef", 1<<17)
			l := plain(t, file("big", content))
			data := packed(t, file("big", content))
			ref := h.push(t, "app:v1", imageOf(t, v1.Config{}, l))
			path := "/v2/app/blobs/" + digestOf(t, l)
			var asked atomic.Int64
			h.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != path {
					return false
				}
				n, at := asked.Add(1), 0
				if from := r.Header.Get("Range"); from != "" && ranges {
					_, _ = fmt.Sscanf(from, "bytes=%d-", &at)
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, len(data)-1, len(data)))
				}
				w.Header().Set("Content-Length", fmt.Sprint(len(data)-at))
				if at > 0 {
					w.WriteHeader(http.StatusPartialContent)
				}
				end := len(data)
				if n < 3 {
					end = int(n) * len(data) / 3
				}
				_, _ = w.Write(data[at:end])
				if end < len(data) {
					panic(http.ErrAbortHandler)
				}
				return true
			}
			cfg := h.configFor(t, ref)
			mustImport(t, cfg)
			if got := readTree(t, cfg, "big"); got != content || asked.Load() != 3 {
				t.Errorf("%d bytes of %d, asked %d times", len(got), len(content), asked.Load())
			}
		})
	}
}

// TestRegistryFailures: what a registry answers, in words.
func TestRegistryFailures(t *testing.T) {
	h := newHub(t)
	img := sample(t)
	ref := h.push(t, "app:v1", img)
	wantError(t, h.configFor(t, h.host+"/app:v2"), core.CodeNotFound, "has no image")
	wantError(t, h.configFor(t, h.host+"/nothing"), core.CodeNotFound, "has no image")
	var failures atomic.Int64
	for _, tc := range []struct {
		name, words string
		code        core.Code
		times       int64
		answer      http.HandlerFunc
	}{
		{"is over soon", "", "", 2, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }},
		{"goes on", "error of its own (503)", core.CodeUnavailable, 1 << 30, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }},
		{"is forbidden", "refuses access", core.CodeDenied, 1 << 30, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }},
		{"is no registry", "", core.CodeUnsupported, 1 << 30, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }},
		{"is a large manifest", "more than 4 MiB", core.CodeInvalid, 1 << 30, func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		}},
		{"is an old manifest", "no container image that can be imported", core.CodeUnsupported, 1 << 30, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v1+json")
			_, _ = io.WriteString(w, "{}")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			failures.Store(0)
			h.before = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/manifests/") || failures.Add(1) > tc.times {
					return false
				}
				tc.answer(w, r)
				return true
			}
			if tc.code == "" {
				mustImport(t, h.configFor(t, ref))
				return
			}
			wantError(t, h.configFor(t, ref), tc.code, tc.words)
		})
	}
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			_, _ = w.Write(make([]byte, 1000))
			return true
		}
		return false
	}
	wantError(t, h.configFor(t, ref), core.CodeDataLoss, "not what its digest says")
}

func TestReferences(t *testing.T) {
	for text, want := range map[string]string{
		"alpine": "index.docker.io/library/alpine:latest", "team/app:1": "index.docker.io/team/app:1", "ghcr.io/o/app@sha256:" + strings.Repeat("a", 64): "ghcr.io/o/app@sha256:" + strings.Repeat("a", 64),
		"host.test:5000/app": "host.test:5000/app:latest",
	} {
		if ref, err := parseRef(text); err != nil || ref.Name() != want {
			t.Errorf("%s: %v, %v", text, ref, err)
		}
	}
	for _, text := range []string{"", "UPPER", "https://ghcr.io/o/app", "a b", "app@sha256:x", "../../x", "app:" + strings.Repeat("x", 600), "app\n"} {
		if ref, err := parseRef(text); !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("%q: %v, %v", text, ref, err)
		}
	}
}

// TestLoginPlaces: the registry and its owner's token service may have the login; where a redirect leads only the registry itself may.
func TestLoginPlaces(t *testing.T) {
	checked := &checkedTransport{registry: "registry.example.com:5000"}
	from := &http.Response{Request: &http.Request{}}
	for _, c := range []struct {
		url      string
		redirect *http.Response
		want     bool
	}{
		{"https://registry.example.com:5000/v2/", nil, true},
		{"https://Registry.example.com:5000/v2/", from, true},
		{"https://registry.example.com/jwt/auth", nil, true},
		{"https://auth.example.com/token", nil, true},
		{"https://example.org/token", nil, false},
		{"https://registry.example.com/v2/", from, false},
		{"https://auth.example.com/token", from, false},
		{"https://example.org/token", from, false},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Response = c.redirect
		if got := checked.mayHaveLogin(req); got != c.want {
			t.Errorf("%s, redirected %t: %t", c.url, c.redirect != nil, got)
		}
	}
}

func TestSameOwner(t *testing.T) {
	for pair, want := range map[string]bool{
		"index.docker.io auth.docker.io": true, "gitlab.com registry.gitlab.com": true, "ghcr.io GHCR.io.": true, "a.co.uk b.co.uk": false,
		"a.github.io b.github.io": false, "docker.io evil-docker.io": false, "127.0.0.1 127.0.0.1": true, "127.0.0.1 127.0.0.2": false,
		"localhost localhost": true, "localhost other": false, "10.0.0.1 1.0.0.1": false,
	} {
		a, b, _ := strings.Cut(pair, " ")
		if got := sameOwner(a, b); got != want || sameOwner(b, a) != want {
			t.Errorf("%s: %v", pair, got)
		}
	}
}
