package core

import "time"

// Tenant is an owner: the unit of isolation, quota and billing.
type Tenant struct {
	ID TenantID
	// Name is unique among the tenants that there are.
	Name   string
	Labels map[string]string
	// Quota is what it may have; what is nil in it is as the server has it for every tenant.
	Quota     Quota
	CreatedAt time.Time
	// SuspendedAt is since when its keys are turned away; zero if they are not.
	SuspendedAt time.Time
	// DeletedAt is when it was deleted, PurgedAt when nothing of it was left. The record stays, so that its id is never used again.
	DeletedAt time.Time
	PurgedAt  time.Time
}

// Quota bounds what a tenant may have. Nil is no word on it; zero is no limit.
type Quota struct {
	// Sandboxes counts what is not deleted, CreatesPerMinute what was begun within the last minute.
	Sandboxes        *int64 `json:"sandboxes,omitempty"`
	CreatesPerMinute *int64 `json:"creates_per_minute,omitempty"`
	// VCPUs and MemoryBytes are sums over what runs, DiskBytes over what is not deleted: of the limits, not of what is used of them.
	VCPUs       *float64 `json:"vcpus,omitempty"`
	MemoryBytes *int64   `json:"memory_bytes,omitempty"`
	DiskBytes   *int64   `json:"disk_bytes,omitempty"`
	// Templates counts versions of its own, TemplateBytes the size of their files.
	Templates     *int64 `json:"templates,omitempty"`
	TemplateBytes *int64 `json:"template_bytes,omitempty"`
	// Checkpoints counts those of all its sandboxes, CheckpointBytes what the sandboxes had written that they have.
	Checkpoints     *int64 `json:"checkpoints,omitempty"`
	CheckpointBytes *int64 `json:"checkpoint_bytes,omitempty"`
	Keys            *int64 `json:"keys,omitempty"`
	// Execs counts processes started by calls that have not ended, in all sandboxes together.
	Execs *int64 `json:"execs,omitempty"`
	// RequestsPerSecond bounds calls at all listeners, Calls those under way at once, streams and transfers too.
	RequestsPerSecond *float64 `json:"requests_per_second,omitempty"`
	Calls             *int64   `json:"calls,omitempty"`
	// Max are the ceilings of one sandbox, below those of the server.
	MaxVCPUs       *float64       `json:"max_vcpus,omitempty"`
	MaxMemoryBytes *int64         `json:"max_memory_bytes,omitempty"`
	MaxDiskBytes   *int64         `json:"max_disk_bytes,omitempty"`
	MaxTTL         *time.Duration `json:"max_ttl,omitempty"`
}

// Over returns q with what it says nothing of taken from base.
func (q Quota) Over(base Quota) Quota {
	fill(&q.Sandboxes, base.Sandboxes)
	fill(&q.CreatesPerMinute, base.CreatesPerMinute)
	fill(&q.VCPUs, base.VCPUs)
	fill(&q.MemoryBytes, base.MemoryBytes)
	fill(&q.DiskBytes, base.DiskBytes)
	fill(&q.Templates, base.Templates)
	fill(&q.TemplateBytes, base.TemplateBytes)
	fill(&q.Checkpoints, base.Checkpoints)
	fill(&q.CheckpointBytes, base.CheckpointBytes)
	fill(&q.Keys, base.Keys)
	fill(&q.Execs, base.Execs)
	fill(&q.RequestsPerSecond, base.RequestsPerSecond)
	fill(&q.Calls, base.Calls)
	fill(&q.MaxVCPUs, base.MaxVCPUs)
	fill(&q.MaxMemoryBytes, base.MaxMemoryBytes)
	fill(&q.MaxDiskBytes, base.MaxDiskBytes)
	fill(&q.MaxTTL, base.MaxTTL)
	return q
}

func fill[T any](to **T, from *T) {
	if *to == nil {
		*to = from
	}
}

// Limited returns a limit, and whether there is one.
func Limited[T int64 | float64 | time.Duration](limit *T) (T, bool) {
	if limit == nil {
		return 0, false
	}
	return *limit, *limit > 0
}

// TenantUse is what a tenant has of what its quota bounds.
type TenantUse struct {
	Sandboxes     int64
	VCPUs         float64
	MemoryBytes   int64
	DiskBytes     int64
	Templates     int64
	TemplateBytes int64
	// Keys are those that have not expired, Execs those that run.
	Keys, Execs int64
	// Checkpoints are all that are not being deleted.
	Checkpoints     int64
	CheckpointBytes int64
}
