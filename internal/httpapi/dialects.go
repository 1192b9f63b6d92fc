package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"shoal/api"
	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// Dialect is a protocol that is spoken beside this one.
type Dialect struct {
	api.Dialect
	// Anywhere says that its own address takes connections at every address of the machine: clients are told the name by which they
	// reach this API.
	Anywhere bool
}

func (a serverAPI) getCA(w http.ResponseWriter, _ *request) error {
	if a.options.CA == nil {
		return core.Errorf(core.CodeNotFound,
			"this server has no certificate authority of its own: it makes one when it has tls_listen and no tls_cert")
	}
	return writeJSON(w, http.StatusOK, *a.options.CA)
}

func (a serverAPI) listDialects(w http.ResponseWriter, r *request) error {
	return writeJSON(w, http.StatusOK, api.DialectList{Dialects: convert(a.options.Dialects, func(d Dialect) api.Dialect {
		out := d.Dialect
		if d.Anywhere {
			out.URL = atHost(d.URL, httpserve.HostOnly(r.Host))
		}
		return out
	})})
}

// atHost puts a name into an origin in place of its own; a name that can't be there is left out.
func atHost(origin, host string) string {
	u, err := url.Parse(origin)
	if err != nil || host == "" {
		return origin
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.String()
	}
	u.Host = net.JoinHostPort(host, u.Port())
	if again, err := url.Parse(u.String()); err != nil || again.Hostname() != host {
		return origin
	}
	return u.String()
}
