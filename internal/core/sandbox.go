package core

import "time"

// Resources are the limits of one sandbox. All but OpenFiles are set from outside and cannot be raised inside.
type Resources struct {
	// VCPUs limits processor time to so many cores.
	VCPUs float64
	// MemoryBytes limits the memory of everything inside the sandbox, in bytes.
	MemoryBytes int64
	// DiskBytes limits what the sandbox itself writes to its tree since it was cloned, in bytes.
	// Zero means no limit of its own.
	DiskBytes int64
	// Pids limits processes and threads together. Zero, in records of before there was such a limit, leaves it to the guest agent.
	Pids int
	// OpenFiles limits the descriptors of each process, as ulimit -n does: root inside can raise it. Zero, in old records, is no
	// limit of ours.
	OpenFiles int
	// CPUWeight is the sandbox's share of processor time beside others that want it too, 100 for an ordinary one. Zero, in old
	// records, is that as well.
	CPUWeight int
	// IOWeight is the same for what goes to and from the disk. Zero, where the node can't weigh it and in old records, is none.
	IOWeight int
}

// Sandbox is one isolated machine of one tenant, as the store knows it.
type Sandbox struct {
	ID     SandboxID
	Tenant TenantID
	// Name is unique among the tenant's live sandboxes; empty if the caller gave none.
	Name string
	// Template is the exact template version it was cloned from; TemplateName is what the caller asked for.
	Template     TemplateID
	TemplateName string

	State State
	// StateSince is when State last changed.
	StateSince time.Time
	// Operation is the one durable operation under way; empty if none is.
	Operation OperationKind
	// OperationSince is when Operation began; zero if there is none.
	OperationSince time.Time
	// OperationArg is what the operation is about, so that another server can take it up: of a restore the checkpoint, empty for what the
	// sandbox was made from; of a checkpoint and of a fork the one that is being made.
	OperationArg string
	// Incarnation rises whenever the sandbox's processes start anew; a command that carries an older one is refused.
	Incarnation int64
	// Node and Epoch are the lease under which it runs.
	Node  NodeID
	Epoch int64

	Persistent bool
	Resources  Resources
	Env        map[string]string
	Labels     map[string]string

	CreatedAt time.Time
	StartedAt time.Time
	// ExpiresAt is when the ttl ends it; zero means never, which only a persistent sandbox may have, or one with an idle rule.
	ExpiresAt time.Time
	DeletedAt time.Time
	// Idle is how long it may be unused before OnIdle is done to it; zero means that it has no idle rule.
	Idle   time.Duration
	OnIdle LifecycleAction
	// Rules are its lifecycle's others: ExpiresAt and Idle hold beside them.
	Rules []LifecycleRule
	// ActiveAt is when it was last used, if it has an idle rule. In the store it may lie some seconds after that.
	ActiveAt time.Time

	// Failure says in public words why State is failed.
	Failure string

	// Head is the checkpoint that its files descend from; empty if they come from its template.
	Head CheckpointID
	// Source is the checkpoint that it started from, which may be gone; empty if that was its template. Config then says how its
	// processes are started: its template may be gone too.
	Source CheckpointID
	Config *TemplateConfig
	// Parent is the sandbox that it was forked from, which may be gone; empty if there is none.
	Parent SandboxID
}

// Begin notes that an operation is under way.
func (sb *Sandbox) Begin(op OperationKind, at time.Time) {
	sb.Operation, sb.OperationSince, sb.OperationArg = op, at, ""
}

// End notes that no operation is under way any more.
func (sb *Sandbox) End() { sb.Begin(OpNone, time.Time{}) }

// SandboxSpec is what a caller asks for at create.
type SandboxSpec struct {
	Name     string
	Template string
	// From is the checkpoint to start from, in place of a template. Limits that are not named are then those that its sandbox had.
	From       CheckpointID
	Persistent bool
	// TTL is the age at which it is deleted; zero means the server's default for an ephemeral one, and none for a persistent
	// one or one with an idle rule.
	TTL time.Duration
	// Idle is how long it may be unused before OnIdle is done to it; zero means for ever. OnIdle is delete if it is empty, which
	// a persistent sandbox's may not be. A TTL that is given holds beside it: what comes first ends the sandbox.
	Idle   time.Duration
	OnIdle LifecycleAction
	// Rules are its lifecycle's others, which hold beside TTL and Idle.
	Rules     []LifecycleRule
	Resources Resources
	Env       map[string]string
	Labels    map[string]string
	// Once, unless it is nil, makes a repeat of the call return what the first one made.
	Once *Once
}

// Actor says who caused an event: a key, a sandbox's access token, or the system itself.
type Actor struct {
	// Kind is "key", "token" or "system".
	Kind string `json:"kind"`
	// ID is the key's id, the id of the sandbox that the token opens, or the name of the rule, such as "ttl".
	ID string `json:"id"`
}
