// Package store is the contract of what Shoal remembers: tenants' sandboxes, templates, keys, execs, operations and events, and who
// holds the lease of each sandbox.
//
// The store says what is wanted; a node's journal says what exists. Drivers live below (sqlite); storetest is the suite
// that all of them pass. SQL is spoken only below this package.
package store

import (
	"context"
	"time"

	"shoal/internal/core"
)

// Store keeps records. All methods may be used from many goroutines.
//
// Transactions: fn may be run more than once, so it must not have effects of its own. It sees its own writes. What it
// returns is what Update returns; any error rolls back. Everything read in View or Update is one consistent moment. fn must
// not begin another transaction: while one waits for the other both may wait for ever.
//
// Readers never wait for the writer, nor it for them.
type Store interface {
	// View runs fn in a read-only transaction.
	View(ctx context.Context, fn func(Reader) error) error
	// Update runs fn in a read-write transaction, one at a time. When it returns nil the changes survive power loss.
	Update(ctx context.Context, fn func(Tx) error) error
	// UpdateRelaxed is Update without waiting for the disk: the changes survive a kill of the process, and may be lost with
	// the machine's power, unless an Update that came later has returned: what is flushed is flushed in order. It is for records
	// that are worthless after a power loss, such as those of running execs.
	UpdateRelaxed(ctx context.Context, fn func(Tx) error) error
	Close() error
}

// Page asks for part of a list. Lists are in a stable order: sandboxes, checkpoints, execs, operations, keys and tenants newest first, templates by name with the
// newest version first, events oldest first. A cursor that no page returned, and a limit out of bounds, are invalid and
// blame the field. Paging on neither repeats nor misses a record that was there from the first page to the last.
//
// A page is bounded by size too: it takes no more records once it has reached MaxPageBytes, and those that follow are not
// even read. So a page of fewer records than its limit says nothing; only one without a cursor is the last.
type Page struct {
	// Cursor is what a previous page returned; empty starts at the beginning.
	Cursor string
	// Limit is the greatest number of records, 1 to 1000.
	Limit int
}

// SandboxFilter selects sandboxes. A zero field selects nothing out; Labels must all match, and a filter that matches
// nothing returns nothing. More than 100 labels are invalid.
type SandboxFilter struct {
	States []core.State
	Labels map[string]string
	// StartedAfter selects what was running for the first time after that moment.
	StartedAfter time.Time
	// Template is a version's id, or a name for all its versions.
	Template string
	// OldestFirst turns the order around. A cursor holds for the order in which it was returned.
	OldestFirst bool
	// IncludeDeleted also returns sandboxes that are deleted and not yet forgotten.
	IncludeDeleted bool
}

// ExecFilter selects execs. A zero field selects nothing out.
type ExecFilter struct {
	// Tag is the word that its caller gave the exec.
	Tag string
	// Running selects execs that have no outcome.
	Running bool
}

// AuditFilter selects entries of the audit. A zero field selects nothing out.
type AuditFilter struct {
	// Actor is the id of who did it.
	Actor string
	// Failed selects what was refused or failed.
	Failed bool
}

// KeyFilter selects keys. A zero field selects nothing out.
type KeyFilter struct {
	// Under is a key: it and those that descend from it.
	Under core.KeyID
	// NoAdmins leaves out those of the server's operator.
	NoAdmins bool
}

// ExecKey names an exec by what it has inside the sandbox: its process id, its tag, or both. One at least is not zero.
type ExecKey struct {
	PID int
	Tag string
}

// SandboxReader reads sandboxes.
type SandboxReader interface {
	// Sandbox finds a sandbox that isn't deleted, by id or by name, of one tenant.
	Sandbox(tenant core.TenantID, idOrName string) (core.Sandbox, error)
	// SandboxByID finds a sandbox of any tenant, deleted ones too. It is for the reconcile loop, never for a caller.
	SandboxByID(id core.SandboxID) (core.Sandbox, error)
	ListSandboxes(tenant core.TenantID, filter SandboxFilter, page Page) (list []core.Sandbox, next string, err error)
	// AllSandboxes returns every sandbox of every tenant that is not deleted, or is deleted with its delete operation still
	// under way. It is for the reconcile loop.
	AllSandboxes() ([]core.Sandbox, error)
	// CountSandboxes counts the sandboxes of every tenant that are not deleted, by state.
	CountSandboxes() (map[core.State]int, error)
	// RulesDue returns the sandboxes of every tenant for which core.NextClockRule has a rule whose DueAt is not after now, the earliest
	// first. Its cost doesn't grow with the others.
	RulesDue(now time.Time) ([]core.SandboxID, error)
	// NextRule returns the earliest DueAt after now of what core.NextClockRule has for each sandbox; ok is false if there is none.
	NextRule(now time.Time) (at time.Time, ok bool, err error)
}

