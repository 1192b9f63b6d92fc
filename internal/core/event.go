package core

import (
	"strings"
	"time"
)

// EventType names what happened, as noun.verb.
type EventType string

// The event types.
const (
	EventSandboxCreating EventType = "sandbox.creating"
	EventSandboxRunning  EventType = "sandbox.running"
	// EventSandboxStopping and EventSandboxWaking: a stop or a wake has begun. The next one of its state says how that ended: after a stop
	// sandbox.stopped, after a wake sandbox.running, each with a reason if it came otherwise.
	EventSandboxStopping EventType = "sandbox.stopping"
	EventSandboxStopped  EventType = "sandbox.stopped"
	EventSandboxWaking   EventType = "sandbox.waking"
	// EventSandboxRestoring: a restore has begun, of what Data names, and sandbox.restored or sandbox.failed says how it ended.
	EventSandboxRestoring EventType = "sandbox.restoring"
	EventSandboxRestored  EventType = "sandbox.restored"
	EventSandboxFailed    EventType = "sandbox.failed"
	EventSandboxDeleted   EventType = "sandbox.deleted"
	// EventSandboxResized: its resources are others from here on; Data has vcpus and memory_bytes as they are now.
	EventSandboxResized EventType = "sandbox.resized"
	EventExecStarted    EventType = "exec.started"
	EventExecEnded      EventType = "exec.ended"
	EventTemplateReady  EventType = "template.ready"
	EventTemplateFailed EventType = "template.failed"
	EventKeyCreated     EventType = "key.created"
	EventKeyDeleted     EventType = "key.deleted"
	EventTenantCreated  EventType = "tenant.created"
	EventTenantUpdated  EventType = "tenant.updated"
	EventTenantDeleted  EventType = "tenant.deleted"
)

// EventTypes lists every type.
func EventTypes() []EventType {
	return []EventType{
		EventSandboxCreating, EventSandboxRunning, EventSandboxStopping, EventSandboxStopped, EventSandboxWaking, EventSandboxRestoring, EventSandboxRestored, EventSandboxFailed, EventSandboxDeleted, EventSandboxResized,
		EventExecStarted, EventExecEnded, EventTemplateReady, EventTemplateFailed, EventKeyCreated, EventKeyDeleted,
		EventTenantCreated, EventTenantUpdated, EventTenantDeleted,
		EventTemplateImporting, EventTemplateDeleted, EventTemplateTagged, EventTemplateUntagged,
		EventOperationStarted, EventOperationEnded, EventLoginKept, EventLoginDeleted,
		EventCheckpointCreated, EventCheckpointDeleted, EventCheckpointFailed,
	}
}

// OfSandbox reports whether something happened to a sandbox as a whole, such as a change of its state.
func (t EventType) OfSandbox() bool { return strings.HasPrefix(string(t), "sandbox.") }

// Event is one thing that happened to a tenant's property. It commits in the transaction that made it true.
type Event struct {
	// Seq rises by one per tenant, without gaps.
	Seq     int64
	Tenant  TenantID
	Sandbox SandboxID
	Type    EventType
	At      time.Time
	Actor   Actor
	// Data holds a few string facts, such as state, reason or exec_id.
	Data map[string]string
}
