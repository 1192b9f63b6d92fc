package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"shoal/internal/durable"
	shoal "shoal/sdk/go"
)

// caPath is where a server keeps its own authority's certificate, below its data directory.
const caPath = "ca/ca.crt"

// trust returns whom a client trusts: the system's authorities and the one that is named, or else that of the server on this machine.
// It is nil, which means the system's, where there is nothing to add. That of this machine may sign for its own names only, so it
// does no harm to trust it with other servers.
func trust(a *app, s server) (*tls.Config, error) {
	name, named := s.caFile, true
	if name == "" {
		dir := a.dataDir
		if dir == "" {
			dir = a.defaultDir
		}
		name, named = filepath.Join(dir, caPath), false
	}
	if !named && !strings.HasPrefix(s.url, "https://") {
		return nil, nil
	}
	pem, err := os.ReadFile(name)
	switch {
	case err == nil:
	case named:
		return nil, fmt.Errorf("the certificate of --ca-file, SHOAL_CA_FILE or cli.json can't be read: %s: %w", name, bare(err))
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil, nil
	default:
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // A system without certificates trusts nothing else.
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM: 'shoal ca' on the server's machine prints it", name)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// trustFiles are a server's authority in files, for programs that are told of it by their names.
type trustFiles struct {
	// own holds it alone, bundle beside those that this system trusts: some programs trust one file and nothing else.
	own, bundle string
}

// writeTrust writes an authority into files beside cli.json. Their names are made from its fingerprint, so that those of two servers
// don't meet, and a shell that knows an old one is not changed under its feet.
func writeTrust(a *app, ca shoal.CA) (trustFiles, error) {
	settings := a.settingsPath()
	if settings == "" {
		return trustFiles{}, errors.New("there is no home directory to keep the server's certificate in: set HOME or XDG_CONFIG_HOME")
	}
	const shown = 16
	if len(ca.Fingerprint) < shown || strings.Trim(ca.Fingerprint, "0123456789abcdef") != "" {
		return trustFiles{}, fmt.Errorf("the server says an odd fingerprint, %q", ca.Fingerprint)
	}
	dir := filepath.Dir(settings)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return trustFiles{}, err
	}
	id := ca.Fingerprint[:shown]
	f := trustFiles{own: filepath.Join(dir, "ca-"+id+".pem"), bundle: filepath.Join(dir, "ca-bundle-"+id+".pem")}
	bundle := systemBundle(a.getenv("SSL_CERT_FILE"))
	if !bytes.Contains(bundle, []byte(ca.Certificate)) { // else it is that of an earlier call
		if len(bundle) > 0 && !bytes.HasSuffix(bundle, []byte("\n")) {
			bundle = append(bundle, '\n')
		}
		bundle = append(bundle, ca.Certificate...)
	}
	return f, errors.Join(keepFile(f.own, []byte(ca.Certificate)), keepFile(f.bundle, bundle))
}

// keepFile writes a file unless it is as it should be.
func keepFile(name string, content []byte) error {
	if have, err := os.ReadFile(name); err == nil && bytes.Equal(have, content) {
		return nil
	}
	return durable.Replace(name, content, 0o644)
}

// systemBundle reads the certificates that this system trusts, nil if they are in none of the usual files. named is the file that
// the caller's programs use already.
func systemBundle(named string) []byte {
	files := []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
	}
	for _, name := range append([]string{named}, files...) {
		if pem, err := os.ReadFile(name); err == nil {
			return pem
		}
	}
	return nil
}
