package envd_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/internal/control"
	"shoal/internal/dialect/e2b/envd"
)

// accessToken is the sandbox's, as clients are told it.
const accessToken = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0"

// clientServer is the smallest server that the official clients take for theirs: one sandbox, whose inside is the handler.
func clientServer(t *testing.T, b *bench, around func(http.Handler) http.Handler) string {
	t.Helper()
	inside := envd.New(envd.Config{Control: b.fakeControl, Closing: context.Background()})
	mux := http.NewServeMux()
	info := map[string]any{
		"sandboxID": boxID, "templateID": "base", "clientID": "node", "envdVersion": envd.Version, "envdAccessToken": accessToken, "domain": "example.test",
	}
	create := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		if err := json.NewEncoder(w).Encode(info); err != nil {
			t.Errorf("create: %v", err)
		}
	}
	mux.HandleFunc("POST /sandboxes", create)
	mux.HandleFunc("POST /v2/sandboxes", create)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		signed, ok := envd.SignedOf(r.Method, r.URL.Query())
		good := r.Header.Get("X-Access-Token") == accessToken || r.URL.Path == "/health" ||
			ok && r.URL.Path == "/files" && envd.CheckSignature(signed, accessToken, time.Now()) == nil
		if !good {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		p := control.Principal{Tenant: "acme", Sandbox: boxID}
		inside.ServeHTTP(w, r.WithContext(envd.WithTarget(r.Context(), envd.Target{Principal: p, Sandbox: box(), Token: accessToken})))
	})
	var h http.Handler = mux
	if around != nil {
		h = around(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// clientsDir is where test/clients/install puts the clients, unless SHOAL_CLIENTS says another folder.
func clientsDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("SHOAL_CLIENTS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "build", "clients")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestClients runs the official clients, unmodified.
func TestClients(t *testing.T) {
	dir := clientsDir(t)
	for name, c := range map[string]struct {
		needs string
		argv  []string
	}{
		"javascript": {filepath.Join(dir, "node", "node_modules", "e2b"), []string{"node", "inside.mjs"}},
		"python":     {filepath.Join(dir, "python", "bin", "python"), []string{filepath.Join(dir, "python", "bin", "python"), "inside.py"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(c.needs); err != nil {
				t.Skipf("needs E2B's client, which test/clients/install DIR puts below DIR (build/clients, or SHOAL_CLIENTS): %v", err)
			}
			b := newBench(t)
			url := clientServer(t, b, recorder(t, name))
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
			cmd.Dir = filepath.Join("testdata", "clients")
			cmd.Env = append(os.Environ(), "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url, "E2B_API_KEY=e2b_"+strings.Repeat("0", 40),
				"CLIENT_ROOT="+filepath.Join(dir, "node"), "CLIENT_HOME="+b.home, "CLIENT_USER="+me())
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), "ok\n") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// recorder keeps what a client sent, if SHOAL_RECORD names a folder for it.
func recorder(t *testing.T, client string) func(http.Handler) http.Handler {
	t.Helper()
	dir := os.Getenv("SHOAL_RECORD")
	if dir == "" {
		return nil
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			record(t, filepath.Join(dir, client), r)
			next.ServeHTTP(w, r)
		})
	}
}
