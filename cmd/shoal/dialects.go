package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"shoal/api"
	"shoal/internal/config"
	"shoal/internal/core"
	"shoal/internal/dialect"
	"shoal/internal/dialect/e2b"
	"shoal/internal/dialect/panda"
	"shoal/internal/httpapi"
	"shoal/internal/httpserve"
)

// dialectRow is one of the other vendors' protocols.
type dialectRow struct {
	// name is also the label below the domain, and the section of its settings.
	name     string
	settings func(*config.Config) config.Dialect
	open     func(dialect.Config) (http.Handler, error)
	// clients are the vendor's clients that the tests run.
	clients []string
}

// dialects are the protocols that this program speaks beside its own.
func dialects() []dialectRow {
	return []dialectRow{
		{
			name: "e2b", settings: func(c *config.Config) config.Dialect { return c.E2B }, open: e2b.New,
			clients: []string{"e2b 2.63.0 (Python)", "e2b 2.51.0 (JavaScript)", "@e2b/cli 2.19.0"},
		}, {
			name: "panda", settings: func(c *config.Config) config.Dialect { return c.Panda }, open: panda.New,
			clients: []string{"pandastack 0.10.0 (Python)", "@pandastack/sdk 0.9.0 (JavaScript)"},
		},
	}
}

// domainOf is the domain of a dialect's host names, with a port if clients need one; empty if there is none. Behind a proxy that does
// the TLS there is no port of ours to tell.
func (s *server) domainOf(name string) string {
	domain, port := s.cfg.DomainName()
	if domain == "" {
		return ""
	}
	if at := s.at.encrypted(); port == "" && at != nil {
		port = at.port()
	}
	domain = name + "." + domain
	if port != "" && port != "443" {
		domain += ":" + port
	}
	return domain
}

// openDialects makes the dialects' handlers, by name. all is what is the same for each.
func (s *server) openDialects(all dialect.Config) (map[string]http.Handler, error) {
	handlers := map[string]http.Handler{}
	for _, d := range dialects() {
		own := all
		own.Templates, own.Domain = d.settings(s.cfg).Names(), s.domainOf(d.name)
		h, err := d.open(own)
		if err != nil {
			return nil, fmt.Errorf("open dialect %s: %w", d.name, err)
		}
		handlers[d.name] = h
	}
	return handlers, nil
}

// describe tells clients of the API of the dialects.
func (s *server) describe() []httpapi.Dialect {
	var list []httpapi.Dialect
	for _, d := range dialects() {
		out := httpapi.Dialect{Dialect: api.Dialect{
			Name: d.name, Templates: d.settings(s.cfg).Names(), Clients: d.clients, OwnCA: s.at.authority != nil, Domain: s.domainOf(d.name),
		}}
		if at := s.at.dialects[d.name]; at != nil {
			out.URL, out.Anywhere = at.url(), at.ip().IsUnspecified()
		}
		if out.Domain != "" {
			out.DomainURL = "https://api." + out.Domain
		}
		list = append(list, out)
	}
	return list
}

// describeCA tells clients of the API which authority the certificate is from; nil if it's none of the server's.
func (s *server) describeCA() *api.CA {
	a := s.at.authority
	if a == nil {
		return nil
	}
	return &api.CA{Certificate: string(a.PEM()), Fingerprint: a.Fingerprint(), ExpiresAt: a.Expires().UTC()}
}

// hosts are the names that the server has beside localhost.
func (s *server) hosts() []string {
	hosts := s.cfg.Hosts
	if domain, _ := s.cfg.DomainName(); domain != "" {
		hosts = append(hosts[:len(hosts):len(hosts)], domain)
	}
	return hosts
}

// guarded refuses requests that reach an address on loopback by a name that isn't this machine's.
func (s *server) guarded(at *address, next http.Handler) http.Handler {
	if !at.ip().IsLoopback() {
		return next
	}
	hosts := s.hosts()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := httpserve.CheckHost(r, hosts); err != nil {
			refuseHost(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuseHost answers with an error in a form that the clients of every dialect read.
func refuseHost(w http.ResponseWriter, err error) {
	shown, ok := errors.AsType[*core.Error](err)
	if !ok {
		shown = core.Errorf(core.CodeDenied, "this server has no such host name")
	}
	// Strings and a number always have a form in JSON.
	body, _ := json.Marshal(map[string]any{"code": http.StatusForbidden, "message": shown.Message, "error": shown.Message})
	httpserve.Secure(w.Header(), core.NewID())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write(body) // who can't be told is gone
}
