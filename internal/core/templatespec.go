package core

import "time"

// TemplateSpec is what a caller asks for when it makes a template.
type TemplateSpec struct {
	Name string
	// Tags will point to the new version.
	Tags []string
	// Exactly one of these says where it comes from. Image has no archive: what a caller uploads is an Upload.
	Image      ImageSource
	Upload     UploadID
	Sandbox    string
	Checkpoint string
	// Config replaces what its source says of how processes are started.
	Config TemplateOverrides
	// Once, unless it is nil, makes a repeat of the call return the operation that the first one began. Its digest is not of the password.
	Once *Once
}

// TemplateOverrides replace parts of a config. A nil field is left as it is; of Env each variable replaces one.
type TemplateOverrides struct {
	User, Workdir   *string
	Env             map[string]string
	Entrypoint, Cmd *[]string
}

// Apply returns a config with the overrides.
func (o TemplateOverrides) Apply(c TemplateConfig) TemplateConfig {
	if o.User != nil {
		c.User = *o.User
	}
	if o.Workdir != nil {
		c.Workdir = *o.Workdir
	}
	if len(o.Env) > 0 {
		env := map[string]string{}
		for _, from := range []map[string]string{c.Env, o.Env} {
			for k, v := range from {
				env[k] = v
			}
		}
		c.Env = env
	}
	if o.Entrypoint != nil {
		c.Entrypoint = *o.Entrypoint
		if o.Cmd == nil {
			c.Cmd = nil // Its arguments were for the other one.
		}
	}
	if o.Cmd != nil {
		c.Cmd = *o.Cmd
	}
	return c
}

// UploadID names what a caller has uploaded for one use.
type UploadID string

// Upload is an archive that a caller has uploaded. It is removed once it is used, or after a while.
type Upload struct {
	ID        UploadID
	SizeBytes int64
	// Digest is the sha256 of its bytes, "sha256:…".
	Digest    string
	ExpiresAt time.Time
}
