package httpserve

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ByHost serves several protocols at one address: the name that a request calls the server by says which. Names are looked at for each
// request and not for each connection, since HTTP/2 clients use one connection for all names of a certificate.
type ByHost struct {
	// Domain is the server's DNS name, without port; empty if it has none, and then everything is for Other.
	Domain string
	// Below says who serves the names below a label of the domain: with "e2b" those that end in .e2b.DOMAIN.
	Below map[string]http.Handler
	// Other serves every other name, also those that are not the server's.
	Other http.Handler
}

// ServeHTTP passes a request on.
func (h ByHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler := h.Below[belowDomain(r.Host, h.Domain)]; handler != nil {
		handler.ServeHTTP(w, r)
		return
	}
	h.Other.ServeHTTP(w, r)
}

// belowDomain returns the label directly below the domain of a name that is below that: e2b of api.e2b.DOMAIN. Of any other name it
// returns "".
func belowDomain(host, domain string) string {
	name, ok := strings.CutSuffix(HostName(host), "."+domain)
	dot := strings.LastIndexByte(name, '.')
	if domain == "" || !ok || dot <= 0 {
		return ""
	}
	return name[dot+1:]
}

// HostName returns the name in a Host header, in lower case and without port, brackets and final dot.
func HostName(hostport string) string {
	host := strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// RemoteHost is the address that a request came from, without its port; empty if it is none.
func RemoteHost(remote string) string {
	if ap, err := netip.ParseAddrPort(remote); err == nil {
		return ap.Addr().Unmap().String()
	}
	return ""
}

// IsLocal reports whether a Host header names a server on loopback: by localhost or what is below it, by a loopback address, or by one
// of names or what is below one.
func IsLocal(hostport string, names []string) bool {
	host := HostName(hostport)
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback()
	}
	is := func(name string) bool {
		return host == strings.ToLower(name) || strings.HasSuffix(host, "."+strings.ToLower(name))
	}
	return is("localhost") || slices.ContainsFunc(names, func(name string) bool { return name != "" && is(name) })
}
