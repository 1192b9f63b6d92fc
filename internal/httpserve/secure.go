package httpserve

import (
	"net"
	"net/http"
	"path"
	"strings"

	"shoal/internal/core"
)

// Secure sets the headers that every reply has. No page is served, so a browser is allowed nothing.
func Secure(h http.Header, requestID string) {
	h.Set("X-Request-Id", requestID)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// CheckHost refuses a request that reached a server on loopback by a name it doesn't have: a page on the web can make a
// name of its own resolve to 127.0.0.1 and so let a browser talk to us as if we were its origin. hosts are the names it has, with all
// below them, beside localhost and loopback addresses. Over TLS the certificate says which names there are.
func CheckHost(r *http.Request, hosts []string) error {
	if r.TLS != nil || IsLocal(r.Host, hosts) {
		return nil
	}
	return &core.Error{Code: core.CodeDenied, Field: "Host", Message: "this server has no such host name: use localhost or 127.0.0.1, or list the name in its setting hosts"}
}

// HostOnly returns a Host header's value without port and brackets.
func HostOnly(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

// CleanPath reports whether a path is as http.ServeMux would spell it. For any other the mux would redirect, which turns a mistake
// into a second request.
func CleanPath(p string) bool {
	c := path.Clean(p)
	return p == c || p == c+"/"
}
