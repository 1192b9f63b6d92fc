package shoal

import "shoal/api"

// The API's own types, which this package's calls take and return.
type (
	// Sandbox is one isolated machine.
	Sandbox = api.Sandbox
	// SandboxState is the one stable state of a sandbox.
	SandboxState = api.SandboxState
	// CreateSandboxRequest says what to create; its zero value takes every default.
	CreateSandboxRequest = api.CreateSandboxRequest
	// CreateSandboxesRequest says what to create many of.
	CreateSandboxesRequest = api.CreateSandboxesRequest
	// ForkSandboxRequest says how many forks to make, and what holds for each.
	ForkSandboxRequest = api.ForkSandboxRequest
	// UpdateSandboxRequest says what to change; a nil field stays as it is.
	UpdateSandboxRequest = api.UpdateSandboxRequest
	// SandboxMetrics is what a sandbox uses.
	SandboxMetrics = api.SandboxMetrics
	// LifecycleRule is a rule that a sandbox is to have: what is done to it by itself, and when.
	LifecycleRule = api.LifecycleRule
	// SandboxRule is a rule that a sandbox has.
	SandboxRule = api.SandboxRule
	// SandboxWhy says why a sandbox is as it is, what comes next, what it takes and what would be lost.
	SandboxWhy = api.SandboxWhy
	// SandboxUse is what uses a sandbox.
	SandboxUse = api.SandboxUse
	// ScheduledRule is a rule of a sandbox, with when it acts.
	ScheduledRule = api.ScheduledRule
	// SandboxCosts is what a sandbox takes.
	SandboxCosts = api.SandboxCosts
	// SandboxLoss is what would be lost.
	SandboxLoss = api.SandboxLoss
	// ExecRequest says what to run.
	ExecRequest = api.CreateExecRequest
	// ExecResult is the end of an exec that was waited for.
	ExecResult = api.ExecResult
	// Exec is one process that a caller started.
	Exec = api.Exec
	// Outcome says how an exec ended.
	Outcome = api.Outcome
	// ExecMessage is one message of an exec's stream.
	ExecMessage = api.ExecMessage
	// FileInfo describes a file inside a sandbox.
	FileInfo = api.FileInfo
	// FileChecksum is the digest of a file's content.
	FileChecksum = api.FileChecksum
	// FileEvent is one thing that happened to files.
	FileEvent = api.WatchMessage
	// FileEventType says what happened.
	FileEventType = api.WatchMessageType
	// Event is one thing that happened.
	Event = api.Event
	// EventList is some events.
	EventList = api.EventList
	// Checkpoint is the saved state of a sandbox at one moment.
	Checkpoint = api.Checkpoint
	// RestoreSandboxRequest says to which of its checkpoints a sandbox goes back.
	RestoreSandboxRequest = api.RestoreSandboxRequest
	// ResetSandboxRequest says how a sandbox goes back to what it was made from.
	ResetSandboxRequest = api.ResetSandboxRequest
	// RestoredSandbox is a sandbox that was restored, with the checkpoint of what was replaced.
	RestoredSandbox = api.RestoredSandbox
	// CreateCheckpointRequest says what to save; its zero value takes every default.
	CreateCheckpointRequest = api.CreateCheckpointRequest
	// UpdateCheckpointRequest says what to change of a checkpoint; a nil field stays as it is.
	UpdateCheckpointRequest = api.UpdateCheckpointRequest
	// Template is one immutable version of what sandboxes start from.
	Template = api.Template
	// CreateTemplateRequest says what template to make.
	CreateTemplateRequest = api.CreateTemplateRequest
	// Upload is an archive that the server keeps for one use.
	Upload = api.Upload
	// Operation is work that outlives the call that asked for it.
	Operation = api.Operation
	// OperationState says how an operation stands.
	OperationState = api.OperationState
	// Registry is a registry that the tenant keeps a login for.
	Registry = api.Registry
	// PutRegistryRequest is a login for a registry.
	PutRegistryRequest = api.PutRegistryRequest
	// CreateKeyRequest says what API key to make.
	CreateKeyRequest = api.CreateKeyRequest
	// Key is an API key.
	Key = api.Key
	// Tenant is an owner of sandboxes, templates and keys.
	Tenant = api.Tenant
	// TenantQuota is what a tenant may have.
	TenantQuota = api.TenantQuota
	// CreateTenantRequest says what tenant to make.
	CreateTenantRequest = api.CreateTenantRequest
	// UpdateTenantRequest says what to change; a nil field stays as it is.
	UpdateTenantRequest = api.UpdateTenantRequest
	// AuditEntry is one call that changed something or tried to.
	AuditEntry = api.AuditEntry
	// CA is an installation's own certificate authority.
	CA = api.CA
	// Dialect is another vendor's protocol that the server speaks.
	Dialect = api.Dialect
	// Version says which server answers.
	Version = api.Version
	// FileType is the type of a file.
	FileType = api.FileType
	// TemplateState says whether a template version can be used.
	TemplateState = api.TemplateState
	// MessageType says what a message of an exec stream carries.
	MessageType = api.ExecMessageType
)

// How an exec ended.
const (
	OutcomeExited   = api.OutcomeExited
	OutcomeSignaled = api.OutcomeSignaled
	OutcomeTimeout  = api.OutcomeTimeout
	OutcomeCanceled = api.OutcomeCanceled
	OutcomeLost     = api.OutcomeLost
)

// The states of a sandbox.
const (
	StateCreating   = api.SandboxStateCreating
	StateRunning    = api.SandboxStateRunning
	StateFrozen     = api.SandboxStateFrozen
	StateStandby    = api.SandboxStateStandby
	StateHibernated = api.SandboxStateHibernated
	StateStopped    = api.SandboxStateStopped
	StateFailed     = api.SandboxStateFailed
	StateDeleted    = api.SandboxStateDeleted
)

// The messages of an exec stream that a caller sees.
const (
	MessageStarted = api.ExecMessageTypeStarted
	MessageStdout  = api.ExecMessageTypeStdout
	MessageStderr  = api.ExecMessageTypeStderr
	MessageGap     = api.ExecMessageTypeGap
	MessageEnded   = api.ExecMessageTypeEnded
)

// The states of a template.
const (
	TemplateBuilding = api.TemplateStateBuilding
	TemplateReady    = api.TemplateStateReady
	TemplateFailed   = api.TemplateStateFailed
)

// The states of an operation.
const (
	OperationRunning   = api.OperationStateRunning
	OperationSucceeded = api.OperationStateSucceeded
	OperationFailed    = api.OperationStateFailed
	OperationCanceled  = api.OperationStateCanceled
)

// The types of a file.
const (
	FileRegular   = api.FileTypeFile
	FileDirectory = api.FileTypeDirectory
	FileSymlink   = api.FileTypeSymlink
	FileOther     = api.FileTypeOther
)

// Text splits bytes into the two forms in which the API takes them: text if they are UTF-8, else raw. Use it to fill a
// request's pair of fields, such as Stdin and StdinRaw.
func Text(b []byte) (text string, raw []byte) { return api.Text(b) }
