package core

import "time"

// AuditEntry is one call that changed something or tried to: who, from where, on what, with which outcome. Events are facts about a
// tenant's property and commit with them; this is about calls, refusals included.
type AuditEntry struct {
	// Seq rises by one per tenant, without gaps.
	Seq    int64
	Tenant TenantID
	At     time.Time
	Actor  Actor
	// ActorName is the name that the key had.
	ActorName string
	// Remote is the address that the call came from.
	Remote string
	// Operation is the API's name for the call, Target what it was about as the caller named it.
	Operation string
	Target    string
	// Code is why it failed, or the first that failed of many; empty if none did. Detail says how many there were of each, if it was
	// about many.
	Code      Code
	Detail    string
	RequestID string
}