// Reader reads records. A record that is not there, or belongs to another tenant, is not_found.
type Reader interface {
	SandboxReader
	TemplateReader
	ExecReader
	OperationReader
	CheckpointReader

	EventReader
	KeyReader
	TenantReader
	UsageReader
	KeyedCallReader
	// Setting reads a small value of the server itself, such as the node's id; not_found if it was never put.
	Setting(name string) (string, error)
}

// KeyReader reads API keys.
type KeyReader interface {
	// KeyByHash finds the key of any tenant whose secret has this hash.
	KeyByHash(hash string) (core.Key, error)
	Key(tenant core.TenantID, id core.KeyID) (core.Key, error)
	ListKeys(tenant core.TenantID, filter KeyFilter, page Page) (list []core.Key, next string, err error)
	// KeyDescends reports whether a key is another one or descends from it.
	KeyDescends(tenant core.TenantID, id, from core.KeyID) (bool, error)
}

// TenantReader reads tenants, what they have, and the audit of what was done in them.
type TenantReader interface {
	// Audit returns a page of a tenant's audit, newest first.
	Audit(tenant core.TenantID, filter AuditFilter, page Page) (list []core.AuditEntry, next string, err error)
	RegistryLoginReader
	// Tenant finds a tenant that isn't deleted by id or name. A deleted one is not_found.
	Tenant(idOrName string) (core.Tenant, error)
	ListTenants(page Page) (list []core.Tenant, next string, err error)
	// TenantsToPurge returns the tenants that are deleted and of which something may be left, those first that were deleted first.
	TenantsToPurge() ([]core.Tenant, error)
	// TenantUse sums up what a tenant has: of sandboxes what isn't deleted, vcpus and memory only of those that run or are being woken, of
	// checkpoints what isn't being deleted, and of keys those that have not expired by now. Of checkpoints with the same origin the one
	// that had most counts. Its cost is that of reading an index over them.
	TenantUse(tenant core.TenantID, now time.Time) (core.TenantUse, error)
	// TenantTemplates returns the ids of a tenant's own templates.
	TenantTemplates(tenant core.TenantID) ([]core.TemplateID, error)
	// NthCreate returns when the nth newest sandbox of a tenant was begun, deleted ones counted as long as they are on record; ok is
	// false if it has fewer.
	NthCreate(tenant core.TenantID, n int64) (at time.Time, ok bool, err error)
}

// TenantWriter writes tenants, and the audit of what was done in them.
type TenantWriter interface {
	// AppendAudit gives entries of one tenant its next numbers, in their order, and keeps at most the newest KeepAudit of the tenant.
	AppendAudit(tenant core.TenantID, list []core.AuditEntry) error
	RegistryLoginWriter
	// ForgetAudit removes the entries of all tenants from before t.
	ForgetAudit(before time.Time) error
	// PutTenant inserts or replaces a tenant. A name that another one has gives conflict, and so does one that is deleted: it can't
	// come back, and its id isn't used again.
	PutTenant(t core.Tenant) error
	// PurgeTenant removes a deleted tenant's keys, kept logins, events, templates and checkpoints, and the sandboxes whose removal is done. more says that
	// sandboxes of it are left.
	PurgeTenant(tenant core.TenantID) (more bool, err error)
}

// RegistryLoginReader reads the logins that tenants keep for registries.
type RegistryLoginReader interface {
	// RegistryLogin finds a tenant's login by the registry's host.
	RegistryLogin(tenant core.TenantID, host string) (core.RegistryLogin, error)
	// ListRegistryLogins returns a page of a tenant's logins, by host.
	ListRegistryLogins(tenant core.TenantID, page Page) (list []core.RegistryLogin, next string, err error)
}

