package core

import (
	"slices"
	"strings"
)

// Scope is one thing that a key may be good for.
type Scope string

// The scopes. Who may start processes in a sandbox can read and write its files by them.
const (
	// ScopeSandboxesRead is to find sandboxes and see what they use, ScopeSandboxesWrite to create, change and delete them.
	ScopeSandboxesRead  Scope = "sandboxes:read"
	ScopeSandboxesWrite Scope = "sandboxes:write"
	// ScopeExecs is everything about processes, ScopeFiles everything about files.
	ScopeExecs Scope = "execs"
	ScopeFiles Scope = "files"
	// ScopeTemplatesRead is to find templates, ScopeTemplatesWrite to make and delete the tenant's own.
	ScopeTemplatesRead  Scope = "templates:read"
	ScopeTemplatesWrite Scope = "templates:write"
	ScopeEventsRead     Scope = "events:read"
	// ScopeUsageRead is to see quotas, and what is used of them and was used.
	ScopeUsageRead Scope = "usage:read"
	// ScopeKeys is to make narrower keys, to list and to delete them; ScopeAuditRead to see who did what.
	ScopeKeys      Scope = "keys"
	ScopeAuditRead Scope = "audit:read"
	// ScopeAdmin is the server's operator: all tenants, and all other scopes in each.
	ScopeAdmin Scope = "admin"
)

// Scopes lists every scope.
func Scopes() []Scope {
	return []Scope{
		ScopeSandboxesRead, ScopeSandboxesWrite, ScopeExecs, ScopeFiles, ScopeTemplatesRead, ScopeTemplatesWrite,
		ScopeEventsRead, ScopeUsageRead, ScopeKeys, ScopeAuditRead, ScopeAdmin,
	}
}

// OrdinaryScopes are those of a key that was made without a word on it: all of a tenant's work, and nothing about who else may do it.
func OrdinaryScopes() ScopeSet {
	return AllScopes().Without(ScopeKeys, ScopeAuditRead, ScopeAdmin)
}

// AllScopes are the operator's.
func AllScopes() ScopeSet { return ScopesOf(Scopes()...) }

// ScopeSet is a set of scopes. The zero value is none.
type ScopeSet uint32

// ScopesOf makes a set. A word that is no scope is left out: see ParseScopes.
func ScopesOf(list ...Scope) (set ScopeSet) {
	for _, s := range list {
		if i := slices.Index(Scopes(), s); i >= 0 {
			set |= 1 << i
		}
	}
	return set
}

// ParseScopes makes a set of words, and refuses one that is no scope.
func ParseScopes(field string, words []string) (set ScopeSet, err error) {
	for _, w := range words {
		one := ScopesOf(Scope(w))
		if one == 0 {
			return 0, Invalid(field, "there is no scope %.64q: there are %s", w, AllScopes())
		}
		set |= one
	}
	return set, nil
}

// Has reports whether a scope is in the set.
func (s ScopeSet) Has(scope Scope) bool { return s&ScopesOf(scope) != 0 }

// Without returns the set less some scopes.
func (s ScopeSet) Without(list ...Scope) ScopeSet { return s &^ ScopesOf(list...) }

// List returns the scopes in the set, in their order.
func (s ScopeSet) List() (list []Scope) {
	for i, scope := range Scopes() {
		if s&(1<<i) != 0 {
			list = append(list, scope)
		}
	}
	return list
}

// String returns the scopes with commas.
func (s ScopeSet) String() string {
	var words []string
	for _, scope := range s.List() {
		words = append(words, string(scope))
	}
	return strings.Join(words, ", ")
}
