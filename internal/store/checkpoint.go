package store

import (
	"time"

	"shoal/internal/core"
)

// CheckpointFilter selects checkpoints. A zero field selects nothing out.
type CheckpointFilter struct {
	// Sandbox is the one that they were made of.
	Sandbox core.SandboxID
	Causes  []core.CheckpointCause
	// Labels must all match those that the sandbox had.
	Labels map[string]string
}

// CheckpointReader reads checkpoints. Callers find those that are ready.
type CheckpointReader interface {
	// Checkpoint finds a tenant's checkpoint that is ready.
	Checkpoint(tenant core.TenantID, id core.CheckpointID) (core.Checkpoint, error)
	// CheckpointByID finds a checkpoint of any tenant, in any state. It is for the service itself.
	CheckpointByID(id core.CheckpointID) (core.Checkpoint, error)
	// ListCheckpoints returns a page of a tenant's checkpoints that are ready, newest first.
	ListCheckpoints(tenant core.TenantID, filter CheckpointFilter, page Page) (list []core.Checkpoint, next string, err error)
	// AllCheckpoints returns the checkpoints of every tenant, in every state. It is for the reconcile loop.
	AllCheckpoints() ([]core.Checkpoint, error)
	// CheckpointsOf returns a sandbox's checkpoints that are not being deleted, newest first.
	CheckpointsOf(sandbox core.SandboxID) ([]core.Checkpoint, error)
	// CheckpointUsers counts the sandboxes that are not deleted and started from a checkpoint, or whose files descend from it or are about to.
	CheckpointUsers(id core.CheckpointID) (int, error)
	// IsRestored reports whether a restore of a sandbox to a checkpoint is under way.
	IsRestored(id core.CheckpointID) (bool, error)
	// Forks returns the sandboxes that one call forked, by the checkpoint that it made for that: in their order, deleted ones too.
	Forks(of core.CheckpointID) ([]core.Sandbox, error)
	// NextCheckpointExpiry returns the earliest ExpiresAt of the checkpoints that are ready; ok is false if none has one.
	NextCheckpointExpiry() (at time.Time, ok bool, err error)
	// ExpiredCheckpoints returns the checkpoints that are ready and whose ExpiresAt is not after now.
	ExpiredCheckpoints(now time.Time) ([]core.Checkpoint, error)
	// TenantCheckpoints returns the ids of a tenant's checkpoints, in every state.
	TenantCheckpoints(tenant core.TenantID) ([]core.CheckpointID, error)
}

// TreeWriter writes what has a tree of files on a node beside a sandbox's.
type TreeWriter interface {
	TemplateWriter
	CheckpointWriter
}

// CheckpointWriter writes checkpoints.
type CheckpointWriter interface {
	// PutCheckpoint inserts or replaces a checkpoint. Its tenant, sandbox, kind and time never change, and one that is being deleted stays
	// so: conflict. One that becomes it is nobody's parent and no sandbox's head any more: these get its own parent instead; and if it was
	// never ready, the call that would have made it is forgotten, so that its key is free.
	PutCheckpoint(core.Checkpoint) error
	// ForgetCheckpoint removes the record of a checkpoint that is being deleted.
	ForgetCheckpoint(id core.CheckpointID) error
}
