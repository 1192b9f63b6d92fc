package cli

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	shoal "shoal/sdk/go"
)

// defaultDataDir is where a server keeps its data unless it is told otherwise.
const defaultDataDir = "/var/lib/shoal"

// server is how a server is reached.
type server struct {
	url, key string
	// keyFile is the file that would have the key and can't be read; empty if there is none.
	keyFile string
	// caFile is the file of certificates to trust that was named; empty if none was.
	caFile string
}

// settings is the file cli.json.
type settings struct {
	URL    string `json:"url"`
	APIKey string `json:"api_key"`
	CAFile string `json:"ca_file"`
}

// client returns a client of the server that flags, environment, settings or the data directory name.
func (a *app) client() (*shoal.Client, error) {
	s, err := a.server()
	if err != nil {
		return nil, err
	}
	if s.key == "" && s.keyFile != "" {
		instead := "set SHOAL_API_KEY"
		if a.dataDir != "" { // which wins over it
			instead += ", with SHOAL_URL in place of --data-dir"
		}
		return nil, fmt.Errorf("can't read %s: run this as root (sudo), or %s", s.keyFile, instead)
	}
	return clientOf(a, s)
}

// anonymous returns a client without a key, for what is public.
func anonymous(a *app) (*shoal.Client, error) {
	s, err := a.server()
	if err != nil {
		return nil, err
	}
	s.key = ""
	return clientOf(a, s)
}

func clientOf(a *app, s server) (*shoal.Client, error) {
	trusted, err := trust(a, s)
	if err != nil {
		return nil, err
	}
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the standard library's transport has changed its type")
	}
	transport = transport.Clone()
	transport.TLSClientConfig = trusted
	transport.MaxIdleConnsPerHost = 2 * maxTransfers // Else transfers open a connection for most files.
	return &shoal.Client{
		BaseURL: s.url, APIKey: s.key, Tenant: cmp.Or(a.tenant, a.getenv("SHOAL_TENANT")), UserAgent: "shoal-cli/" + a.version,
		HTTPClient: &http.Client{Transport: named{transport, absolute(a.dataDir)}},
	}, nil
}

// named is a transport whose errors know which data directory was named for the server; none if it's empty.
type named struct {
	http.RoundTripper
	dataDir string
}

// absolute returns a path as serve takes it; an empty one stays empty.
func absolute(name string) string {
	if full, err := filepath.Abs(name); err == nil && name != "" {
		return full
	}
	return name
}

// RoundTrip passes the request on.
func (n named) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := n.RoundTripper.RoundTrip(req)
	if err != nil && n.dataDir != "" {
		err = &dataDirError{n.dataDir, err}
	}
	return resp, err
}

// dataDirError is why a server was not reached whose data directory was named.
type dataDirError struct {
	dir   string
	cause error
}

// Error returns the cause's text.
func (e *dataDirError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *dataDirError) Unwrap() error { return e.cause }

