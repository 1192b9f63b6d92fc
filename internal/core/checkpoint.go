package core

import "time"

// CheckpointID names one checkpoint for ever.
type CheckpointID string

// CheckpointKind says what a checkpoint holds.
type CheckpointKind string

// The kinds of checkpoint.
const (
	// CheckpointDisk holds the files.
	CheckpointDisk CheckpointKind = "disk"
	// CheckpointFull holds the files, the memory and the processes.
	CheckpointFull CheckpointKind = "full"
)

// CheckpointState says whether a checkpoint can be used.
type CheckpointState string

// The states of a checkpoint.
const (
	CheckpointCreating CheckpointState = "creating"
	CheckpointReady    CheckpointState = "ready"
	// CheckpointDeleting is gone for every caller, with its tree still to be removed.
	CheckpointDeleting CheckpointState = "deleting"
)

// CheckpointCause says why there is a checkpoint. One that nobody called for goes with its sandbox.
type CheckpointCause string

// The causes of a checkpoint.
const (
	CauseCall    CheckpointCause = "call"
	CauseRestore CheckpointCause = "restore"
	CauseExec    CheckpointCause = "exec"
	CauseFork    CheckpointCause = "fork"
)

// CheckpointCauses lists every cause.
func CheckpointCauses() []CheckpointCause {
	return []CheckpointCause{CauseCall, CauseRestore, CauseExec, CauseFork}
}

// Checkpoint is the saved state of a sandbox at one moment. It never changes but for what is said of it.
type Checkpoint struct {
	ID     CheckpointID
	Tenant TenantID
	// Sandbox is the one that it was made of, which may be gone.
	Sandbox SandboxID
	// Parent is the checkpoint that the sandbox's files descended from then; empty if there is none.
	Parent  CheckpointID
	Kind    CheckpointKind
	State   CheckpointState
	Cause   CheckpointCause
	Comment string
	// Template, TemplateName, Config, Resources and Labels are those that the sandbox had.
	Template     TemplateID
	TemplateName string
	Config       TemplateConfig
	Resources    Resources
	Labels       map[string]string
	CreatedAt    time.Time
	// ExpiresAt is when it is deleted by itself; zero means never.
	ExpiresAt time.Time
	// Origin names the writes of the tree that it was made of, and WrittenBytes is how much was kept of them then; -1 if nobody can
	// tell. Checkpoints with the same origin share what they have of them.
	Origin       string
	WrittenBytes int64
}

// CheckpointSpec is what a caller asks for.
type CheckpointSpec struct {
	// Kind is disk if it is empty.
	Kind    CheckpointKind
	Comment string
	// TTL is the age at which it is deleted; zero means never.
	TTL time.Duration
	// KeepLast, unless it is zero, deletes those of the sandbox's checkpoints that calls have made, but for the newest so many.
	KeepLast int
	// Once, unless it is nil, makes a repeat of the call return what the first one made.
	Once *Once
}

// The bounds of what is said of a checkpoint.
const (
	MaxCheckpointComment = 1024
	MaxKeepLast          = 1000
)

// CheckpointTree is what a node tells of a checkpoint's tree that it has made.
type CheckpointTree struct {
	// Origin and WrittenBytes are those of Checkpoint.
	Origin       string
	WrittenBytes int64
	// Held is for how long the sandbox's processes were held.
	Held time.Duration
}

// TreeSource is what a tree is made of: a sandbox's files as they are, or those of a checkpoint or a template. One of them is set.
type TreeSource struct {
	Sandbox    SandboxID
	Checkpoint CheckpointID
	Template   TemplateID
}

// The events of checkpoints. Their data name the checkpoint's id, its parent's and why there is one.
const (
	EventCheckpointCreated EventType = "checkpoint.created"
	EventCheckpointDeleted EventType = "checkpoint.deleted"
	EventCheckpointFailed  EventType = "checkpoint.failed"
)
