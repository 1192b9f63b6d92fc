package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/durable"
)

const (
	// CertFile is where the authority's certificate is kept, below the directory that Open is given.
	CertFile = "ca.crt"
	// KeyFile is where its key is, beside it.
	KeyFile = "ca.key"

	// lifetime is how long the authority's certificate is good for, and renewBefore how long before its end it is made anew, with the
	// same key: who trusts the old one then trusts what is issued until that has ended.
	lifetime    = 10 * 365 * 24 * time.Hour
	renewBefore = 365 * 24 * time.Hour
	// networkBits is how long the prefix of an IPv6 network is.
	networkBits = 64
	// skew is how far the clocks of clients may be behind.
	skew = time.Hour
)

// Names are what a certificate is for.
type Names struct {
	// Domain is the DNS name of the server, empty if it has none. The names below it are covered too, as deep as there are any.
	Domain string
	// Addresses are where the server can be reached, beside loopback.
	Addresses []net.IP
}

// Authority issues certificates for the names of one installation. It may be used from many goroutines.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	// renewed says that Open found a certificate that would not do.
	renewed bool
}

// Open reads the authority that is kept in dir and makes it if there is none. One whose certificate is not for these names, or ends
// within a year, gets a new certificate with the same key: Renewed tells. Only one process at a time may use dir.
func Open(dir string, names Names, now time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("make the authority's directory: %w", err)
	}
	key, err := readKey(filepath.Join(dir, KeyFile))
	if err != nil {
		return nil, err
	}
	cert, err := readCert(filepath.Join(dir, CertFile))
	if err != nil {
		return nil, err
	}
	switch {
	case key == nil && cert != nil:
		return nil, core.Errorf(core.CodeDataLoss, "%s is there and %s beside it is gone: put the key back, or delete the certificate too, "+
			"and a new authority is made, which clients must be told of", filepath.Join(dir, CertFile), KeyFile)
	case key == nil:
		if key, err = makeKey(filepath.Join(dir, KeyFile)); err != nil {
			return nil, err
		}
	case cert != nil && !samePublicKey(cert, key):
		return nil, core.Errorf(core.CodeDataLoss, "%s and %s don't belong together: put back the one that was replaced",
			filepath.Join(dir, CertFile), KeyFile)
	}
	if cert != nil && cert.NotAfter.Sub(now) > renewBefore && permits(cert, names) {
		return &Authority{cert: cert, key: key}, nil
	}
	fresh, err := makeCert(key, names, now)
	if err != nil {
		return nil, err
	}
	if err := durable.Replace(filepath.Join(dir, CertFile), encodeCert(fresh), 0o644); err != nil {
		return nil, fmt.Errorf("keep the authority's certificate: %w", err)
	}
	return &Authority{cert: fresh, key: key, renewed: cert != nil}, nil
}

// Renewed reports whether Open has replaced the certificate that it found. Clients must then be given the new one, unless only its time
// had come: who trusts the old one goes on until that ends.
func (a *Authority) Renewed() bool { return a.renewed }

// PEM returns the authority's certificate, which clients must trust.
func (a *Authority) PEM() []byte { return encodeCert(a.cert) }

// Fingerprint returns the hex sha256 of the certificate, by which people compare it.
func (a *Authority) Fingerprint() string { return Fingerprint(a.cert.Raw) }

// Expires returns when the certificate ends.
func (a *Authority) Expires() time.Time { return a.cert.NotAfter }

// Fingerprint returns the hex sha256 of a certificate's bytes.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// makeCert makes the authority's certificate. It is good for nothing but servers of these names: who steals the key can pretend to be
// this server, and no other on the Internet, to those who trust it.
func makeCert(key crypto.Signer, names Names, now time.Time) (*x509.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"Shoal"}, CommonName: "Shoal CA " + shortID(key)},
		NotBefore:    earlier(now.Add(-skew), begun()), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true, MaxPathLen: 0, MaxPathLenZero: true,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: permittedDomains(names), PermittedIPRanges: permittedRanges(names),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the authority's certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// begun is from when on an authority's certificate is good. It is the same for all, and past: one that was made while the machine's
// clock was ahead would else be refused by every client until that day comes.
func begun() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return serial, nil
}

