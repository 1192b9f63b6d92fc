package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// Bounds of one connection.
const (
	dialTimeout    = 15 * time.Second
	resolveTimeout = 10 * time.Second
	// maxAddresses is how many addresses of a name are tried.
	maxAddresses = 8
)

// Config is what the operator decided.
type Config struct {
	// Allow are the operator's exceptions: addresses that tenants may reach though they are not public.
	Allow []netip.Prefix
	// Own are the addresses at which this server listens. They are refused whatever Allow says; an unspecified one (0.0.0.0) stands for
	// every address of this machine. It is asked at each dial. Nil means none.
	Own func() []netip.AddrPort
	// Proxy is the site's proxy for the way out (http, https or socks5), nil for none. It is the operator's and reached as it is.
	Proxy *url.URL
	// Resolver is nil for the machine's own.
	Resolver Resolver
}

// Resolver finds the addresses of a name.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Guard dials for tenants. It may be used by many at once.
type Guard struct {
	cfg    Config
	dialer net.Dialer
}

// New returns a guard.
func New(cfg Config) *Guard {
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	return &Guard{cfg: cfg, dialer: net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}}
}

// DialContext connects to HOST:PORT by TCP if the guard lets it. Refused is denied; a name without an address, and a host that does not
// answer, is unavailable.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, core.Errorf(core.CodeDenied, "only TCP is dialed, not %s", network)
	}
	targets, err := g.resolve(ctx, address)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, target := range targets {
		conn, err := g.dialer.DialContext(ctx, "tcp", target.String())
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	err = errors.Join(errs...)
	return nil, core.Wrap(core.CodeUnavailable, err, "%s can't be reached%s", address, reason(err))
}

// reason says in plain words why a dial failed, as far as that may be told; else nothing.
func reason(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return ": the connection is refused there"
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		return ": there is no way to it from the server"
	case errors.Is(err, unix.ECONNRESET):
		return ": the connection is cut off there"
	case errors.As(err, &timeout) && timeout.Timeout():
		return ": it does not answer in time"
	}
	return ""
}

// Check judges HOST:PORT as DialContext would, without dialing.
func (g *Guard) Check(ctx context.Context, address string) error {
	_, err := g.resolve(ctx, address)
	return err
}

// resolve returns where an address leads, if it may be dialed. One forbidden address among several forbids the name: it is either a
// mistake or an attempt.
func (g *Guard) resolve(ctx context.Context, address string) ([]netip.AddrPort, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, core.Wrap(core.CodeInvalid, err, "%q is no HOST:PORT", address)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return nil, core.Errorf(core.CodeInvalid, "%q has no port that can be dialed", address)
	}
	ips, err := g.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	targets := make([]netip.AddrPort, 0, len(ips))
	for _, ip := range ips {
		target := netip.AddrPortFrom(ip, uint16(port))
		if err := g.judge(host, target); err != nil {
			return nil, err
		}
		targets = append(targets, target)
	}
	return targets[:min(len(targets), maxAddresses)], nil
}

// lookup returns the addresses of a host, which may be one itself.
func (g *Guard) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	ips, err := g.cfg.Resolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(ips) == 0 {
		return nil, core.Wrap(core.CodeUnavailable, fmt.Errorf("resolve: %w", err), "the name %q can't be resolved", host)
	}
	return ips, nil
}

// judge refuses a target that tenants may not reach. The address is part of the message only if the caller gave it: what a name resolves
// to inside the operator's network is not a tenant's to know.
func (g *Guard) judge(host string, target netip.AddrPort) error {
	ip := plain(target.Addr())
	if g.isOwn(netip.AddrPortFrom(ip, target.Port())) {
		return core.Errorf(core.CodeDenied, "%s is this server itself: it is never reached from here", host)
	}
	what := whatIs(target.Addr())
	if what == "" || target.Addr().Zone() == "" && slices.ContainsFunc(g.cfg.Allow, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return nil
	}
	return core.Wrap(core.CodeDenied, fmt.Errorf("%s is %s", target, what),
		"%s is not on the public internet (%s), and the operator's outbound.allow has no exception for it", host, what)
}

// isOwn reports whether this server listens at a target.
func (g *Guard) isOwn(target netip.AddrPort) bool {
	if g.cfg.Own == nil {
		return false
	}
	for _, own := range g.cfg.Own() {
		if own.Port() != target.Port() {
			continue
		}
		// Whoever dials 0.0.0.0 reaches loopback.
		if own.Addr().Unmap() == target.Addr() || target.Addr().IsUnspecified() {
			return true
		}
		if own.Addr().IsUnspecified() && isLocal(target.Addr()) {
			return true
		}
	}
	return false
}

// isLocal reports whether an address is one of this machine's.
func isLocal(ip netip.Addr) bool {
	if ip.IsLoopback() {
		return true
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		return true // Better refused than reached.
	}
	return slices.ContainsFunc(list, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		if !ok {
			return false
		}
		local, ok := netip.AddrFromSlice(n.IP)
		return ok && local.Unmap() == ip
	})
}
