package outbound

import (
	"net/netip"
	"sync"
)

// forbidden are the ranges that are no public internet, with the words for them. The first that matches speaks.
var forbidden = sync.OnceValue(func() []namedRange {
	var list []namedRange
	for _, r := range []struct{ what, prefix string }{
		{"the machine itself", "127.0.0.0/8"},
		{"the machine itself", "::1/128"},
		{"no particular address", "0.0.0.0/8"},
		{"no particular address", "::/128"},
		{"link-local or metadata", "169.254.0.0/16"},
		{"link-local or metadata", "fe80::/10"},
		{"metadata", "fd00:ec2::/32"},
		{"private", "10.0.0.0/8"},
		{"private", "172.16.0.0/12"},
		{"private", "192.168.0.0/16"},
		{"shared (carrier-grade NAT)", "100.64.0.0/10"},
		{"private", "fc00::/7"},
		{"private", "fec0::/10"},
		{"reserved", "192.0.0.0/24"},
		{"reserved", "192.0.2.0/24"},
		{"reserved", "192.88.99.0/24"},
		{"reserved", "198.18.0.0/15"},
		{"reserved", "198.51.100.0/24"},
		{"reserved", "203.0.113.0/24"},
		{"multicast", "224.0.0.0/4"},
		{"reserved", "240.0.0.0/4"},
		{"multicast", "ff00::/8"},
		// What carries an IPv4 address that a gateway would unpack, at places of its own.
		{"a form of an IPv4 address", "::/96"},
		{"a form of an IPv4 address", "::ffff:0:0:0/96"},
		{"a form of an IPv4 address", "64:ff9b:1::/48"},
		{"a form of an IPv4 address", "2002::/16"},
		{"a form of an IPv4 address", "2001::/32"},
		{"reserved", "2001::/23"},
		{"reserved", "2001:db8::/32"},
		{"reserved", "3fff::/20"},
	} {
		list = append(list, namedRange{what: r.what, prefix: netip.MustParsePrefix(r.prefix)})
	}
	return list
})

type namedRange struct {
	what   string
	prefix netip.Prefix
}

var (
	nat64  = sync.OnceValue(func() netip.Prefix { return netip.MustParsePrefix("64:ff9b::/96") })
	global = sync.OnceValue(func() netip.Prefix { return netip.MustParsePrefix("2000::/3") })
)

// plain returns the address that a packet to ip would be for: the IPv4 one of its IPv6 form (::ffff:a.b.c.d) and of the well-known
// prefix of NAT64, else ip itself.
func plain(ip netip.Addr) netip.Addr {
	ip = ip.Unmap()
	if nat64().Contains(ip) {
		b := ip.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip
}

// whatIs says in words what a forbidden address is, and the empty text of a public one.
func whatIs(ip netip.Addr) string {
	if !ip.IsValid() || ip.Zone() != "" {
		return "link-local or metadata"
	}
	ip = plain(ip)
	for _, r := range forbidden() {
		if r.prefix.Contains(ip) {
			return r.what
		}
	}
	if ip.Is6() && !global().Contains(ip) {
		return "reserved"
	}
	return ""
}
