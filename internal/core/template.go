package core

import (
	"strconv"
	"time"
)

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
	// TemplateDeleted is gone for every caller, with its tree still to be removed.
	TemplateDeleted TemplateState = "deleted"
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
	ID      TemplateID
	Tenant  TenantID
	Name    string
	Version int64
	// Tags point to this version; of one name no two versions have the same.
	Tags       []string
	Visibility Visibility
	State      TemplateState
	// Source says how it was made, such as "debian bookworm, mmdebstrap".
	Source string
	// Digest is the sha256 of the tree's canonical listing, "sha256:…"; empty until ready.
	Digest string
	// SizeBytes is the size of the tree's files.
	SizeBytes int64
	// OwnBytes is how much of SizeBytes it doesn't share with what it was made of.
	OwnBytes int64
	Packages []Package
	// Files is how many entries the tree has.
	Files  int64
	Config TemplateConfig
	// Progress is the step under way in plain words, and Percent how far it is, 0 to 100.
	Progress  string
	Percent   int
	Failure   string
	CreatedAt time.Time
	ReadyAt   time.Time
}

// Ref names exactly this version, as a person would.
func (t Template) Ref() string { return t.Name + "@" + strconv.FormatInt(t.Version, 10) }

// The events of templates. Their data name the template as name@version, its id and its digest.
const (
	EventTemplateImporting EventType = "template.importing"
	EventTemplateDeleted   EventType = "template.deleted"
	EventTemplateTagged    EventType = "template.tagged"
	EventTemplateUntagged  EventType = "template.untagged"
)

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
