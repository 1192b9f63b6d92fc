package harness

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The login that a Registry takes.
const (
	RegistryUser     = "ci"
	RegistryPassword = "hunter2-and-more"
)

// Registry is a registry of images on loopback, without TLS, that lets in who has its login.
type Registry struct {
	// Host is its HOST:PORT.
	Host  string
	inner http.Handler
	token string
	mu    sync.Mutex
	calls int
}

// StartRegistry starts a registry. With tokens it has a token service that takes the login, and takes only its tokens itself.
func StartRegistry(tb testing.TB, tokens bool) *Registry {
	tb.Helper()
	r := &Registry{inner: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	if tokens {
		r.token = "a-token-of-its-own"
	}
	server := httptest.NewServer(r)
	tb.Cleanup(server.Close)
	r.Host = server.Listener.Addr().String()
	return r
}

// ServeHTTP answers a registry's call.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	user, password, _ := req.BasicAuth()
	known := user == RegistryUser && password == RegistryPassword
	switch {
	case r.token == "" && known, r.token != "" && req.Header.Get("Authorization") == "Bearer "+r.token:
		r.mu.Lock()
		r.calls++
		r.mu.Unlock()
		r.inner.ServeHTTP(w, req)
		return
	case r.token != "" && req.URL.Path == "/token" && known:
		_, _ = fmt.Fprintf(w, `{"token":%q}`, r.token)
		return
	case r.token != "":
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="test"`, r.Host))
	default:
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
	}
	w.WriteHeader(http.StatusUnauthorized)
}

// Calls is how many calls it has let in.
func (r *Registry) Calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

// Environment is what a server needs in its environment to import from registries on loopback.
func (r *Registry) Environment() []string {
	return []string{"SHOAL_OUTBOUND_ALLOW=127.0.0.0/8", "SHOAL_TEMPLATES_HTTP_REGISTRIES=127.0.0.1"}
}

// Push puts the tiny image with some layers of random bytes on top into a repository, and returns its reference.
func (r *Registry) Push(tb testing.TB, repo string, layers ...int64) string {
	tb.Helper()
	img, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(TinyImage(tb))), nil }, nil)
	for _, size := range layers {
		if err != nil {
			break
		}
		layer, lerr := random.Layer(size, types.DockerLayer)
		if err = lerr; err == nil {
			img, err = mutate.AppendLayers(img, layer)
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	ref, err := name.ParseReference(r.Host+"/"+repo, name.Insecure)
	if err == nil {
		err = remote.Write(ref, img, remote.WithAuth(&authn.Basic{Username: RegistryUser, Password: RegistryPassword}))
	}
	if err != nil {
		tb.Fatal(err)
	}
	return r.Host + "/" + repo
}
