package control

import (
	"shoal/internal/core"
	"shoal/internal/store"
)

// Principal is who makes a call: every call is scoped to its tenant.
type Principal struct {
	Tenant core.TenantID
	Actor  core.Actor
	Admin  bool
	// Sandbox, unless it is empty, is all that the caller may touch: it showed a sandbox's access token and no key. Inside the
	// sandbox it may do everything; what becomes of the sandbox itself is for keys.
	Sandbox core.SandboxID
}

// find returns a sandbox of the caller's by id or name. Every use case that takes a ref finds its sandbox here, so that a
// caller who holds an access token sees of other sandboxes what it would see of ids that don't exist.
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
	return sb.Tenant == p.Tenant && (p.Sandbox == "" || p.Sandbox == sb.ID)
}

// needKey refuses a caller who holds an access token. Every use case that takes no ref asks it first.
func (p Principal) needKey() error {
	if p.Sandbox != "" {
		return core.Errorf(core.CodeDenied, "an access token opens the inside of one sandbox: this needs an API key")
	}
	return nil
}