// shortID tells the authorities of several installations apart in a list of them.
func shortID(key crypto.Signer) string {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic("pki: a key of our own can't be encoded: " + err.Error())
	}
	return Fingerprint(der)[:8]
}

// localhost is a name that every server has.
const localhost = "localhost"

// permittedDomains are the DNS names that the authority may sign, each with all below it.
func permittedDomains(names Names) []string {
	if names.Domain == "" || names.Domain == localhost || strings.HasSuffix(names.Domain, "."+localhost) {
		return []string{localhost}
	}
	return []string{localhost, names.Domain}
}

// permittedRanges are the addresses that the authority may sign: those that mean something only where the server is, so that
// moving it within its network changes nothing, and else the server's own. Of IPv6 that is the whole network that it is in: a machine
// takes a new address there every day, and clients must not need a new certificate for it.
func permittedRanges(names Names) []*net.IPNet {
	ranges := localRanges()
	for _, ip := range names.Addresses {
		if !inside(ranges, ip) {
			bits := 8 * len(canonical(ip))
			mask := net.CIDRMask(min(bits, networkBits), bits)
			ranges = append(ranges, &net.IPNet{IP: canonical(ip).Mask(mask), Mask: mask})
		}
	}
	return ranges
}

// localRanges are loopback, link-local and private addresses.
func localRanges() []*net.IPNet {
	var list []*net.IPNet
	for _, cidr := range []string{
		"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10", "::1/128", "fe80::/10", "fc00::/7",
	} {
		_, n, err := net.ParseCIDR(cidr)
		if err != nil {
			panic("pki: " + err.Error())
		}
		list = append(list, n)
	}
	return list
}

// canonical is an address in its shortest form, which its family is told by.
func canonical(ip net.IP) net.IP {
	if v4 := ip.To4(); v4 != nil {
		return v4
	}
	return ip.To16()
}

func inside(ranges []*net.IPNet, ip net.IP) bool {
	return slices.ContainsFunc(ranges, func(n *net.IPNet) bool { return n.Contains(ip) })
}

// permits reports whether an authority's certificate is for these names.
func permits(cert *x509.Certificate, names Names) bool {
	for _, domain := range permittedDomains(names) {
		if !slices.ContainsFunc(cert.PermittedDNSDomains, func(p string) bool { return domain == p || strings.HasSuffix(domain, "."+p) }) {
			return false
		}
	}
	return !slices.ContainsFunc(names.Addresses, func(ip net.IP) bool { return !inside(cert.PermittedIPRanges, ip) })
}

func samePublicKey(cert *x509.Certificate, key crypto.Signer) bool {
	public, ok := cert.PublicKey.(*ecdsa.PublicKey)
	return ok && public.Equal(key.Public())
}

func encodeCert(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// makeKey makes the authority's key and keeps it before anything is signed with it.
func makeKey(path string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode the authority's key: %w", err)
	}
	if err := durable.Replace(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return nil, fmt.Errorf("keep the authority's key: %w", err)
	}
	return key, nil
}

// readKey reads the authority's key; nil if there is none.
func readKey(path string) (crypto.Signer, error) {
	der, err := readPEM(path, "PRIVATE KEY")
	if der == nil || err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return nil, core.Errorf(core.CodeDenied, "others may read %s: chmod 600 it; if somebody may have read it, delete it with %s beside it, "+
			"and a new authority is made", path, CertFile)
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, core.Wrap(core.CodeDataLoss, err, "%s is damaged", path)
	}
	signer, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, core.Errorf(core.CodeDataLoss, "%s is no ECDSA key: it was not made by this server", path)
	}
	return signer, nil
}

// readCert reads the authority's certificate; nil if there is none.
func readCert(path string) (*x509.Certificate, error) {
	der, err := readPEM(path, "CERTIFICATE")
	if der == nil || err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, core.Wrap(core.CodeDataLoss, err, "%s is damaged", path)
	}
	return cert, nil
}

// readPEM reads a file that holds one block; nil if there is no such file.
func readPEM(path, kind string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != kind || len(bytes.TrimSpace(rest)) > 0 {
		return nil, core.Errorf(core.CodeDataLoss, "%s is damaged: it doesn't hold one %s in PEM", path, strings.ToLower(kind))
	}
	return block.Bytes, nil
}
