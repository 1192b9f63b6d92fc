package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/pki"
)

// address is one place where connections are taken.
type address struct {
	// setting is the setting that it is from.
	setting string
	// listener takes the connections; it does the TLS if there is any.
	listener net.Listener
	tls      bool
}

// url is the origin by which a client on this machine reaches it.
func (a *address) url() string {
	scheme := "http"
	if a.tls {
		scheme = "https"
	}
	return scheme + "://" + dialable(a.listener.Addr().String())
}

// ip is where it listens: unspecified if at every address of the machine.
func (a *address) ip() netip.Addr {
	ap, err := netip.ParseAddrPort(a.listener.Addr().String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

func (a *address) port() string {
	_, port, err := net.SplitHostPort(a.listener.Addr().String())
	if err != nil {
		return ""
	}
	return port
}

// addresses are all places where the server listens.
type addresses struct {
	// api is that of the setting listen, tls that of tls_listen, nil if there is none.
	api, tls *address
	// dialects are those of the dialects that have one of their own, by the dialect's name.
	dialects map[string]*address
	// authority is the own one that the server's certificate is from, nil if it has none or the operator's.
	authority *pki.Authority
}

// encrypted is where TLS is spoken for all names, nil if nowhere.
func (a addresses) encrypted() *address {
	switch {
	case a.tls != nil:
		return a.tls
	case a.api != nil && a.api.tls:
		return a.api
	}
	return nil
}

// bind takes all addresses. Calls wait until serve answers them.
func (s *server) bind(ctx context.Context) error {
	var own *tls.Config
	if s.cfg.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(s.cfg.TLSCert, s.cfg.TLSKey)
		if err != nil {
			return fmt.Errorf("load TLS certificate: %w", err)
		}
		own = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	}
	everywhere := own // without tls_listen, TLS is spoken at every address or at none
	if s.cfg.TLSListen != "" {
		everywhere = nil
	}
	var err error
	if s.at.api, err = s.listen(ctx, "listen", s.cfg.Listen, everywhere); err != nil {
		return err
	}
	s.at.dialects = map[string]*address{}
	for _, d := range dialects() {
		where, on, err := d.settings(s.cfg).Address(s.cfg.Listen)
		if err != nil || !on {
			if err != nil {
				return err
			}
			continue
		}
		if s.at.dialects[d.name], err = s.listen(ctx, d.name+".listen", where, everywhere); err != nil {
			return err
		}
	}
	if s.cfg.TLSListen == "" {
		return nil
	}
	return s.bindTLS(ctx, own)
}

// bindTLS takes the address where everything is served by name, with the operator's certificate or one of the own authority.
func (s *server) bindTLS(ctx context.Context, own *tls.Config) error {
	plain, err := s.listen(ctx, "tls_listen", s.cfg.TLSListen, nil)
	if err != nil {
		return err
	}
	if own == nil {
		if own, err = s.openAuthority(plain); err != nil {
			return err
		}
	}
	if s.cfg.Domain == "" {
		s.log.Warn("tls_listen without domain: only Shoal's own API is served there, since dialects are told apart by host names below domain")
	}
	s.at.tls = &address{setting: plain.setting, listener: encrypt(plain.listener, own), tls: true}
	return nil
}

// openAuthority opens the installation's own authority, and has the certificate issued that is served at an address.
func (s *server) openAuthority(at *address) (*tls.Config, error) {
	domain, _ := s.cfg.DomainName()
	names := func() pki.Names { return pki.Names{Domain: domain, Addresses: ownAddresses(at.ip())} }
	authority, err := pki.Open(s.dir.join("ca"), names(), time.Now())
	if err != nil {
		return nil, err
	}
	if authority.Renewed() {
		s.log.Warn("the certificate authority has a new certificate, for other names or a longer time: give it to the clients (shoal ca)",
			slog.String("fingerprint", authority.Fingerprint()))
	}
	issuer := authority.Issuer(names, core.SystemClock{})
	if _, err := issuer.GetCertificate(nil); err != nil { // now rather than at the first connection
		return nil, err
	}
	s.at.authority = authority
	return &tls.Config{GetCertificate: issuer.GetCertificate, MinVersion: tls.VersionTLS12}, nil
}

// encrypt speaks TLS at a listener. Clients that want a WebSocket offer http/1.1 alone, all others get HTTP/2 if they can.
func encrypt(ln net.Listener, c *tls.Config) net.Listener {
	c = c.Clone()
	c.NextProtos = []string{"h2", "http/1.1"}
	return tls.NewListener(ln, c)
}

// ownAddresses are the machine's addresses that connections to an address come to: that itself, or all of them.
func ownAddresses(at netip.Addr) []net.IP {
	if at.IsValid() && !at.IsUnspecified() {
		return []net.IP{at.AsSlice()}
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil // Loopback is always there.
	}
	var list []net.IP
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() { // that one means nothing without an interface
			list = append(list, n.IP)
		}
	}
	return list
}

// listen takes one address, with TLS if c is not nil.
func (s *server) listen(ctx context.Context, setting, where string, c *tls.Config) (*address, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", where)
	if err != nil {
		flag := "--" + strings.NewReplacer(".", "-", "_", "-").Replace(setting)
		text := fmt.Sprintf("can't listen on %s, which is the setting %s: another program may use it, or the address is not this machine's: choose another with %s",
			where, setting, flag)
		if strings.Contains(setting, ".") {
			text += ", or switch it off with " + flag + " off"
		}
		return nil, core.Wrap(core.CodeUnavailable, err, "%s", text)
	}
	s.onClose(func() error {
		if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("close listener: %w", err)
		}
		return nil
	})
	if c != nil {
		ln = encrypt(ln, c)
	}
	return &address{setting: setting, listener: ln, tls: c != nil}, nil
}

// dialable is the address by which a client on this machine reaches a listener: one that takes every address has none of its own.
func dialable(listen string) string {
	addr, err := netip.ParseAddrPort(listen)
	if err != nil || !addr.Addr().IsUnspecified() {
		return listen
	}
	loopback := netip.IPv6Loopback()
	if addr.Addr().Is4() {
		loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.AddrPortFrom(loopback, addr.Port()).String()
}
