package store

import "shoal/internal/core"

// MaxPageBytes is the size at which a page takes no more records: so much of their text, as the functions below count it.
// With its last record a page may be larger, and a single record of any size is a page.
const MaxPageBytes = 4 << 20

// perText is what each text costs beside its bytes, in memory and in a reply.
const perText = 16

// SandboxSize returns how much text a sandbox holds that its caller chose.
func SandboxSize(b core.Sandbox) int {
	n := textSize(b.Name, b.TemplateName, b.Failure) + mapSize(b.Env) + mapSize(b.Labels)
	if b.Config != nil {
		n += configSize(*b.Config)
	}
	for _, r := range b.Rules {
		n += textSize(string(r.On), string(r.State), string(r.Action))
	}
	return n
}

// TemplateSize returns how much text a template holds.
func TemplateSize(t core.Template) int {
	n := textSize(t.Name, t.Source, t.Progress, t.Failure) + configSize(t.Config) + textSize(t.Tags...)
	for _, p := range t.Packages {
		n += textSize(p.Name, p.Version)
	}
	return n
}

// CheckpointSize returns how much text a checkpoint holds.
func CheckpointSize(c core.Checkpoint) int {
	return textSize(c.Comment, c.TemplateName) + mapSize(c.Labels) + configSize(c.Config)
}

func configSize(c core.TemplateConfig) int {
	return textSize(c.User, c.Workdir) + mapSize(c.Env) + mapSize(c.Labels) + textSize(c.Entrypoint...) + textSize(c.Cmd...) + textSize(c.Ports...)
}

// KeySize returns how much text a key holds.
func KeySize(k core.Key) int { return textSize(k.Name) + mapSize(k.Labels) }

// RegistryLoginSize returns how much text a kept login holds.
func RegistryLoginSize(l core.RegistryLogin) int { return textSize(l.Host, l.Username) + len(l.Sealed) }

// TenantSize returns how much text a tenant holds.
func TenantSize(t core.Tenant) int { return textSize(t.Name) + mapSize(t.Labels) }

// ExecSize returns how much text an exec holds.
func ExecSize(e core.Exec) int {
	s := e.Spec
	return textSize(s.Cmd...) + textSize(s.Shell, s.Cwd, s.User, s.Tag, e.Signal) + mapSize(s.Env)
}

// OperationSize returns how much text an operation holds.
func OperationSize(o core.Operation) int {
	return textSize(o.Intent, o.Progress.Step, o.Message) + mapSize(o.Target) + mapSize(o.Result)
}

// AuditSize returns how much text an entry of the audit holds.
func AuditSize(e core.AuditEntry) int {
	return textSize(e.Actor.Kind, e.Actor.ID, e.ActorName, e.Remote, e.Operation, e.Target, e.RequestID, e.Detail)
}

// EventSize returns how much text an event holds.
func EventSize(e core.Event) int { return textSize(e.Actor.Kind, e.Actor.ID) + mapSize(e.Data) }

// UsageSize returns how much text a row of usage holds.
func UsageSize(u core.UsageRow) int {
	return textSize(string(u.Tenant), string(u.Sandbox), u.Name, u.Template, u.Label) + mapSize(u.Labels)
}

func mapSize(m map[string]string) (n int) {
	for k, v := range m {
		n += textSize(k, v)
	}
	return n
}

// textSize counts text as JSON has it: a control character takes six bytes there.
func textSize(list ...string) (n int) {
	for _, s := range list {
		n += perText + len(s)
		for i := range len(s) {
			switch c := s[i]; {
			case c < ' ':
				n += len(`\u0000`) - 1
			case c == '"' || c == '\\':
				n++
			}
		}
	}
	return n
}
