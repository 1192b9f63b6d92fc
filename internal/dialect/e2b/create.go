package e2b

import (
	"net/http"
	"net/netip"
	"strings"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/dialect"
)

// newSandbox is the body of a create.
type newSandbox struct {
	TemplateID string            `json:"templateID"`
	Timeout    *int64            `json:"timeout"`
	Metadata   map[string]string `json:"metadata"`
	EnvVars    map[string]string `json:"envVars"`
	// Secure is taken either way: the inside of a sandbox is never open to who has no token.
	Secure *bool `json:"secure"`
	// AllowInternet is taken either way: true asks for no more than the server's egress policy allows.
	AllowInternet   *bool          `json:"allow_internet_access"`
	AutoPause       bool           `json:"autoPause"`
	AutoPauseMemory *bool          `json:"autoPauseMemory"`
	AutoResume      autoResume     `json:"autoResume"`
	Network         network        `json:"network"`
	IAM             identity       `json:"iam"`
	MCP             map[string]any `json:"mcp"`
	VolumeMounts    []volumeMount  `json:"volumeMounts"`
}

type autoResume struct {
	Enabled bool   `json:"enabled"`
	Timeout *int64 `json:"timeout"`
}

type network struct {
	AllowOut           []string       `json:"allowOut"`
	DenyOut            []string       `json:"denyOut"`
	Rules              map[string]any `json:"rules"`
	EgressProxy        map[string]any `json:"egressProxy"`
	DNSServers         []string       `json:"dnsServers"`
	AllowPublicTraffic *bool          `json:"allowPublicTraffic"`
	MaskRequestHost    string         `json:"maskRequestHost"`
	HTTPSPorts         []any          `json:"httpsPorts"`
}

type identity struct {
	Tokens map[string]any `json:"tokens"`
}

type volumeMount struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// The lives of sandboxes whose caller named none.
const (
	defaultTimeoutV1 = 15
	defaultTimeoutV2 = 300
)

func (a *adapter) createV1(w http.ResponseWriter, r request) error {
	return a.create(w, r, defaultTimeoutV1)
}

func (a *adapter) createV2(w http.ResponseWriter, r request) error {
	return a.create(w, r, defaultTimeoutV2)
}

func (a *adapter) create(w http.ResponseWriter, r request, defaultTimeout int64) error {
	if r.Header.Get("Idempotency-Key") != "" {
		return unsupported("Idempotency-Key", "idempotency keys aren't supported: leave the key out, and find what a lost reply left by its metadata")
	}
	var body newSandbox
	if err := decode(w, r, &body); err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	seconds := defaultTimeout
	if body.Timeout != nil {
		seconds = *body.Timeout
	}
	if seconds <= 0 {
		return core.Invalid("timeout", "Timeout must be greater than 0")
	}
	ttl, err := a.ttl(r.principal, seconds)
	if err != nil {
		return err
	}
	sb, err := a.Control.CreateSandbox(r.Context(), r.principal, core.SandboxSpec{
		Template: a.template(body.TemplateID), TTL: ttl, Env: body.EnvVars, Labels: body.Metadata,
	})
	if err != nil {
		return asE2B(err)
	}
	dialect.CallOf(r.Context()).Sandbox = string(sb.ID)
	return writeJSON(w, http.StatusCreated, a.opened(sb))
}

// template is our name for a template of the caller's. Names may carry E2B's tag of what is newest.
func (a *adapter) template(id string) string {
	return a.Template(strings.TrimSuffix(id, ":default"))
}

// ttl is a timeout as a duration, within what the server allows.
func (a *adapter) ttl(p control.Principal, seconds int64) (time.Duration, error) {
	most := a.Control.Limits(p).MaxTTL
	if seconds > int64(most/time.Second) {
		return 0, core.Invalid("timeout", "Timeout cannot be greater than %s", hours(most))
	}
	return time.Duration(seconds) * time.Second, nil
}

// check refuses what the server can't do. What asks for the default asks for nothing.
func (b newSandbox) check() error {
	switch {
	case b.TemplateID == "":
		return core.Invalid("templateID", "templateID is missing: name a template, such as base")
	case b.AutoPause:
		return unsupported("autoPause", "this server can't pause sandboxes yet: a sandbox is killed at its timeout (lifecycle onTimeout: kill), which setTimeout moves")
	case b.AutoPauseMemory != nil && !*b.AutoPauseMemory:
		return core.Invalid("autoPauseMemory", "autoPauseMemory needs autoPause, which this server doesn't have yet")
	case b.AutoResume.Enabled || b.AutoResume.Timeout != nil:
		return unsupported("autoResume", "this server can't pause and resume sandboxes yet: leave autoResume out")
	case len(b.IAM.Tokens) > 0:
		return unsupported("iam", "this server gives sandboxes no workload identity: leave iam out")
	case b.MCP != nil:
		return unsupported("mcp", "this server has no MCP gateway: leave mcp out")
	case len(b.VolumeMounts) > 0:
		return unsupported("volumeMounts", "this server has no volumes yet: leave volumeMounts out")
	}
	return b.Network.check()
}

// check takes a policy that asks for nothing to be reachable, which is what is enforced, and refuses any other.
func (n network) check() error {
	for _, d := range n.DenyOut {
		_, notPrefix := netip.ParsePrefix(d)
		_, notAddr := netip.ParseAddr(d)
		if notPrefix != nil && notAddr != nil {
			return core.Invalid("network.denyOut", "network.denyOut: %q is neither an IP address nor a CIDR block", clip(d))
		}
	}
	for _, f := range []struct {
		asked       bool
		name, words string
	}{
		{len(n.AllowOut) > 0, "allowOut", "nothing outside can be reached from a sandbox yet"},
		{len(n.Rules) > 0, "rules", "requests can't be changed on their way out yet"},
		{len(n.EgressProxy) > 0, "egressProxy", "nothing outside can be reached from a sandbox yet"},
		{len(n.DNSServers) > 0, "dnsServers", "nothing outside can be reached from a sandbox yet"},
		{n.AllowPublicTraffic != nil && !*n.AllowPublicTraffic, "allowPublicTraffic", "ports of sandboxes are not exposed yet, with or without a token"},
		{n.MaskRequestHost != "", "maskRequestHost", "ports of sandboxes are not exposed yet"},
		{len(n.HTTPSPorts) > 0, "httpsPorts", "nothing outside can be reached from a sandbox yet"},
	} {
		if f.asked {
			return unsupported("network."+f.name, "network.%s: %s: leave it out", f.name, f.words)
		}
	}
	return nil
}

func unsupported(field, format string, args ...any) error {
	e := core.Errorf(core.CodeUnsupported, format, args...)
	e.Field = field
	return e
}
