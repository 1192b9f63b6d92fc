package store

import (
	"time"

	"shoal/internal/core"
)

// Usage is counted as it happens: a change of what counts for a sandbox adds what it used until then to the rows of the days
// in which that was, in the same transaction. What still goes on is added when it is asked for. So usage needs no event that
// may have been dropped, and a sum over days, sandboxes or labels is the same number.

// UsageQuery asks what was used. What no By names is summed up.
type UsageQuery struct {
	// Tenant is whose usage is asked for; empty means everybody's.
	Tenant core.TenantID
	// Sandbox, if it is not empty, is the one sandbox that is asked for.
	Sandbox core.SandboxID
	// From and To are the first and the last day.
	From, To core.Day
	// Now is until when what still goes on counts.
	Now time.Time
	// By says what is told apart. ByLabel is the key of a label: its values are cut after 256 characters, and sandboxes
	// without it count as those with an empty value.
	ByTenant, BySandbox, ByDay bool
	ByLabel                    string
}

// UsageKeep says what is kept of usage.
type UsageKeep struct {
	// Days are kept from the first day on, and those of each sandbox by itself from Detail on. What is older counts for its
	// tenant only.
	First, Detail core.Day
	// Ended is of how many of a tenant's sandboxes that were deleted the usage is kept by itself, at most: the newest.
	Ended int
}

// MaxUsageDays is how many days a query may span, and the most that one change counts backwards.
const MaxUsageDays = 400

// UsageReader reads usage.
type UsageReader interface {
	// Meter returns what counts for a sandbox, not_found if nothing ever did or it is no longer told apart.
	Meter(id core.SandboxID) (core.Meter, error)
	// OpenMeters returns meters that have not ended, of every tenant, in the order of their sandboxes' ids after one.
	OpenMeters(after core.SandboxID, limit int) ([]core.Meter, error)
	// CheckpointOrigins returns the origins of every tenant's checkpoints that are not being deleted, each once, and CheckpointBytes what
	// MeterCheckpoints was last told of each tenant, but for zero.
	CheckpointOrigins() ([]CheckpointOrigin, error)
	CheckpointBytes() (map[core.TenantID]int64, error)
	// Usage returns rows that are not all zero, in the order of tenant, sandbox, label and day. Rows without a sandbox hold what is
	// no longer told apart.
	Usage(q UsageQuery, page Page) (list []core.UsageRow, next string, err error)
}

// CheckpointOrigin is what a tenant's checkpoints have of one tree's writes.
type CheckpointOrigin struct {
	Tenant core.TenantID
	// Sandbox is the one whose tree it is or was.
	Sandbox core.SandboxID
	Origin  string
}

// UsageWriter counts usage.
type UsageWriter interface {
	// PutMeter counts what the sandbox used until m.Since at the rates that it had, and sets those that hold from then on. Nothing is
	// counted backwards: if m.Since is up to a minute earlier than what was counted until, as that of a change which waited for another
	// one, the new rates hold from there; if it is earlier than that the clock was set back, and they hold from m.Since. KeptBytes is taken only for a
	// sandbox that has no meter yet. A meter that has ended is left alone, and one that ends without having counted is not kept.
	PutMeter(m core.Meter) error
	// PutKeptBytes counts as PutMeter does, and sets what the sandbox keeps on the disk from then on.
	PutKeptBytes(id core.SandboxID, bytes int64, at time.Time) error
	// MeterTemplates counts what the tenant's own templates kept until at, and from then on those that are ready now: of those with the
	// same digest the one that keeps most. MeterCheckpoints does it for what its checkpoints keep beside its sandboxes, which is so many
	// bytes from then on. RollTrees counts both until at, for every tenant of whom nothing was counted on that day yet.
	MeterTemplates(tenant core.TenantID, at time.Time) error
	MeterCheckpoints(tenant core.TenantID, bytes int64, at time.Time) error
	RollTrees(at time.Time) error
	// CountExec counts a process that ran from one moment to another.
	CountExec(tenant core.TenantID, sandbox core.SandboxID, from, to time.Time) error
	// ForgetUsage drops some of what need not be kept, and returns how much: zero when nothing is left to drop. No sum over a tenant
	// changes, but for the days before the first.
	ForgetUsage(keep UsageKeep) (int, error)
}