// RegistryLoginWriter writes the logins that tenants keep for registries.
type RegistryLoginWriter interface {
	// PutRegistryLogin inserts a login, or replaces all of the one that the tenant has for the host but its CreatedAt.
	PutRegistryLogin(l core.RegistryLogin) error
	// DeleteRegistryLogin removes a login; not_found if there is none.
	DeleteRegistryLogin(tenant core.TenantID, host string) error
}

// KeyWriter writes API keys.
type KeyWriter interface {
	// PutKey inserts or replaces a key. Its tenant and its parent never change, and no two have the same hash: either gives conflict.
	PutKey(core.Key) error
	// DeleteKey removes a key with all that descend from it, and returns them, itself first: nothing is found by their hashes any more.
	DeleteKey(tenant core.TenantID, id core.KeyID) ([]core.Key, error)
	// PutKeyUsed writes a key's UsedAt and nothing else of it. One that isn't there is left alone.
	PutKeyUsed(id core.KeyID, at time.Time) error
	// ForgetKeys removes the keys that expired before t.
	ForgetKeys(before time.Time) error
}

// ExecReader reads the records of execs.
type ExecReader interface {
	Exec(sandbox core.SandboxID, id core.ExecID) (core.Exec, error)
	// FindExec finds an exec by pid or tag. If several have it, a running one wins over one that has ended, then the newest
	// wins. Its cost does not grow with the number of records.
	FindExec(sandbox core.SandboxID, by ExecKey) (core.Exec, error)
	ListExecs(sandbox core.SandboxID, filter ExecFilter, page Page) (list []core.Exec, next string, err error)
	// OpenExecs returns a sandbox's execs that have no outcome, oldest first. Its cost does not grow with those that ended, nor
	// with what they run: Spec is left empty, which for many could be large.
	OpenExecs(sandbox core.SandboxID) ([]core.Exec, error)
}

// TemplateReader reads templates. One that is deleted is found only by TemplatesInState.
type TemplateReader interface {
	// Template finds a template that the tenant may use: its own, or a public one of the system. By name it is the newest version that
	// is ready, by digest the newest of these with that tree; by id, number or tag it is that version, ready or not. The tenant's
	// own wins.
	Template(tenant core.TenantID, ref core.TemplateRef) (core.Template, error)
	// TemplateByID finds a template of any tenant. It is for the service itself.
	TemplateByID(id core.TemplateID) (core.Template, error)
	ListTemplates(tenant core.TenantID, filter TemplateFilter, page Page) (list []core.Template, next string, err error)
	// TemplatesInState returns the templates of every tenant in a state. It is for the reconcile loop.
	TemplatesInState(state core.TemplateState) ([]core.Template, error)
	// TemplateUsers counts the sandboxes that are not deleted and started from a version, and names the newest of those that the tenant
	// has, at most so many, by their names or else their ids.
	TemplateUsers(tenant core.TenantID, id core.TemplateID, most int) (n int, names []string, err error)
}

// TemplateFilter selects templates. A zero field selects nothing out.
type TemplateFilter struct {
	// Name selects the versions of one name.
	Name string
	// Own leaves out what is not the tenant's own.
	Own bool
}

// TemplateWriter writes templates.
type TemplateWriter interface {
	// PutTemplate inserts or replaces a template version. A new one (Version 0) gets the next number of its name, which no version has
	// had before. Owner, name and version of one never change, and one that is deleted stays so: conflict. Tags are left alone.
	PutTemplate(core.Template) (core.Template, error)
	// ForgetTemplate removes the record of a template that is deleted.
	ForgetTemplate(id core.TemplateID) error
	// TagTemplate makes a tag of a name point to a version, wherever it pointed before; UntagTemplate takes it away, and is not_found if
	// there is none. A version that becomes deleted loses its tags.
	TagTemplate(tenant core.TenantID, name, tag string, id core.TemplateID) error
	UntagTemplate(tenant core.TenantID, name, tag string) error
}

// OperationFilter selects operations. A zero field selects nothing out.
type OperationFilter struct {
	States []core.OperationState
	Kinds  []core.WorkKind
}

