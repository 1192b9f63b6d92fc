package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shoal/internal/config"
	"shoal/internal/core"
	"shoal/internal/httpserve"
	"shoal/internal/pki"
)

// bound returns a server that has taken its addresses and nothing else.
func bound(t *testing.T, cfg *config.Config) *server {
	t.Helper()
	s := &server{cfg: cfg, log: slog.New(slog.DiscardHandler), dir: &dataDir{path: t.TempDir()}}
	t.Cleanup(s.close)
	if err := s.bind(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPortInUse: the error names the setting and what to do.
func TestPortInUse(t *testing.T) {
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s := &server{}
	defer s.close()
	for setting, want := range map[string]string{
		"listen": "choose another with --listen", "tls_listen": "choose another with --tls-listen",
		"e2b.listen": "choose another with --e2b-listen, or switch it off with --e2b-listen off",
	} {
		_, err := s.listen(t.Context(), setting, ln.Addr().String(), nil)
		if !core.IsCode(err, core.CodeUnavailable) || !strings.Contains(err.Error(), "the setting "+setting+":") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

// TestTLSListen serves two protocols by host name at one address, with a certificate of the own authority, over HTTP/2 and HTTP/1.1.
func TestTLSListen(t *testing.T) {
	s := bound(t, &config.Config{Listen: "127.0.0.1:0", TLSListen: "127.0.0.1:0", Domain: "shoal.test", E2B: config.Dialect{Listen: "off"}, Panda: config.Dialect{Listen: "off"}})
	if s.at.api.tls || s.at.encrypted() != s.at.tls || s.at.authority == nil {
		t.Fatalf("%+v", s.at)
	}
	echo := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, name+" "+r.Proto) })
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- httpserve.Serve(ctx, s.at.tls.listener, httpserve.Options{
			Handler: httpserve.ByHost{Domain: "shoal.test", Below: map[string]http.Handler{"e2b": echo("e2b")}, Other: echo("api")},
			Logger:  s.log, Grace: time.Second,
		})
	}()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.at.authority.PEM())
	for _, tc := range []struct {
		host string
		http bool
		want string
	}{
		{"shoal.test", false, "api HTTP/2.0"},
		{"49983-x.e2b.shoal.test", false, "e2b HTTP/2.0"},
		{"api.e2b.shoal.test", true, "e2b HTTP/1.1"},
		{"localhost", false, "api HTTP/2.0"},
		{"127.0.0.1", true, "api HTTP/1.1"},
	} {
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: !tc.http,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, network, s.at.tls.listener.Addr().String())
			},
		}
		if got := body(t, &http.Client{Transport: transport}, "https://"+tc.host+":"+s.at.tls.port()+"/"); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.host, got, tc.want)
		}
		transport.CloseIdleConnections()
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func body(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOwnCertificate: without tls_listen, the operator's certificate makes TLS of every address, and there is no own authority.
func TestOwnCertificate(t *testing.T) {
	cfg := &config.Config{
		Listen: "127.0.0.1:0", Domain: "shoal.test", E2B: config.Dialect{Listen: "+1"}, Panda: config.Dialect{Listen: "off"},
	}
	cfg.TLSCert, cfg.TLSKey = certificateFiles(t)
	s := bound(t, cfg)
	if !s.at.api.tls || !s.at.dialects["e2b"].tls || s.at.dialects["panda"] != nil || s.at.encrypted() != s.at.api || s.describeCA() != nil {
		t.Errorf("%+v", s.at)
	}
	if want := "e2b.shoal.test:" + s.at.api.port(); s.domainOf("e2b") != want {
		t.Errorf("%s, want %s", s.domainOf("e2b"), want)
	}
	cfg.TLSListen = "127.0.0.1:0"
	s = bound(t, cfg)
	if s.at.api.tls || s.at.dialects["e2b"].tls || s.at.encrypted() != s.at.tls || s.describeCA() != nil {
		t.Errorf("with tls_listen: %+v", s.at)
	}
}

// certificateFiles returns the files of a certificate as an operator has one.
func certificateFiles(t *testing.T) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	authority, err := pki.Open(dir, pki.Names{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	made, err := authority.Issuer(func() pki.Names { return pki.Names{} }, core.SystemClock{}).GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "own.crt"), filepath.Join(dir, "own.key")
	for name, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: made.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestDescribe: clients of the API are told where each dialect is.
func TestDescribe(t *testing.T) {
	s := bound(t, &config.Config{
		Listen: "127.0.0.1:0", TLSListen: "127.0.0.1:0", Domain: "shoal.test:8443",
		E2B: config.Dialect{Listen: "+1", Templates: []string{"a=base"}}, Panda: config.Dialect{Listen: "off"},
	})
	list := s.describe()
	if len(list) != 2 || list[0].Name != "e2b" || list[1].Name != "panda" {
		t.Fatalf("%+v", list)
	}
	e2b, panda := list[0], list[1]
	if e2b.URL != s.at.dialects["e2b"].url() || e2b.Domain != "e2b.shoal.test:8443" || e2b.DomainURL != "https://api.e2b.shoal.test:8443" || !e2b.OwnCA ||
		e2b.Anywhere || e2b.Templates["a"] != "base" {
		t.Errorf("%+v", e2b)
	}
	if panda.URL != "" || panda.Templates == nil || len(panda.Clients) == 0 {
		t.Errorf("%+v", panda)
	}
}

// TestAuthorityStays: a restart has the same authority, so clients go on trusting it.
func TestAuthorityStays(t *testing.T) {
	cfg := &config.Config{Listen: "127.0.0.1:0", TLSListen: "127.0.0.1:0", E2B: config.Dialect{Listen: "off"}, Panda: config.Dialect{Listen: "off"}}
	first := bound(t, cfg)
	again := &server{cfg: cfg, log: first.log, dir: first.dir}
	t.Cleanup(again.close)
	if err := again.bind(t.Context()); err != nil {
		t.Fatal(err)
	}
	if first.describeCA().Fingerprint != again.describeCA().Fingerprint {
		t.Error("it is another")
	}
}

func TestDomainOf(t *testing.T) {
	off := config.Dialect{Listen: "off"}
	for _, tc := range []struct{ name, domain, tls, want string }{
		{"none", "", "127.0.0.1:0", ""},
		{"behind a proxy", "shoal.test", "", "e2b.shoal.test"},
		{"behind a proxy at another port", "shoal.test:8443", "", "e2b.shoal.test:8443"},
		{"port said", "shoal.test:8443", "127.0.0.1:0", "e2b.shoal.test:8443"},
		{"usual port said", "shoal.test:443", "127.0.0.1:0", "e2b.shoal.test"},
		{"own port", "shoal.test", "127.0.0.1:0", "e2b.shoal.test:PORT"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := bound(t, &config.Config{Listen: "127.0.0.1:0", TLSListen: tc.tls, Domain: tc.domain, E2B: off, Panda: off})
			want := tc.want
			if s.at.tls != nil {
				want = strings.ReplaceAll(want, "PORT", s.at.tls.port())
			}
			if got := s.domainOf("e2b"); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// TestGuarded: a page on the web can't reach an address on loopback by a name of its own.
func TestGuarded(t *testing.T) {
	s := bound(t, &config.Config{
		Listen: "127.0.0.1:0", Domain: "shoal.test", Hosts: []string{"proxy.test"}, E2B: config.Dialect{Listen: "off"}, Panda: config.Dialect{Listen: "off"},
	})
	h := s.guarded(s.at.api, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for host, want := range map[string]int{
		"localhost:1": http.StatusNoContent, "127.0.0.1": http.StatusNoContent, "1-x.e2b.shoal.test:9": http.StatusNoContent,
		"proxy.test": http.StatusNoContent, "evil.test:1": http.StatusForbidden, "": http.StatusForbidden,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%q: %d, want %d", host, w.Code, want)
		}
		if told := strings.Contains(w.Body.String(), `"error":"this server has no such host name`); told != (want == http.StatusForbidden) {
			t.Errorf("%q: %s", host, w.Body)
		}
	}
}

func TestOwnAddresses(t *testing.T) {
	if got := ownAddresses(netip.MustParseAddr("10.1.2.3")); len(got) != 1 || !got[0].Equal(net.IPv4(10, 1, 2, 3)) {
		t.Errorf("%v", got)
	}
	all := ownAddresses(netip.IPv6Unspecified())
	loopback := false
	for _, ip := range all {
		loopback = loopback || ip.IsLoopback()
		if ip.IsLinkLocalUnicast() {
			t.Errorf("%v means nothing without an interface", ip)
		}
	}
	if !loopback {
		t.Errorf("%v has no loopback", all)
	}
}
