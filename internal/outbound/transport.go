package outbound

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"shoal/internal/core"
)

// Bounds of one request.
const (
	handshakeTimeout = 15 * time.Second
	headerTimeout    = 60 * time.Second
	maxHeaderBytes   = 64 << 10
	maxIdle          = 4
)

// Transport returns a transport for HTTP whose every connection the guard has judged: those of redirects too, for each is a request of
// its own. The environment's proxies are not used. Whoever takes one closes its idle connections when done.
//
// Behind a proxy it is the proxy that resolves names. A target is then judged by what the name means here, and if it means nothing here,
// only by its form: what the proxy lets through is the operator's word.
func (g *Guard) Transport() *Transport {
	inner := &http.Transport{
		DialContext:            g.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    handshakeTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        30 * time.Second,
		ForceAttemptHTTP2:      true,
		// A body is what its digest is of: nothing on the way may unpack it.
		DisableCompression: true,
	}
	if g.cfg.Proxy != nil {
		inner.Proxy = http.ProxyURL(g.cfg.Proxy)
		inner.DialContext = g.dialer.DialContext // Only ever to the proxy: RoundTrip has judged the target.
	}
	return &Transport{guard: g, inner: inner}
}

// Transport is an http.RoundTripper that only reaches what its guard lets it.
type Transport struct {
	guard *Guard
	inner *http.Transport
}

// RoundTrip makes one request.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	port := req.URL.Port()
	switch {
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return nil, core.Errorf(core.CodeDenied, "only http and https are spoken, not %q", req.URL.Scheme)
	case port == "" && req.URL.Scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}
	if t.guard.cfg.Proxy != nil {
		err := t.guard.Check(req.Context(), net.JoinHostPort(req.URL.Hostname(), port))
		if err != nil && !core.IsCode(err, core.CodeUnavailable) {
			return nil, err
		}
	}
	resp, err := t.inner.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.URL.Host, err)
	}
	return resp, nil
}

// CloseIdleConnections closes connections that are not in use.
func (t *Transport) CloseIdleConnections() { t.inner.CloseIdleConnections() }
