package httpapi

import (
	"context"
	"io"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/obs"
	"shoal/internal/store"
)

// Control is what this package needs of control.Service. Every method is scoped to the principal's tenant; errors that
// are not *core.Error are internal and never shown.
type Control interface {
	Sandboxes
	Files
	Execs
	Checkpoints
	Templates
	Registries
	Operations
	Callers
	Keys
	Tenants
	Usage
	Server
}

// Callers find out who makes a call, and know of it while it is answered.
type Callers interface {
	Authenticate(ctx context.Context, secret string) (control.Principal, error)
	// ActFor returns the principal of an operator who acts for another tenant.
	ActFor(ctx context.Context, p control.Principal, ref string) (control.Principal, error)
	// Tie has end called when the caller may no longer act.
	Tie(p control.Principal, end func(cause error)) (release func(), err error)
	// Note writes down, soon, that a call was made.
	Note(p control.Principal, e core.AuditEntry)
}

// Tenants are the use cases on tenants, the operator's, and what a tenant is told of itself.
type Tenants interface {
	CreateTenant(ctx context.Context, p control.Principal, spec control.TenantSpec) (control.TenantState, error)
	GetTenant(ctx context.Context, p control.Principal, ref string) (control.TenantState, error)
	ListTenants(ctx context.Context, p control.Principal, page store.Page) ([]control.TenantState, string, error)
	UpdateTenant(ctx context.Context, p control.Principal, ref string, patch control.TenantPatch) (control.TenantState, error)
	DeleteTenant(ctx context.Context, p control.Principal, ref string, force bool) error
	Quota(ctx context.Context, p control.Principal) (control.TenantState, error)
	ListAudit(ctx context.Context, p control.Principal, f store.AuditFilter, page store.Page) ([]core.AuditEntry, string, error)
}

// Sandboxes are the use cases on sandboxes and what is inside them.
type Sandboxes interface {
	CreateSandbox(ctx context.Context, p control.Principal, spec core.SandboxSpec) (core.Sandbox, error)
	CreateSandboxes(ctx context.Context, p control.Principal, batch control.Batch, tell func(control.BatchResult) error) error
	GetOrCreateSandbox(ctx context.Context, p control.Principal, name string, spec core.SandboxSpec) (sb core.Sandbox, created bool, err error)
	ForkSandbox(ctx context.Context, p control.Principal, ref string, spec core.ForkSpec) ([]core.Sandbox, error)
	GetSandbox(ctx context.Context, p control.Principal, ref string) (core.Sandbox, error)
	ListSandboxes(ctx context.Context, p control.Principal, f store.SandboxFilter, page store.Page) ([]core.Sandbox, string, error)
	UpdateSandbox(ctx context.Context, p control.Principal, ref string, patch control.SandboxPatch) (core.Sandbox, error)
	DeleteSandbox(ctx context.Context, p control.Principal, ref string) error
	StopSandbox(ctx context.Context, p control.Principal, ref string, grace time.Duration) (core.Sandbox, error)
	WakeSandbox(ctx context.Context, p control.Principal, ref string) (core.Sandbox, error)
	Metrics(ctx context.Context, p control.Principal, ref string) (core.SandboxMetrics, error)
	Why(ctx context.Context, p control.Principal, ref string) (control.Why, error)
	FindEvents(ctx context.Context, p control.Principal, q control.EventQuery) (store.EventPage, error)
}

// Files are the use cases on files.
type Files interface {
	// Files opens those of a running sandbox, ReadFiles those of any that has some on the node.
	Files(ctx context.Context, p control.Principal, ref string) (core.Guest, error)
	ReadFiles(ctx context.Context, p control.Principal, ref string) (core.FileReader, error)
	// DiffSandbox tells what is different in a sandbox from something that was before.
	DiffSandbox(ctx context.Context, p control.Principal, ref string, q control.DiffQuery) (control.Diff, error)
	// SignFile makes a grant of one file, OpenGrant finds what one opens and who made it.
	SignFile(ctx context.Context, p control.Principal, ref string, g core.FileGrant) (core.SignedGrant, error)
	OpenGrant(ctx context.Context, token string) (control.Principal, core.SignedGrant, error)
}

