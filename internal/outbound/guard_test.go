package outbound_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"shoal/internal/core"
	"shoal/internal/outbound"
)

// names is a resolver with fixed answers. Each question for a name takes the next of its answers, the last for ever.
type names struct {
	answers map[string][][]string
	asked   atomic.Int64
}

func (n *names) LookupNetIP(_ context.Context, _, host string) (list []netip.Addr, err error) {
	all := n.answers[host]
	if len(all) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	for _, a := range all[min(int(n.asked.Add(1))-1, len(all)-1)] {
		list = append(list, netip.MustParseAddr(a))
	}
	return list, nil
}

func fixed(pairs ...string) *names {
	n := &names{answers: map[string][][]string{}}
	for i := 0; i < len(pairs); i += 2 {
		n.answers[pairs[i]] = [][]string{strings.Fields(pairs[i+1])}
	}
	return n
}

// TestRefused walks the forms of addresses that lead to where tenants may not go, given as they are and by name.
func TestRefused(t *testing.T) {
	for _, ip := range []string{
		"127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "0.1.2.3", "::", "169.254.169.254", "fe80::1", "fe80::1%lo", "fd00:ec2::254",
		"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.127.255.255", "fc00::1", "fd12::1", "fec0::1",
		"192.0.0.192", "192.0.2.1", "198.18.0.1", "203.0.113.7", "224.0.0.1", "255.255.255.255", "240.0.0.1", "ff02::1",
		"::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::127.0.0.1", "::10.0.0.1", "::8.8.8.8", "::ffff:0:8.8.8.8",
		"64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1", "64:ff9b:1::8.8.8.8", "2002:7f00:1::1", "2002:808:808::1",
		"2001:0:808:808::1", "2001:db8::1", "2001:10::1", "3fff::1", "100::1", "4000::1", "5f00::1", "a000::1",
	} {
		g := outbound.New(outbound.Config{Resolver: fixed("name.test", ip, "mixed.test", "8.8.8.8 "+ip)})
		hosts := []string{ip, "name.test", "mixed.test"}
		for _, host := range hosts {
			err := g.Check(t.Context(), net.JoinHostPort(host, "443"))
			if !core.IsCode(err, core.CodeDenied) {
				t.Errorf("%s as %s: %v", ip, host, err)
			}
			var e *core.Error
			if errors.As(err, &e) && host != ip && strings.Contains(e.Message, ip) {
				t.Errorf("%s: what a name means inside is told: %s", host, e.Message)
			}
		}
	}
	for _, ip := range []string{"8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"} {
		if err := outbound.New(outbound.Config{}).Check(t.Context(), net.JoinHostPort(ip, "443")); err != nil {
			t.Errorf("%s is public: %v", ip, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	g := outbound.New(outbound.Config{Resolver: fixed()})
	for _, address := range []string{"", "8.8.8.8", "8.8.8.8:", "8.8.8.8:0", "8.8.8.8:http", "8.8.8.8:65536", "8.8.8.8:-1"} {
		if err := g.Check(t.Context(), address); !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("%q: %v", address, err)
		}
	}
	// What some resolvers take for an address is a name here, and there is no such name.
	for _, address := range []string{"127.1:80", "2130706433:80", "0x7f.0.0.1:80", "0177.0.0.1:80", "nowhere.test:80"} {
		if err := g.Check(t.Context(), address); !core.IsCode(err, core.CodeUnavailable) {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := g.DialContext(t.Context(), "unix", "/run/x.sock"); !core.IsCode(err, core.CodeDenied) {
		t.Errorf("a socket of the machine: %v", err)
	}
}

// TestExceptions: the operator's list opens what it names and nothing else, and never this server.
func TestExceptions(t *testing.T) {
	own := netip.MustParseAddrPort("127.0.0.1:8700")
	anywhere := netip.MustParseAddrPort("0.0.0.0:8701")
	g := outbound.New(outbound.Config{
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("0.0.0.0/32")},
		Own:   func() []netip.AddrPort { return []netip.AddrPort{own, anywhere} },
	})
	for address, ok := range map[string]bool{
		"127.0.0.1:5000": true, "10.1.2.3:443": true, "[::ffff:10.1.2.3]:443": true, "[64:ff9b::10.1.2.3]:443": true,
		"10.2.0.1:443": false, "192.168.0.1:443": false, "[::1]:5000": false,
		"127.0.0.1:8700": false, "[::ffff:127.0.0.1]:8700": false, "0.0.0.0:8700": false, "0.0.0.0:5000": true,
		"127.0.0.1:8701": false, "127.0.0.2:8701": false, "127.0.0.2:8700": true,
	} {
		if err := g.Check(t.Context(), address); (err == nil) != ok || err != nil && !core.IsCode(err, core.CodeDenied) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestNoRebinding: a name server that answers something else the second time is only asked once.
func TestNoRebinding(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "inside") }))
	defer server.Close()
	at := netip.MustParseAddrPort(server.Listener.Addr().String())
	rebinding := &names{answers: map[string][][]string{"evil.test": {{"127.0.0.2"}, {"127.0.0.1"}}}}
	g := outbound.New(outbound.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, Resolver: rebinding})
	conn, err := g.DialContext(t.Context(), "tcp", net.JoinHostPort("evil.test", portOf(at)))
	if err == nil {
		_ = conn.Close()
		t.Error("it reached what the second answer named")
	}
	if n := rebinding.asked.Load(); n != 1 {
		t.Errorf("asked %d times for one dial", n)
	}
}

