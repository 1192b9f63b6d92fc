package store

import (
	"time"

	"shoal/internal/core"
)

// EventFilter selects events. A zero field selects nothing out.
type EventFilter struct {
	Sandbox core.SandboxID
	// Types selects events of one of these types, at most MaxEventTypes.
	Types []core.EventType
	// Actor is the id of who caused it.
	Actor string
	// Labels must all be among those that the event's sandbox has, or had last. At most 100.
	Labels map[string]string
	// Since and Until bound when it happened; Until itself is not selected.
	Since, Until time.Time
}

// MaxEventTypes is the greatest number of types of a filter.
const MaxEventTypes = 50

// EventPage is some events, oldest first.
type EventPage struct {
	Events []core.Event
	// Oldest is the first sequence number that is still kept.
	Oldest int64
	// Through is the sequence number up to which Events holds all that the filter selects: where the next page begins.
	Through int64
}

// EventReader reads events.
type EventReader interface {
	// FindEvents returns a tenant's events after a sequence number that a filter selects, oldest first. There is more if Through is less than the
	// tenant's last sequence number.
	FindEvents(tenant core.TenantID, filter EventFilter, after int64, limit int) (EventPage, error)
}