// Execs are the use cases on processes.
type Execs interface {
	Exec(ctx context.Context, p control.Principal, ref string, spec core.ExecSpec) (core.Exec, core.ExecStream, error)
	RunExec(ctx context.Context, p control.Principal, ref string, spec core.ExecSpec, stdin []byte, limit int) (core.ExecResult, error)
	AttachExec(ctx context.Context, p control.Principal, ref string, id core.ExecID, from int64) (core.ExecStream, error)
	GetExec(ctx context.Context, p control.Principal, ref string, id core.ExecID) (core.Exec, error)
	ListExecs(ctx context.Context, p control.Principal, ref string, f store.ExecFilter, page store.Page) ([]core.Exec, string, error)
	SignalExec(ctx context.Context, p control.Principal, ref string, id core.ExecID, signal string) error
	CancelExec(ctx context.Context, p control.Principal, ref string, id core.ExecID) error
	ResizeExec(ctx context.Context, p control.Principal, ref string, id core.ExecID, rows, cols uint16) error
	WriteExecStdin(ctx context.Context, p control.Principal, ref string, id core.ExecID, data []byte, end bool) error
}

// Checkpoints are the use cases on saved states of sandboxes.
type Checkpoints interface {
	CreateCheckpoint(ctx context.Context, p control.Principal, ref string, spec core.CheckpointSpec) (core.Checkpoint, error)
	GetCheckpoint(ctx context.Context, p control.Principal, id core.CheckpointID) (core.Checkpoint, error)
	ListCheckpoints(ctx context.Context, p control.Principal, q control.CheckpointQuery, page store.Page) ([]core.Checkpoint, string, error)
	UpdateCheckpoint(ctx context.Context, p control.Principal, id core.CheckpointID, patch control.CheckpointPatch) (core.Checkpoint, error)
	DeleteCheckpoint(ctx context.Context, p control.Principal, id core.CheckpointID) error
	RestoreSandbox(ctx context.Context, p control.Principal, ref string, spec control.RestoreSpec) (control.Restored, error)
	ResetSandbox(ctx context.Context, p control.Principal, ref string, spec control.RestoreSpec) (control.Restored, error)
	// DeleteSandboxWithCheckpoints deletes a sandbox with all of its checkpoints.
	DeleteSandboxWithCheckpoints(ctx context.Context, p control.Principal, ref string) error
}

// Templates are the use cases on templates, and on what is uploaded to make them.
type Templates interface {
	CreateTemplate(ctx context.Context, p control.Principal, spec core.TemplateSpec) (core.Operation, error)
	ListTemplates(ctx context.Context, p control.Principal, f store.TemplateFilter, page store.Page) ([]core.Template, string, error)
	GetTemplate(ctx context.Context, p control.Principal, ref string) (core.Template, error)
	DeleteTemplate(ctx context.Context, p control.Principal, ref string) error
	TagTemplate(ctx context.Context, p control.Principal, ref, tag string) (core.Template, error)
	UntagTemplate(ctx context.Context, p control.Principal, ref, tag string) error
	PutUpload(ctx context.Context, p control.Principal, r io.Reader) (core.Upload, error)
	DeleteUpload(ctx context.Context, p control.Principal, id core.UploadID) error
}

// Registries are the use cases on the logins that are kept for registries.
type Registries interface {
	PutRegistryLogin(ctx context.Context, p control.Principal, spec core.RegistryLoginSpec) (core.RegistryLogin, error)
	GetRegistryLogin(ctx context.Context, p control.Principal, host string) (core.RegistryLogin, error)
	ListRegistryLogins(ctx context.Context, p control.Principal, page store.Page) ([]core.RegistryLogin, string, error)
	DeleteRegistryLogin(ctx context.Context, p control.Principal, host string) error
}

// Operations are the use cases on long work.
type Operations interface {
	ListOperations(ctx context.Context, p control.Principal, f store.OperationFilter, page store.Page) ([]core.Operation, string, error)
	GetOperation(ctx context.Context, p control.Principal, id core.OperationID) (core.Operation, error)
	AwaitOperation(ctx context.Context, p control.Principal, id core.OperationID, seen int64, wait time.Duration) (core.Operation, error)
	CancelOperation(ctx context.Context, p control.Principal, id core.OperationID) error
}

// Keys are the use cases on API keys.
type Keys interface {
	NewKey(ctx context.Context, p control.Principal, spec core.KeySpec) (core.Key, obs.Secret, error)
	ListKeys(ctx context.Context, p control.Principal, page store.Page) ([]core.Key, string, error)
	DeleteKey(ctx context.Context, p control.Principal, id core.KeyID) error
}

// Usage are the use cases on what was used.
type Usage interface {
	Usage(ctx context.Context, p control.Principal, q control.UsageQuery, page store.Page) (control.UsagePage, error)
}

// Server are the use cases that concern the server as a whole.
type Server interface {
	Ready(ctx context.Context) error
	Capacity(ctx context.Context, p control.Principal) (core.NodeCapacity, error)
	// CountSandboxes covers all tenants: only an admin's call may use it.
	CountSandboxes(ctx context.Context) (map[core.State]int, error)
}

var _ Control = (*control.Service)(nil)
