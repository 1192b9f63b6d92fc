package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Dialect is how another vendor's protocol is served.
type Dialect struct {
	// Listen is HOST:PORT, "off", or "+N" for N ports above that of the API.
	Listen string
	// Templates are VENDORNAME=TEMPLATE.
	Templates []string
}

// off is the address of what is not served at an address of its own.
const off = "off"

func dialectSettings() []setting {
	const (
		address = "HOST:PORT, beyond loopback only with tls_cert and tls_key, and without tls_listen; +N for N ports above listen; or off"
		names   = "a list of VENDORNAME=TEMPLATE, or empty"
		maps    = " What it doesn't name is looked up as it is."
	)
	return []setting{
		{
			key: "e2b.listen", def: "+1", allowed: address,
			doc:     "Address for clients of E2B. +1 is one port above that of listen, at the same host; where that is port 0, it is a free one too.",
			binding: text(func(c *Config) *string { return &c.E2B.Listen }, isDialectAddress),
		}, {
			key: "e2b.templates", def: "", allowed: names,
			doc:     "Which of our templates is meant by a name of E2B's." + maps,
			binding: list(func(c *Config) *[]string { return &c.E2B.Templates }, isAlias),
		}, {
			key: "panda.listen", def: "+5", allowed: address,
			doc:     "Address for clients of PandaStack. +5 is five ports above that of listen, at the same host; where that is port 0, it is a free one too.",
			binding: text(func(c *Config) *string { return &c.Panda.Listen }, isDialectAddress),
		}, {
			key: "panda.templates", def: "code-interpreter=base,ubuntu-24.04=base", allowed: names,
			doc:     "Which of our templates is meant by a name of PandaStack's." + maps,
			binding: list(func(c *Config) *[]string { return &c.Panda.Templates }, isAlias),
		},
	}
}

// Address returns where a dialect is served, given the API's address; ok is false if it is at no address of its own.
func (d Dialect) Address(listen string) (address string, ok bool, err error) {
	if d.Listen == off {
		return "", false, nil
	}
	above, relative := strings.CutPrefix(d.Listen, "+")
	if !relative {
		return d.Listen, true, nil
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", false, fmt.Errorf("read an address: %w", err)
	}
	base, errBase := strconv.Atoi(port)
	n, errN := strconv.Atoi(above)
	if err := errors.Join(errBase, errN); err != nil {
		return "", false, fmt.Errorf("read a port: %w", err)
	}
	if base == 0 {
		return net.JoinHostPort(host, "0"), true, nil
	}
	if base+n > maxPort {
		return "", false, fmt.Errorf("there is no port %d, which is %s above that of listen", base+n, above)
	}
	return net.JoinHostPort(host, strconv.Itoa(base+n)), true, nil
}

// maxPort is the greatest port there is.
const maxPort = 1<<16 - 1

// Names returns our template for each of the vendor's names.
func (d Dialect) Names() map[string]string {
	names := make(map[string]string, len(d.Templates))
	for _, alias := range d.Templates {
		vendor, ours, _ := strings.Cut(alias, "=")
		names[vendor] = ours
	}
	return names
}

// DomainName returns the domain and the port that it was given, each empty if there is none.
func (c *Config) DomainName() (name, port string) {
	if host, port, err := net.SplitHostPort(c.Domain); err == nil {
		return host, port
	}
	return c.Domain, ""
}

// isDialectAddress takes an address, "+N" or "off".
func isDialectAddress(v string) bool {
	if above, ok := strings.CutPrefix(v, "+"); ok {
		n, err := strconv.ParseUint(above, 10, 16)
		return err == nil && n > 0
	}
	return v == off || isAddress(v)
}

var alias = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,254}=[a-z0-9][a-z0-9-]{0,62}$`)
})

func isAlias(v string) bool { return alias().MatchString(v) }

// maxDomain is the greatest length of a domain: below it there are names such as 65535-ID.panda.DOMAIN, and no name is longer than
// 253 characters.
const maxDomain = 200

var domainName = sync.OnceValue(func() *regexp.Regexp {
	label := `[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`
	return regexp.MustCompile(`^` + label + `(\.` + label + `)*$`)
})

// isDomain takes a DNS name with or without a port. An address is none.
func isDomain(v string) bool {
	name := v
	if host, port, err := net.SplitHostPort(v); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return false
		}
		name = host
	}
	_, err := netip.ParseAddr(name)
	return err != nil && len(name) <= maxDomain && domainName().MatchString(name)
}

// addressProblems are contradictions between the addresses to listen at.
func (c *Config) addressProblems() (list []string) {
	taken := map[string]string{}
	add := func(key, address string, encrypted bool) {
		problem := ""
		_, port, _ := net.SplitHostPort(address)
		switch other := taken[address]; {
		case port != "0" && other != "":
			problem = fmt.Sprintf("%s is %q, and so is %s: each needs a port of its own", key, address, other)
		case encrypted || isLoopback(address):
		case c.TLSListen != "":
			problem = fmt.Sprintf("%s is %q, which other machines can reach: with tls_listen, which has all the TLS, allowed is loopback only, such as 127.0.0.1:8700",
				key, address)
		default:
			problem = fmt.Sprintf("%s is %q, which other machines can reach: allowed without TLS is loopback only, such as 127.0.0.1:8700; "+
				"set tls_cert and tls_key to listen there, or tls_listen", key, address)
		}
		if problem != "" {
			list = append(list, c.Origin(key)+": "+problem)
		}
		taken[address] = key
	}
	encrypted := c.TLSCert != "" && c.TLSListen == ""
	add("listen", c.Listen, encrypted)
	for _, d := range []struct {
		key string
		Dialect
	}{{"e2b.listen", c.E2B}, {"panda.listen", c.Panda}} {
		address, on, err := d.Address(c.Listen)
		switch {
		case err != nil:
			list = append(list, fmt.Sprintf("%s: %s is %q: %v; set it to HOST:PORT or off", c.Origin(d.key), d.key, d.Listen, err))
		case !on:
		case strings.HasPrefix(d.Listen, "+") && !encrypted && !isLoopback(address):
			// That is said of listen already.
		default:
			add(d.key, address, encrypted)
		}
	}
	if c.TLSListen != "" {
		add("tls_listen", c.TLSListen, true)
	}
	return append(list, c.aliasProblems()...)
}

// aliasProblems are names of a vendor's that mean two templates.
func (c *Config) aliasProblems() (list []string) {
	for _, d := range []struct {
		key string
		Dialect
	}{{"e2b.templates", c.E2B}, {"panda.templates", c.Panda}} {
		if len(d.Names()) != len(d.Dialect.Templates) {
			list = append(list, fmt.Sprintf("%s: %s names one template twice", c.Origin(d.key), d.key))
		}
	}
	return list
}