// server finds address and key. A key never goes to a server that it was not kept for: a data directory's only to the
// address in it, one of cli.json only to the address beside it.
func (a *app) server() (server, error) {
	if a.dataDir != "" {
		s, err := fromDataDir(a.dataDir)
		s.caFile = cmp.Or(a.caFile, a.getenv("SHOAL_CA_FILE"))
		if err == nil && a.url != "" {
			if !isLoopback(a.url) && !sameOrigin(a.url, s.url) {
				return s, fmt.Errorf("the key in %s is for the server on this machine and isn't sent to %s: set SHOAL_API_KEY and leave out --data-dir", a.dataDir, a.url)
			}
			s.url = a.url
		}
		if err == nil && s.url == "" {
			err = fmt.Errorf("no server has used %s yet: start one with 'shoal serve --data-dir %s'", a.dataDir, absolute(a.dataDir))
		}
		return s, err
	}
	saved, err := a.settings()
	if err != nil {
		return server{}, err
	}
	local, err := fromDataDir(a.defaultDir)
	if err != nil {
		return server{}, err
	}
	s := server{url: a.url, key: a.getenv("SHOAL_API_KEY"), caFile: cmp.Or(a.caFile, a.getenv("SHOAL_CA_FILE"))}
	if s.url == "" {
		s.url = a.getenv("SHOAL_URL")
	}
	if s.url == "" {
		s.url = saved.URL
	}
	if s.url == "" {
		s.url = local.url
	}
	if s.url == "" {
		s.url = shoal.DefaultURL
	}
	if s.caFile == "" && saved.URL != "" && sameOrigin(s.url, saved.URL) {
		s.caFile = saved.CAFile
	}
	switch {
	case s.key != "":
	case saved.URL != "" && sameOrigin(s.url, saved.URL):
		s.key = saved.APIKey
	case sameOrigin(s.url, local.url), local.url == "" && sameOrigin(s.url, shoal.DefaultURL):
		s.key, s.keyFile = local.key, local.keyFile
	}
	if s.keyFile != "" && !isLoopback(s.url) {
		s.keyFile = ""
	}
	return s, nil
}

// fromDataDir reads where the server of a data directory listens, and its admin key. What is not there stays empty.
func fromDataDir(dir string) (server, error) {
	var s server
	read := func(name string) (string, error) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return strings.TrimSpace(string(text)), err
	}
	var err error
	if s.url, err = read("url"); err != nil && !errors.Is(err, fs.ErrPermission) {
		return s, err
	}
	if s.key, err = read("admin.key"); errors.Is(err, fs.ErrPermission) {
		s.keyFile = filepath.Join(dir, "admin.key")
	} else if err != nil {
		return s, err
	}
	return s, nil
}

// settingsPath returns where cli.json is, empty if there is no home.
func (a *app) settingsPath() string {
	if dir := a.getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "shoal", "cli.json")
	}
	if home := a.getenv("HOME"); home != "" {
		return filepath.Join(home, ".config", "shoal", "cli.json")
	}
	return ""
}

// settings reads cli.json. A file that is not there is empty; an unknown field is refused.
func (a *app) settings() (settings, error) {
	var s settings
	name := a.settingsPath()
	if name == "" {
		return s, nil
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return s, fmt.Errorf(`%s: %w: it has {"url": "…", "api_key": "…", "ca_file": "…"}`, name, err)
	}
	return s, nil
}

// sameOrigin reports whether two addresses name the same server.
func sameOrigin(a, b string) bool {
	ua, errA := url.Parse(a)
	ub, errB := url.Parse(b)
	return errA == nil && errB == nil && ua.Scheme == ub.Scheme && strings.EqualFold(ua.Host, ub.Host)
}

// isLoopback reports whether an address is on this machine.
func isLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// unreachable says in words that no server answered, or returns "" if err is something else.
func unreachable(err error) string {
	var u *url.Error
	if !errors.As(err, &u) {
		return ""
	}
	origin := u.URL
	if parsed, perr := url.Parse(u.URL); perr == nil {
		origin = parsed.Scheme + "://" + parsed.Host
	}
	var op *net.OpError
	var dns *net.DNSError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return fmt.Sprintf("the certificate of the server at %s is not trusted here: %v; if it is yours, name the file of its issuer with --ca-file ('shoal ca' on its machine prints that)",
			origin, untrusted.Err)
	case errors.As(err, &dns):
		return fmt.Sprintf("can't reach the server at %s: its name is not known", origin)
	case errors.As(err, &op) && op.Op == "dial" && isLoopback(origin):
		serve := "shoal serve"
		var of *dataDirError
		if errors.As(err, &of) {
			serve += " --data-dir " + of.dir
		}
		return fmt.Sprintf("can't reach the server at %s: start it with '%s'", origin, serve)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Sprintf("can't reach the server at %s: %v", origin, op.Err)
	}
	return fmt.Sprintf("the connection to the server at %s broke off: %v", origin, u.Err)
}
