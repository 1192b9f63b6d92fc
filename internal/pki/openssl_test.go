package pki_test

import (
	"encoding/pem"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"shoal/internal/pki"
)

// TestOpenSSL holds what is issued against OpenSSL at its strictest, which most clients that are not written in Go use.
func TestOpenSSL(t *testing.T) {
	program, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("there is no openssl to hold it against")
	}
	for name, names := range map[string]pki.Names{
		"with domain": domain("shoal.test", "10.1.2.3"), "of one label": domain("shoal"), "localhost": domain("localhost"), "without": {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := &clock{now: time.Now()}
			a := open(t, dir, names, c.Now())
			cert := leaf(t, issuer(a, names, c))
			write(t, dir, "leaf.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})))
			check := func(how ...string) error {
				args := append([]string{"verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", filepath.Join(dir, pki.CertFile)}, how...)
				out, err := exec.CommandContext(t.Context(), program, append(args, filepath.Join(dir, "leaf.pem"))...).CombinedOutput()
				if err != nil {
					t.Logf("%s", out)
				}
				return err
			}
			hosts := []string{"localhost"}
			if names.Domain != "" {
				hosts = append(hosts, names.Domain, "api."+names.Domain, "1-a.e2b."+names.Domain, "api.panda."+names.Domain)
			}
			for _, host := range hosts {
				if err := check("-verify_hostname", host); err != nil {
					t.Errorf("%s: %v", host, err)
				}
			}
			if err := check("-verify_ip", "127.0.0.1"); err != nil {
				t.Error(err)
			}
			if check("-verify_hostname", "other.test") == nil {
				t.Error("another name is accepted")
			}
		})
	}
}
