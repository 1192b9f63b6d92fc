package e2b

import (
	"net/http"
	"strconv"
	"strings"

	"shoal/internal/core"
	"shoal/internal/httpserve"
)

// The headers that name a sandbox where one origin is shared by all.
const (
	headerSandbox = "E2b-Sandbox-Id"
	headerPort    = "E2b-Sandbox-Port"
)

// The host labels below the domain that are no sandboxes.
const (
	labelAPI    = "api"
	labelShared = "sandbox"
)

// place is what a request is for: a port of a sandbox, or the control plane if sandbox is empty.
type place struct {
	sandbox core.SandboxID
	port    uint16
}

// places tells from host and headers what a request is for.
type places struct {
	// domains are those below which sandboxes have names. localhost is always one: browsers and curl resolve what is below it to
	// loopback without asking anybody.
	domains []string
}

func newPlaces(domain string) places {
	p := places{domains: []string{"localhost"}}
	if d := strings.ToLower(strings.TrimSuffix(httpserve.HostOnly(domain), ".")); d != "" {
		p.domains = append(p.domains, d)
	}
	return p
}

// locate finds what a request is for. A host that names a sandbox decides by itself; headers count only where the host is
// shared by everybody. That the host is one of this server's is looked after by whoever listens.
func (p places) locate(hostport string, h http.Header) (place, error) {
	host := strings.ToLower(strings.TrimSuffix(httpserve.HostOnly(hostport), "."))
	for _, domain := range p.domains {
		label, below := strings.CutSuffix(host, "."+domain)
		if !below {
			continue
		}
		if label == labelAPI {
			return place{}, nil
		}
		if label == labelShared {
			at, err := byHeaders(h)
			if err == nil && at.sandbox == "" {
				err = core.Invalid(headerSandbox, "the headers %s and %s say which sandbox is meant: they are missing", headerSandbox, headerPort)
			}
			return at, err
		}
		return byLabel(label)
	}
	if label, _, ok := strings.Cut(host, "."); ok && label == labelAPI {
		return place{}, nil
	}
	return byHeaders(h)
}

// byHeaders finds the sandbox that the headers name; none if they don't.
func byHeaders(h http.Header) (place, error) {
	id := h.Get(headerSandbox)
	if id == "" {
		return place{}, nil
	}
	port, err := parsePort(h.Get(headerPort))
	if err != nil {
		return place{}, core.Invalid(headerPort, "the header %s is missing, or no port", headerPort)
	}
	return place{sandbox: sandboxID(id), port: port}, nil
}

// byLabel reads a host label of the form PORT-ID, or PORT-ID-ANYTHING as older clients build it.
func byLabel(label string) (place, error) {
	text, id, ok := strings.Cut(label, "-")
	port, err := parsePort(text)
	if !ok || err != nil || id == "" || strings.Contains(id, ".") {
		return place{}, core.Invalid("Host", "%q is neither %q nor PORT-SANDBOXID", clip(label), labelAPI)
	}
	return place{sandbox: sandboxID(id), port: port}, nil
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] == '+' {
		return 0, core.Invalid("port", "no port")
	}
	return uint16(n), nil
}

// sandboxID returns the id in what a client calls a sandbox: E2B's older clients add a dash and the id of a node.
func sandboxID(s string) core.SandboxID {
	id, _, _ := strings.Cut(s, "-")
	return core.SandboxID(id)
}

// sandboxRef is sandboxID for the control plane, where a name of ours does as well. A name can't look like an id.
func sandboxRef(s string) string {
	if id := string(sandboxID(s)); core.IsID(id) {
		return id
	}
	return s
}