// TestReason: why a host can't be reached is said, and not what its name means.
func TestReason(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := portOf(netip.MustParseAddrPort(l.Addr().String()))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	g := outbound.New(outbound.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Resolver: fixed("registry.test", "127.0.0.1")})
	_, err = g.DialContext(t.Context(), "tcp", "registry.test:"+closed)
	var e *core.Error
	if want := "registry.test:" + closed + " can't be reached: the connection is refused there"; !errors.As(err, &e) || e.Code != core.CodeUnavailable || e.Message != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func portOf(at netip.AddrPort) string { return at.String()[strings.LastIndex(at.String(), ":")+1:] }

// TestRedirects: where a redirect leads is judged like any other target.
func TestRedirects(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect reached it") }))
	defer inside.Close()
	var to string
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }))
	defer outside.Close()
	insideAt := netip.MustParseAddrPort(inside.Listener.Addr().String())
	g := outbound.New(outbound.Config{
		Allow:    []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Own:      func() []netip.AddrPort { return []netip.AddrPort{insideAt} },
		Resolver: fixed("public.test", "127.0.0.1", "inside.test", "192.168.7.7"),
	})
	transport := g.Transport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	outsideURL := "http://public.test:" + portOf(netip.MustParseAddrPort(outside.Listener.Addr().String()))
	for _, to = range []string{inside.URL, "http://public.test:" + portOf(insideAt), "http://inside.test/", "http://169.254.169.254/", "file:///etc/passwd"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, outsideURL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			t.Errorf("%s was followed", to)
		} else if !core.IsCode(err, core.CodeDenied) {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// TestProxy: behind the operator's proxy the request goes there, a literal target is still judged, and the environment is not asked.
func TestProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	var seen atomic.Value
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.URL.String())
		_, _ = io.WriteString(w, "by proxy")
	}))
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := outbound.New(outbound.Config{Proxy: at, Resolver: fixed("inside.test", "10.0.0.1", "outside.test", "8.8.8.8")}).Transport()
	defer transport.CloseIdleConnections()
	for target, ok := range map[string]bool{
		"http://only-the-proxy-knows.test/": true, "http://outside.test/": true,
		"http://inside.test/": false, "http://169.254.169.254/": false, "http://127.0.0.1:8700/": false,
	} {
		seen.Store("")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if (err == nil) != ok || (seen.Load() != "") != ok {
			t.Errorf("%s: %v, the proxy saw %q", target, err, seen.Load())
		}
		if err == nil {
			_ = resp.Body.Close()
		}
	}
}
