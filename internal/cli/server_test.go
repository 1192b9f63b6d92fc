package cli

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeysStayWithTheirServer holds that a kept key is never sent to another address than the one it was kept for.
func TestKeysStayWithTheirServer(t *testing.T) {
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "shoal"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "shoal", "cli.json"), []byte(`{"url": "https://a.example:8700", "api_key": "kept"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, flag, url, key string
		wantURL, wantKey     string
	}{
		{name: "as kept", wantURL: "https://a.example:8700", wantKey: "kept"},
		{name: "the same, by flag", flag: "https://A.example:8700/", wantURL: "https://A.example:8700/", wantKey: "kept"},
		{name: "another host", flag: "https://b.example:8700", wantURL: "https://b.example:8700"},
		{name: "another port", url: "https://a.example:1", wantURL: "https://a.example:1"},
		{name: "not encrypted", url: "http://a.example:8700", wantURL: "http://a.example:8700"},
		{name: "a key of its own", url: "https://b.example", key: "given", wantURL: "https://b.example", wantKey: "given"},
		{name: "flag over variable", flag: "https://c.example", url: "https://b.example", wantURL: "https://c.example"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := map[string]string{"XDG_CONFIG_HOME": home, "SHOAL_URL": c.url, "SHOAL_API_KEY": c.key}
			a := &app{url: c.flag, getenv: func(k string) string { return env[k] }, defaultDir: t.TempDir()}
			s, err := a.server()
			if err != nil {
				t.Fatal(err)
			}
			if s.url != c.wantURL || s.key != c.wantKey {
				t.Errorf("%s with key %q, want %s with %q", s.url, s.key, c.wantURL, c.wantKey)
			}
		})
	}
}

// TestLocalKey holds that a data directory's key goes to the address in it only.
func TestLocalKey(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"url": "http://127.0.0.1:8701\n", "admin.key": "local\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for url, want := range map[string]string{
		"": "local", "http://127.0.0.1:8701": "local", "http://127.0.0.1:8700": "", "https://a.example": "",
	} {
		env := map[string]string{"SHOAL_URL": url}
		a := &app{getenv: func(k string) string { return env[k] }, defaultDir: dir}
		s, err := a.server()
		if err != nil || s.key != want {
			t.Errorf("SHOAL_URL=%s: key %q, %v, want %q", url, s.key, err, want)
		}
	}
}

func TestUntrustedCertificateIsExplained(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	a := &app{url: s.URL, getenv: func(string) string { return "" }, defaultDir: t.TempDir()}
	c, err := a.client()
	if err != nil {
		t.Fatal(err)
	}
	c.MaxRetries = -1
	_, err = c.Version(t.Context())
	if text := explain(err); !strings.Contains(text, "the certificate of the server at "+s.URL+" is not trusted here") || !strings.Contains(text, "--ca-file") {
		t.Errorf("says %q", text)
	}
}
