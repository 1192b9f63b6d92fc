package panda

import (
	"math"
	"net/http"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// sandboxInfo is the vendor's form of a sandbox.
type sandboxInfo struct {
	ID string `json:"id"`
	// Template is our name of it, which an alias of the vendor's names may have led to.
	Template string `json:"template"`
	// CPU is rounded up: the SDKs hold whole numbers.
	CPU        int               `json:"cpu"`
	MemoryMB   int64             `json:"memory_mb"`
	Status     string            `json:"status"`
	Metadata   map[string]string `json:"metadata"`
	Persistent bool              `json:"persistent"`
	CreatedAt  time.Time         `json:"created_at"`
	// BootMS is how long the create took; it is absent until it has ended.
	BootMS int64 `json:"boot_ms,omitempty"`
	// Failure says why status is failed; it is ours.
	Failure string `json:"failure,omitempty"`
}

// pageSize is how many records are read at a time.
const pageSize = 200

func encodeSandbox(sb core.Sandbox) sandboxInfo {
	out := sandboxInfo{
		ID: string(sb.ID), Template: sb.TemplateName, CPU: int(math.Ceil(sb.Resources.VCPUs)), MemoryMB: sb.Resources.MemoryBytes >> 20,
		Status: statusWord(sb), Metadata: sb.Labels, Persistent: sb.Persistent, CreatedAt: sb.CreatedAt, Failure: sb.Failure,
	}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	if !sb.StartedAt.IsZero() {
		out.BootMS = max(sb.StartedAt.Sub(sb.CreatedAt).Milliseconds(), 0)
	}
	return out
}

// statusWord is the vendor's word for a sandbox's state.
func statusWord(sb core.Sandbox) string {
	switch sb.State {
	case core.StateCreating:
		return "creating"
	case core.StateRunning:
		return "running"
	case core.StateFrozen:
		return "paused"
	case core.StateStandby, core.StateHibernated:
		return "hibernated"
	case core.StateFailed:
		return "failed"
	case core.StateDeleted:
		if sb.Operation == core.OpDelete {
			return "stopping"
		}
		return "deleted"
	case core.StateStopped:
	}
	return "unknown" // the vendor has no word for files without processes
}

// createBody is what a create may say.
type createBody struct {
	Template   string            `json:"template"`
	TTLSeconds *float64          `json:"ttl_seconds"`
	Persistent bool              `json:"persistent"`
	Metadata   map[string]string `json:"metadata"`
	From       string            `json:"from_snapshot"`
	Volumes    []any             `json:"volumes"`
	CPU        any               `json:"cpu"`
	MemoryMB   any               `json:"memory_mb"`
}

// check refuses what this server can't do, by name.
func (b createBody) check() error {
	refuse := func(field, message string) error {
		return &core.Error{Code: core.CodeUnsupported, Field: field, Message: message}
	}
	switch {
	case b.From != "":
		return refuse("from_snapshot", "from_snapshot: this server has no snapshots yet: create from a template")
	case len(b.Volumes) > 0:
		return refuse("volumes", "volumes: this server has none yet: a persistent sandbox keeps its files")
	case b.CPU != nil:
		return refuse("cpu", "cpu: a sandbox's size is the server's default in this API: leave cpu out")
	case b.MemoryMB != nil:
		return refuse("memory_mb", "memory_mb: a sandbox's size is the server's default in this API: leave memory_mb out")
	}
	return nil
}

func (a *adapter) createSandbox(w http.ResponseWriter, r *request) error {
	var body createBody
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	spec := core.SandboxSpec{Template: a.cfg.Template(body.Template), Persistent: body.Persistent, Labels: body.Metadata}
	if err := a.setLife(r.Principal, &spec, body); err != nil {
		return err
	}
	sb, err := a.cfg.Control.CreateSandbox(r.Context(), r.Principal, spec)
	if err != nil {
		return renamed(err)
	}
	r.Sandbox = string(sb.ID)
	return writeJSON(w, http.StatusCreated, encodeSandbox(sb))
}

func (a *adapter) getSandbox(w http.ResponseWriter, r *request) error {
	sb, err := a.look(r)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, encodeSandbox(sb))
}

func (a *adapter) listSandboxes(w http.ResponseWriter, r *request) error {
	out := newList(w, "[", "]")
	for cursor, more := "", true; more; {
		page, next, err := a.cfg.Control.ListSandboxes(r.Context(), r.Principal, store.SandboxFilter{}, store.Page{Cursor: cursor, Limit: pageSize})
		if err != nil {
			return err
		}
		cursor, more = next, next != ""
		items := make([]any, len(page))
		for i, sb := range page {
			items[i] = encodeSandbox(sb)
		}
		if err := out.add(items, !more); err != nil {
			return err
		}
	}
	return nil
}

func (a *adapter) deleteSandbox(w http.ResponseWriter, r *request) error {
	if err := a.cfg.Control.DeleteSandbox(r.Context(), r.Principal, r.sandbox()); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
