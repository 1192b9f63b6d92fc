package pki_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/pki"
)

// clock is a clock that moves when it is told to.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) After(time.Duration) <-chan time.Time { panic("nothing here waits") }

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

const day = 24 * time.Hour

func start() time.Time { return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC) }

func open(t *testing.T, dir string, names pki.Names, now time.Time) *pki.Authority {
	t.Helper()
	a, err := pki.Open(dir, names, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func domain(name string, ips ...string) pki.Names {
	n := pki.Names{Domain: name}
	for _, ip := range ips {
		n.Addresses = append(n.Addresses, net.ParseIP(ip))
	}
	return n
}

// leaf returns what an issuer hands out now.
func leaf(t *testing.T, i *pki.Issuer) *x509.Certificate {
	t.Helper()
	c, err := i.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf
}

func issuer(a *pki.Authority, names pki.Names, c *clock) *pki.Issuer {
	return a.Issuer(func() pki.Names { return names }, c)
}

// verify asks the standard library whether a client that trusts the authority accepts a certificate for a name.
func verify(t *testing.T, authority []byte, cert *x509.Certificate, name string, now time.Time) error {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatal("the authority's certificate is not taken")
	}
	_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now})
	return err
}

func TestIssuedCertificateIsAccepted(t *testing.T) {
	names := domain("shoal.test", "10.1.2.3", "203.0.113.9")
	c := &clock{now: start()}
	a := open(t, t.TempDir(), names, c.Now())
	cert := leaf(t, issuer(a, names, c))
	for name, accepted := range map[string]bool{
		"shoal.test": true, "api.shoal.test": true, "x.shoal.test": true, "api.e2b.shoal.test": true, "api.panda.shoal.test": true,
		"49983-iabc.e2b.shoal.test": true, "8000-abc.panda.shoal.test": true, "localhost": true,
		"127.0.0.1": true, "::1": true, "10.1.2.3": true, "203.0.113.9": true,
		"other.test": false, "shoal.test.evil": false, "a.b.shoal.test": false, "10.1.2.4": false, "8.8.8.8": false,
	} {
		if err := verify(t, a.PEM(), cert, name, c.Now()); (err == nil) != accepted {
			t.Errorf("%s: %v, accepted should be %v", name, err, accepted)
		}
	}
	if life := cert.NotAfter.Sub(c.Now()); life > 15*day {
		t.Errorf("it is good for %v", life)
	}
	if len(a.Fingerprint()) != 64 || a.Expires().Sub(c.Now()) < 9*365*day {
		t.Errorf("%s until %v", a.Fingerprint(), a.Expires())
	}
}

