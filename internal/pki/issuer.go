package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"shoal/internal/core"
)

const (
	// leafLifetime is how long a server's certificate is good for. It is made anew when less than renewLeaf is left of it.
	leafLifetime = 14 * 24 * time.Hour
	renewLeaf    = leafLifetime / 3
	// askAgain is how often it is looked whether the names are still the same.
	askAgain = time.Minute
)

// Issuer hands out the certificate of one server, in memory only: the key is made with it and never kept.
type Issuer struct {
	authority *Authority
	names     func() Names
	clock     core.Clock

	mu      sync.Mutex
	current *tls.Certificate
	// asked is when names was asked last.
	asked time.Time
}

// Issuer returns an issuer of certificates for names, which is asked once a minute at most: addresses change, and the next client
// gets a certificate with those that there are now.
func (a *Authority) Issuer(names func() Names, clock core.Clock) *Issuer {
	return &Issuer{authority: a, names: names, clock: clock}
}

// GetCertificate is for tls.Config. All clients get the same certificate.
func (i *Issuer) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.clock.Now()
	if i.current != nil && i.current.Leaf.NotAfter.Sub(now) > renewLeaf && !i.current.Leaf.NotBefore.After(now) && i.stillCalled(now) {
		return i.current, nil
	}
	i.asked = now
	fresh, err := i.issue(now)
	if err != nil && i.current != nil && i.current.Leaf.NotAfter.After(now) {
		return i.current, nil // It will be tried again with the next connection, for days.
	}
	if err != nil {
		return nil, err
	}
	i.current = fresh
	return fresh, nil
}

// stillCalled reports whether the current certificate names the addresses that there are. It is under mu.
func (i *Issuer) stillCalled(now time.Time) bool {
	if passed := now.Sub(i.asked); passed >= 0 && passed < askAgain {
		return true
	}
	i.asked = now
	return slices.EqualFunc(i.current.Leaf.IPAddresses, addresses(i.authority.cert, i.names().Addresses), net.IP.Equal)
}

// issue makes a certificate and its key.
func (i *Issuer) issue(now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a server's key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	ca := i.authority
	names := i.names()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{"Shoal"}, CommonName: "Shoal server"},
		NotBefore: now.Add(-skew), NotAfter: earlier(now.Add(leafLifetime), ca.cert.NotAfter),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, DNSNames: hostNames(names.Domain), IPAddresses: addresses(ca.cert, names.Addresses),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, fmt.Errorf("issue a server's certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read a certificate that was issued: %w", err)
	}
	// The authority's own certificate goes along for people who look at the chain; clients have it.
	return &tls.Certificate{Certificate: [][]byte{der, ca.cert.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// hostNames are the DNS names of a server. Those that are needed always are named beside the wildcards: some clients take no wildcard
// directly below a name of one label.
func hostNames(domain string) []string {
	names := []string{localhost}
	if domain == "" {
		return names
	}
	if domain != localhost {
		names = append(names, domain)
	}
	return append(names, "*."+domain, "api."+domain, "*.e2b."+domain, "*.panda."+domain)
}

// addresses are those that a certificate names: loopback, and the server's as far as the authority may sign them.
func addresses(ca *x509.Certificate, own []net.IP) []net.IP {
	list := []net.IP{net.IPv4(127, 0, 0, 1).To4(), net.IPv6loopback}
	for _, ip := range own {
		known := slices.ContainsFunc(list, func(x net.IP) bool { return x.Equal(ip) })
		if !known && inside(ca.PermittedIPRanges, ip) {
			list = append(list, canonical(ip))
		}
	}
	return list
}