// OperationReader reads operations. Their Revision is not kept.
type OperationReader interface {
	Operation(tenant core.TenantID, id core.OperationID) (core.Operation, error)
	// ListOperations returns a page of a tenant's operations, newest first.
	ListOperations(tenant core.TenantID, filter OperationFilter, page Page) (list []core.Operation, next string, err error)
	// UnsettledOperations returns those of every tenant that have not ended, or have and SettleOperation was not told, oldest first. It is
	// for the service itself.
	UnsettledOperations() ([]core.Operation, error)
}

// OperationWriter writes operations.
type OperationWriter interface {
	// PutOperation inserts an operation, or replaces one that runs; one that has ended never changes: conflict. Tenant, kind,
	// actor and intent stay as they were first put. With each new one, ended ones beyond the newest KeepOperations of the tenant are
	// forgotten, once they are settled.
	PutOperation(core.Operation) error
	// PutOperationProgress writes the progress of an operation that runs, and leaves any other alone.
	PutOperationProgress(id core.OperationID, p core.OperationProgress) error
	// SettleOperation records that all is removed that an ended operation has needed and left. Any other is left alone.
	SettleOperation(id core.OperationID) error
}

// KeyedCallReader reads what is remembered of calls with a key.
type KeyedCallReader interface {
	// KeyedCall finds a call by its route and its key.
	KeyedCall(tenant core.TenantID, route, key string) (core.KeyedCall, error)
}

// KeyedCallWriter remembers calls with a key.
type KeyedCallWriter interface {
	// PutKeyedCall inserts or replaces a call, which makes it the newest. After KeepKeyedCalls further puts of the tenant it is
	// forgotten, and its result after KeepResults.
	PutKeyedCall(core.KeyedCall) error
	// DeleteKeyedCall forgets a call, if it is there.
	DeleteKeyedCall(tenant core.TenantID, route, key string) error
	// ForgetKeyedCalls forgets the calls of every tenant from before t.
	ForgetKeyedCalls(before time.Time) (int, error)
}

// Tx reads and writes.
type Tx interface {
	Reader
	TenantWriter
	KeyWriter
	OperationWriter
	TreeWriter
	// PutSandbox inserts or replaces a sandbox. A name that another live sandbox of the tenant has gives conflict, an id that
	// was ever used by another tenant, or whose sandbox is deleted or forgotten, gives conflict: it can't come back.
	PutSandbox(core.Sandbox) error
	// PutActive writes a sandbox's ActiveAt and nothing else of it. One that is deleted, or isn't there, is left alone.
	PutActive(id core.SandboxID, at time.Time) error
	// ForgetSandboxes removes the records of sandboxes deleted before t, with their execs. Their ids stay reserved.
	ForgetSandboxes(before time.Time) (int, error)

	// PutExec inserts an exec, or replaces all of it but its Spec, which never changes. With each one that begins, ended ones beyond the newest KeepExecs of the sandbox are
	// forgotten; one without an outcome never is.
	PutExec(core.Exec) error
	// DeleteExec removes the record of an exec that never was: one that was recorded and then could not be started.
	DeleteExec(sandbox core.SandboxID, id core.ExecID) error
	// LoseExecs ends every exec of a sandbox that has no outcome as lost, and returns them as OpenExecs does.
	LoseExecs(sandbox core.SandboxID, at time.Time) ([]core.Exec, error)

	// AppendEvent gives the event the tenant's next sequence number and keeps at most the newest KeepEvents of the tenant.
	AppendEvent(core.Event) (core.Event, error)

	KeyedCallWriter
	PutSetting(name, value string) error

	UsageWriter
}

// KeepEvents is how many events are kept per tenant.
const KeepEvents = 100_000

// KeepOperations is how many operations that have ended are kept per tenant.
const KeepOperations = 1000

// KeepKeyedCalls bounds how many calls with a key are remembered per tenant, and KeepResults how many of them with their result.
const (
	KeepKeyedCalls = 100_000
	KeepResults    = 4096
)

// KeepAudit is how many entries of the audit are kept per tenant.
const KeepAudit = 100_000

// KeepExecs is how many execs are kept per sandbox, beside older ones that have not ended.
const KeepExecs = 1000