func TestWithoutDomain(t *testing.T) {
	c := &clock{now: start()}
	a := open(t, t.TempDir(), pki.Names{}, c.Now())
	cert := leaf(t, issuer(a, pki.Names{}, c))
	for _, name := range []string{"localhost", "127.0.0.1"} {
		if err := verify(t, a.PEM(), cert, name, c.Now()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStolenKey: with the authority's key nobody can pretend to be another server than this one.
func TestStolenKey(t *testing.T) {
	dir := t.TempDir()
	a := open(t, dir, domain("shoal.test"), start())
	block, _ := pem.Decode(read(t, filepath.Join(dir, pki.KeyFile)))
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	block, _ = pem.Decode(a.PEM())
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	forge := func(template x509.Certificate) *x509.Certificate {
		t.Helper()
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), start(), start().Add(day)
		template.BasicConstraintsValid = true
		der, err := x509.CreateCertificate(rand.Reader, &template, ca, own.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	server := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for name, cert := range map[string]*x509.Certificate{
		"bank.example":      forge(x509.Certificate{DNSNames: []string{"bank.example"}, ExtKeyUsage: server}),
		"8.8.8.8":           forge(x509.Certificate{IPAddresses: []net.IP{net.ParseIP("8.8.8.8").To4()}, ExtKeyUsage: server}),
		"a.shoal.test.evil": forge(x509.Certificate{DNSNames: []string{"a.shoal.test.evil"}, ExtKeyUsage: server}),
	} {
		if err := verify(t, a.PEM(), cert, name, start()); err == nil {
			t.Errorf("a forged certificate for %s is accepted", name)
		}
	}
	// The same way of forging works for a name that is permitted, so the test shows something.
	if err := verify(t, a.PEM(), forge(x509.Certificate{DNSNames: []string{"x.shoal.test"}, ExtKeyUsage: server}), "x.shoal.test", start()); err != nil {
		t.Error(err)
	}
	if _, ok := key.(crypto.Signer); !ok || ca.MaxPathLen != 0 || !ca.MaxPathLenZero {
		t.Error("the authority may make others")
	}
}

func TestRenewedWhileServing(t *testing.T) {
	names := domain("shoal.test")
	c := &clock{now: start()}
	a := open(t, t.TempDir(), names, c.Now())
	i := issuer(a, names, c)
	first := leaf(t, i)
	c.advance(9 * day)
	if again := leaf(t, i); !again.Equal(first) {
		t.Error("it is made anew although much of it is left")
	}
	for range 20 {
		c.advance(5 * day)
		cert := leaf(t, i)
		if err := verify(t, a.PEM(), cert, "shoal.test", c.Now()); err != nil {
			t.Fatalf("after %v: %v", c.Now().Sub(start()), err)
		}
		if cert.NotAfter.Sub(c.Now()) < 3*day {
			t.Fatalf("only %v is left of it", cert.NotAfter.Sub(c.Now()))
		}
	}
	if leaf(t, i).Equal(first) {
		t.Error("it was never made anew")
	}
}

// TestIssuerAsksForNames: an address that the machine gets later is in the next certificate, unless the authority may not sign it.
func TestIssuerAsksForNames(t *testing.T) {
	names := domain("shoal.test", "10.0.0.1")
	c := &clock{now: start()}
	a := open(t, t.TempDir(), names, c.Now())
	i := a.Issuer(func() pki.Names { return names }, c)
	leaf(t, i)
	names = domain("shoal.test", "10.0.0.2", "198.51.100.7")
	c.advance(2 * time.Minute)
	cert := leaf(t, i)
	if again := leaf(t, i); !again.Equal(cert) {
		t.Error("it is made anew for each client")
	}
	if err := verify(t, a.PEM(), cert, "10.0.0.2", c.Now()); err != nil {
		t.Error(err)
	}
	if verify(t, a.PEM(), cert, "10.0.0.1", c.Now()) == nil || verify(t, a.PEM(), cert, "198.51.100.7", c.Now()) == nil {
		t.Error("it names what it should not")
	}
}

// TestClockWasAhead: an authority that was made while the clock was wrong serves once it is right.
func TestClockWasAhead(t *testing.T) {
	names := domain("shoal.test")
	c := &clock{now: start().Add(3 * 365 * day)}
	dir := t.TempDir()
	a := open(t, dir, names, c.Now())
	i := issuer(a, names, c)
	leaf(t, i)
	c.advance(-3 * 365 * day)
	if err := verify(t, a.PEM(), leaf(t, i), "shoal.test", c.Now()); err != nil {
		t.Error(err)
	}
	if open(t, dir, names, c.Now()).Renewed() {
		t.Error("clients need another one")
	}
}

// TestNewAddressInNetwork: a machine gets new IPv6 addresses in its network all the time, for which no client needs to be told anything.
func TestNewAddressInNetwork(t *testing.T) {
	dir := t.TempDir()
	old := open(t, dir, domain("shoal.test", "2001:db8::a:b:c:1"), start())
	names := domain("shoal.test", "2001:db8::d:e:f:2")
	again := open(t, dir, names, start())
	if again.Renewed() {
		t.Fatal("there is a new certificate")
	}
	cert := leaf(t, issuer(again, names, &clock{now: start()}))
	if err := verify(t, old.PEM(), cert, "2001:db8::d:e:f:2", start()); err != nil {
		t.Error(err)
	}
	if !open(t, dir, domain("shoal.test", "2001:db8:0:1::1"), start()).Renewed() {
		t.Error("it is good for another network too")
	}
}

func TestOpenAgain(t *testing.T) {
	dir := t.TempDir()
	names := domain("shoal.test")
	first := open(t, dir, names, start())
	for what, again := range map[string]*pki.Authority{
		"at once":           open(t, dir, names, start()),
		"years later":       open(t, dir, names, start().Add(8*365*day)),
		"without a domain":  open(t, dir, pki.Names{}, start()),
		"below the domain":  open(t, dir, domain("eu.shoal.test"), start()),
		"in its network":    open(t, dir, domain("shoal.test", "192.168.7.7"), start()),
		"with IPv6 at home": open(t, dir, domain("shoal.test", "fd00::1"), start()),
	} {
		if again.Fingerprint() != first.Fingerprint() || again.Renewed() {
			t.Errorf("%s it is another", what)
		}
	}
	for file, mode := range map[string]os.FileMode{pki.KeyFile: 0o600, pki.CertFile: 0o644} {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	if !bytes.Equal(read(t, filepath.Join(dir, pki.CertFile)), first.PEM()) {
		t.Error("the file is not the certificate")
	}
}

// TestNewNames: for another domain the authority gets another certificate, with the same key, which the old one's friends don't take
// for the new domain.
func TestNewNames(t *testing.T) {
	for what, names := range map[string]pki.Names{
		"domain": domain("other.test"), "address": domain("shoal.test", "203.0.113.1"),
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			old := open(t, dir, domain("shoal.test"), start())
			key := read(t, filepath.Join(dir, pki.KeyFile))
			renewed := open(t, dir, names, start())
			if !renewed.Renewed() || renewed.Fingerprint() == old.Fingerprint() || !bytes.Equal(key, read(t, filepath.Join(dir, pki.KeyFile))) {
				t.Fatal("it is the same, or has another key")
			}
			c := &clock{now: start()}
			cert := leaf(t, issuer(renewed, names, c))
			host := "other.test"
			if what == "address" {
				host = "203.0.113.1"
			}
			if err := verify(t, renewed.PEM(), cert, host, start()); err != nil {
				t.Error(err)
			}
			if verify(t, old.PEM(), cert, host, start()) == nil {
				t.Error("who trusts the old certificate takes names that it is not for")
			}
			if again := open(t, dir, names, start()); again.Renewed() {
				t.Error("it is made anew each time")
			}
		})
	}
}

// TestEndOfAuthority: in the last year there is a new certificate, and who trusts the old one takes what is issued.
func TestEndOfAuthority(t *testing.T) {
	dir := t.TempDir()
	names := domain("shoal.test")
	old := open(t, dir, names, start())
	c := &clock{now: old.Expires().Add(-300 * day)}
	renewed := open(t, dir, names, c.Now())
	if !renewed.Renewed() || !renewed.Expires().After(c.Now().Add(9*365*day)) {
		t.Fatalf("it ends %v", renewed.Expires())
	}
	cert := leaf(t, issuer(renewed, names, c))
	for _, trusted := range []*pki.Authority{old, renewed} {
		if err := verify(t, trusted.PEM(), cert, "shoal.test", c.Now()); err != nil {
			t.Error(err)
		}
	}
	// One that served all the time never issues what outlives itself.
	c.now = old.Expires().Add(-2 * day)
	if cert := leaf(t, issuer(old, names, c)); cert.NotAfter.After(old.Expires()) {
		t.Errorf("it ends %v, its authority %v", cert.NotAfter, old.Expires())
	}
}

func TestDamage(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(t *testing.T, dir string)
		code   core.Code
	}{
		"no key":          {func(t *testing.T, dir string) { t.Helper(); remove(t, dir, pki.KeyFile) }, core.CodeDataLoss},
		"other key":       {func(t *testing.T, dir string) { t.Helper(); swapKey(t, dir) }, core.CodeDataLoss},
		"empty key":       {func(t *testing.T, dir string) { t.Helper(); write(t, dir, pki.KeyFile, "") }, core.CodeDataLoss},
		"garbled key":     {func(t *testing.T, dir string) { t.Helper(); write(t, dir, pki.KeyFile, garbled("PRIVATE KEY")) }, core.CodeDataLoss},
		"cut certificate": {func(t *testing.T, dir string) { t.Helper(); write(t, dir, pki.CertFile, "-----BEGIN CERT") }, core.CodeDataLoss},
		"garbled certificate": {
			func(t *testing.T, dir string) { t.Helper(); write(t, dir, pki.CertFile, garbled("CERTIFICATE")) }, core.CodeDataLoss,
		},
		"key for all to read": {func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Chmod(filepath.Join(dir, pki.KeyFile), 0o644); err != nil {
				t.Fatal(err)
			}
		}, core.CodeDenied},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open(t, dir, domain("shoal.test"), start())
			tc.damage(t, dir)
			if _, err := pki.Open(dir, domain("shoal.test"), start()); !core.IsCode(err, tc.code) {
				t.Errorf("got %v, want %s", err, tc.code)
			}
		})
	}
}

