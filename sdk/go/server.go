package shoal

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"

	"shoal/api"
)

// CA returns the server's own certificate authority. It takes no key; a server with another certificate answers not_found. What comes
// over a connection that isn't trusted yet can be anybody's: compare the fingerprint.
func (c *Client) CA(ctx context.Context) (CA, error) {
	var ca CA
	return ca, c.do(ctx, call{method: http.MethodGet, path: "/v1/ca"}, &ca)
}

// Dialects returns which other vendors' protocols the server speaks, and where.
func (c *Client) Dialects(ctx context.Context) ([]Dialect, error) {
	var list api.DialectList
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/dialects"}, &list)
	return list.Dialects, err
}

// Trust returns an HTTP client for Client.HTTPClient that trusts the certificates in PEM beside those that the system trusts: that of
// a server's own authority, which `shoal ca` prints.
func Trust(pem []byte) (*http.Client, error) {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the standard library's transport has changed its type")
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // A system without certificates trusts nothing else.
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, &Error{Code: CodeInvalid, Message: "there is no certificate in PEM in it"}
	}
	transport = transport.Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: transport}, nil
}
