package core

import "time"

// SystemTenant owns the templates that come with the server.
const SystemTenant TenantID = "system"

// DefaultTenant is the tenant that the admin key acts for.
const DefaultTenant TenantID = "default"

// TemplateState says whether a template version can be used.
type TemplateState string

// The template states.
const (
	TemplateBuilding TemplateState = "building"
	TemplateReady    TemplateState = "ready"
	TemplateFailed   TemplateState = "failed"
)

// Visibility says who may start sandboxes from a template.
type Visibility string

// The visibilities.
const (
	VisibilityPrivate Visibility = "private"
	VisibilityPublic  Visibility = "public"
)

// Template is one immutable version of a sandbox's start: a frozen root tree and the defaults of what runs in it.
type Template struct {
	ID         TemplateID
	Tenant     TenantID
	Name       string
	Version    int64
	Visibility Visibility
	State      TemplateState
	// Source says how it was made, such as "debian bookworm, mmdebstrap".
	Source string
	// Digest is the sha256 of the tree's canonical listing, "sha256:…"; empty until ready.
	Digest string
	// SizeBytes is the size of the tree's files.
	SizeBytes int64
	Packages  []Package
	Config    TemplateConfig
	// Progress is the step under way in plain words, and Percent how far it is, 0 to 100.
	Progress  string
	Percent   int
	Failure   string
	CreatedAt time.Time
	ReadyAt   time.Time
}

// Package is one installed distribution package.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// TemplateConfig are the defaults of processes started in a sandbox of the template.
type TemplateConfig struct {
	// User is the default user of an exec: a name or a number, of an image also "user:group".
	User    string            `json:"user"`
	Workdir string            `json:"workdir"`
	Env     map[string]string `json:"env,omitempty"`
	// Entrypoint and Cmd are what an image says is run in it. Nothing runs them by itself.
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	// Labels and Ports are what an image says of itself; a port is "8080/tcp". They are shown and change nothing.
	Labels map[string]string `json:"labels,omitempty"`
	Ports  []string          `json:"ports,omitempty"`
}