// TestCutOff: a server that was killed between key and certificate goes on where it was.
func TestCutOff(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, domain("shoal.test"), start())
	key := read(t, filepath.Join(dir, pki.KeyFile))
	remove(t, dir, pki.CertFile)
	open(t, dir, domain("shoal.test"), start())
	if !bytes.Equal(key, read(t, filepath.Join(dir, pki.KeyFile))) {
		t.Error("there is another key")
	}
}

// TestHandshake holds the whole against a real connection.
func TestHandshake(t *testing.T) {
	names := domain("shoal.test")
	a := open(t, t.TempDir(), names, time.Now())
	i := a.Issuer(func() pki.Names { return names }, core.SystemClock{})
	client, server := net.Pipe()
	served := make(chan error, 1)
	go func() {
		conn := tls.Server(server, &tls.Config{GetCertificate: i.GetCertificate, MinVersion: tls.VersionTLS12})
		served <- conn.HandshakeContext(t.Context())
	}()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM())
	conn := tls.Client(client, &tls.Config{RootCAs: roots, ServerName: "49983-abc.e2b.shoal.test", MinVersion: tls.VersionTLS12})
	if err := conn.HandshakeContext(t.Context()); err != nil {
		t.Error(err)
	}
	_ = client.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, dir, file, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, dir, file string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, file)); err != nil {
		t.Fatal(err)
	}
}

func swapKey(t *testing.T, dir string) {
	t.Helper()
	other := t.TempDir()
	open(t, other, domain("shoal.test"), start())
	write(t, dir, pki.KeyFile, string(read(t, filepath.Join(other, pki.KeyFile))))
}

func garbled(kind string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("garbled")}))
}
