package control

import (
	"maps"
	"sync"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// Principal is who makes a call: every call is scoped to its tenant.
type Principal struct {
	Tenant core.TenantID
	Actor  core.Actor
	// Admin is the operator of the server, who may act for every tenant and has every scope.
	Admin bool
	// Scopes are what it may do.
	Scopes core.ScopeSet
	// Labels restrict it to the sandboxes that have them all: it sees no others, and what it creates gets them.
	Labels map[string]string
	// Quota is what the tenant may have, for the bounds that are held before a use case is called.
	Quota core.Quota
	// Sandbox, unless it is empty, is all that the caller may touch: it showed a sandbox's access token and no key. Inside the
	// sandbox it may do everything; what becomes of the sandbox itself is for keys.
	Sandbox core.SandboxID

	// home is the tenant of the key, which an operator's call may leave; expires is when the key does.
	home    core.TenantID
	expires time.Time
	// acting says that it is an operator's who has named the tenant.
	acting bool
	// root says that its key descends from none, name is the key's.
	root bool
	name string
	// seen is how much had been taken away when it was let in: see live.
	seen uint64
}

// actorKey is the kind of an actor who showed a key.
const actorKey = "key"

// scopeNeeded says which scope each use case takes; the empty one is that any key may. A use case asks may for it first, and a test
// walks them all. Limits to one's own tenant, to labels and to a token's sandbox come on top of it: see find.
var scopeNeeded = sync.OnceValue(func() map[string]core.Scope {
	return map[string]core.Scope{
		"CreateSandbox":      core.ScopeSandboxesWrite,
		"CreateSandboxes":    core.ScopeSandboxesWrite,
		"GetOrCreateSandbox": core.ScopeSandboxesWrite,
		"ForkSandbox":        core.ScopeSandboxesWrite,
		"UpdateSandbox":      core.ScopeSandboxesWrite,
		"DeleteSandbox":      core.ScopeSandboxesWrite,
		"StopSandbox":        core.ScopeSandboxesWrite,
		"WakeSandbox":        core.ScopeSandboxesWrite,
		"RestoreSandbox":     core.ScopeSandboxesWrite,
		"ResetSandbox":       core.ScopeSandboxesWrite,
		"GetSandbox":         core.ScopeSandboxesRead,
		"ListSandboxes":      core.ScopeSandboxesRead,
		"Metrics":            core.ScopeSandboxesRead,
		"Why":                core.ScopeSandboxesRead,
		"Touch":              core.ScopeSandboxesRead,

		"DeleteSandboxWithCheckpoints": core.ScopeSandboxesWrite,

		"Exec":           core.ScopeExecs,
		"RunExec":        core.ScopeExecs,
		"AttachExec":     core.ScopeExecs,
		"GetExec":        core.ScopeExecs,
		"FindExec":       core.ScopeExecs,
		"ListExecs":      core.ScopeExecs,
		"SignalExec":     core.ScopeExecs,
		"CancelExec":     core.ScopeExecs,
		"ResizeExec":     core.ScopeExecs,
		"WriteExecStdin": core.ScopeExecs,
		"Files":          core.ScopeFiles,
		"ReadFiles":      core.ScopeFiles,
		"KeepWatch":      core.ScopeFiles,
		"WatchEvents":    core.ScopeFiles,
		"EndWatch":       core.ScopeFiles,
		"SignFile":       core.ScopeFiles,
		"DiffSandbox":    core.ScopeFiles,

		"CreateCheckpoint": core.ScopeSandboxesWrite,
		"UpdateCheckpoint": core.ScopeSandboxesWrite,
		"DeleteCheckpoint": core.ScopeSandboxesWrite,
		"GetCheckpoint":    core.ScopeSandboxesRead,
		"ListCheckpoints":  core.ScopeSandboxesRead,

		"ListTemplates": core.ScopeTemplatesRead,
		"GetTemplate":   core.ScopeTemplatesRead,
		"Events":        core.ScopeEventsRead,
		"FindEvents":    core.ScopeEventsRead,
		"Usage":         core.ScopeUsageRead,

		"CreateTemplate": core.ScopeTemplatesWrite,
		"TagTemplate":    core.ScopeTemplatesWrite,
		"UntagTemplate":  core.ScopeTemplatesWrite,
		"DeleteTemplate": core.ScopeTemplatesWrite,
		"PutUpload":      core.ScopeTemplatesWrite,
		"DeleteUpload":   core.ScopeTemplatesWrite,
		// A login is for templates alone: who makes them keeps it.
		"PutRegistryLogin":    core.ScopeTemplatesWrite,
		"DeleteRegistryLogin": core.ScopeTemplatesWrite,
		"GetRegistryLogin":    core.ScopeTemplatesRead,
		"ListRegistryLogins":  core.ScopeTemplatesRead,
		// All operations there are make templates.
		"ListOperations":  core.ScopeTemplatesRead,
		"GetOperation":    core.ScopeTemplatesRead,
		"AwaitOperation":  core.ScopeTemplatesRead,
		"CancelOperation": core.ScopeTemplatesWrite,

		"NewKey":    core.ScopeKeys,
		"ListKeys":  core.ScopeKeys,
		"DeleteKey": core.ScopeKeys,

		"CreateTenant": core.ScopeAdmin,
		"GetTenant":    core.ScopeAdmin,
		"ListTenants":  core.ScopeAdmin,
		"UpdateTenant": core.ScopeAdmin,
		"DeleteTenant": core.ScopeAdmin,
		"Quota":        core.ScopeUsageRead,
		"ListAudit":    core.ScopeAuditRead,

		"ActFor":   "",
		"Capacity": core.ScopeAdmin,
	}
})

// may refuses who lacks the scope that a use case takes. Every use case asks it before all else, by its own name.
func (p Principal) may(useCase string) error {
	need, known := scopeNeeded()[useCase]
	switch {
	case !known:
		return core.Errorf(core.CodeInternal, "the use case %s has no scope", useCase)
	case need == "" || p.Scopes.Has(need):
		return nil
	}
	return core.Errorf(core.CodeDenied, "the key lacks the scope %s, which this takes", need)
}

// find returns a sandbox of the caller's by id or name. Every use case that takes a ref finds its sandbox here, so that a
// caller who holds an access token, or a key for some sandboxes, sees of others what it would see of ids that don't exist.
func (p Principal) find(r store.Reader, ref string) (core.Sandbox, error) {
	sb, err := r.Sandbox(p.Tenant, ref)
	if err == nil && !p.sees(sb) {
		return core.Sandbox{}, core.Errorf(core.CodeNotFound, "no such sandbox")
	}
	return sb, err
}

// findToChange is find for what changes or ends the sandbox itself.
func (p Principal) findToChange(r store.Reader, ref string) (core.Sandbox, error) {
	sb, err := p.find(r, ref)
	if err != nil {
		return sb, err
	}
	return sb, p.needKey()
}

// sees reports whether a sandbox, of whatever tenant, is the caller's to touch.
func (p Principal) sees(sb core.Sandbox) bool {
	return sb.Tenant == p.Tenant && (p.Sandbox == "" || p.Sandbox == sb.ID) && hasLabels(sb.Labels, p.Labels)
}

func hasLabels(labels, want map[string]string) bool {
	for k, v := range want {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// needKey refuses a caller who holds an access token. Every use case that takes no ref asks it.
func (p Principal) needKey() error {
	if p.Sandbox != "" {
		return core.Errorf(core.CodeDenied, "an access token opens the inside of one sandbox: this needs an API key")
	}
	return nil
}

// needAll refuses a caller who sees only some of the tenant's sandboxes. What sums up or shows all of them asks it.
func (p Principal) needAll() error {
	if err := p.needKey(); err != nil || len(p.Labels) == 0 {
		return err
	}
	return core.Errorf(core.CodeDenied, "the key is for the sandboxes that have its labels: ask of one of them")
}

// labeled returns the labels of what the caller creates, which are those asked for with those that it is restricted to, and
// refuses others in their place.
func (p Principal) labeled(labels map[string]string) (map[string]string, error) {
	if len(p.Labels) == 0 {
		return labels, nil
	}
	out := maps.Clone(p.Labels)
	for k, v := range labels {
		if must, ok := p.Labels[k]; ok && must != v {
			return nil, core.Invalid("labels", "the key is for sandboxes whose label %s is %q", clip(k), clip(must))
		}
		out[k] = v
	}
	return out, nil
}
