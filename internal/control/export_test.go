package control

import (
	"maps"

	"shoal/internal/core"
)

// ScopeNeeded is the table of which scope each use case takes.
func ScopeNeeded() map[string]core.Scope { return maps.Clone(scopeNeeded()) }
