package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
)

// outboundSettings are about what the server fetches because a tenant said so.
func outboundSettings() []setting {
	return []setting{
		{
			key: "templates.max_image", def: "16G", allowed: "a size such as 512M or 4G, at least 16M",
			doc: "Greatest container image that may be imported: the sum of its files, those counted that a later layer hides, and also what is " +
				"downloaded or uploaded for it.",
			binding: size(func(c *Config) *Size { return &c.Templates.MaxImage }, atLeast(16*MiB)),
		}, {
			key: "templates.http_registries", def: "", allowed: "a list of HOST or HOST:PORT, or empty",
			doc:     "Registries that images are imported from without TLS. All others are spoken to with TLS only.",
			binding: list(func(c *Config) *[]string { return &c.Templates.HTTPRegistries }, isHostPort),
		}, {
			key: "outbound.allow", def: "", allowed: "a list of CIDRs such as 10.1.2.0/24, or empty",
			doc: "Addresses off the public internet that the server may connect to for tenants, such as a registry of the site. Whoever may " +
				"import an image can then make the server connect there. The server's own addresses stay refused.",
			binding: list(func(c *Config) *[]string { return &c.Outbound.Allow }, isCIDR),
		}, {
			key: "outbound.proxy", def: "", allowed: "an http, https or socks5 URL without a path",
			doc: "Proxy through which the server reaches what tenants name, such as registries. It resolves the names, so it decides what names that mean " +
				"nothing on this machine lead to. Empty means none; the environment is not asked. A password in it is not printed.",
			binding: text(func(c *Config) *string { return &c.Outbound.Proxy }, emptyOr(isProxy)),
			show:    hidePassword,
		},
	}
}

// isHostPort takes a host, with or without a port.
func isHostPort(v string) bool {
	if host, port, err := net.SplitHostPort(v); err == nil {
		n, err := strconv.ParseUint(port, 10, 16)
		_, ipErr := netip.ParseAddr(host)
		return err == nil && n > 0 && (isHostName(host) || ipErr == nil)
	}
	_, err := netip.ParseAddr(v)
	return err == nil || isHostName(v)
}

func isCIDR(v string) bool {
	p, err := netip.ParsePrefix(v)
	return err == nil && p == p.Masked()
}

func isProxy(v string) bool {
	u, err := url.Parse(v)
	if err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	return u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "socks5"
}

// Prefixes returns Allow as what it means.
func (o Outbound) Prefixes() ([]netip.Prefix, error) {
	list := make([]netip.Prefix, 0, len(o.Allow))
	for _, text := range o.Allow {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("read outbound.allow: %w", err)
		}
		list = append(list, p)
	}
	return list, nil
}

// ProxyURL returns Proxy as what it means, nil for none.
func (o Outbound) ProxyURL() (*url.URL, error) {
	if o.Proxy == "" {
		return nil, nil //nolint:nilnil // No proxy is no mistake.
	}
	u, err := url.Parse(o.Proxy)
	if err != nil {
		return nil, fmt.Errorf("read outbound.proxy: %w", err)
	}
	return u, nil
}
