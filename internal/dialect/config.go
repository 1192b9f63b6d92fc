package dialect

import (
	"context"
	"log/slog"
	"time"

	"shoal/internal/control"
	"shoal/internal/core"
	"shoal/internal/httpserve"
	"shoal/internal/store"
)

// Config is what an adapter is made from.
type Config struct {
	Control Control
	Gate    *Gate
	Logger  *slog.Logger
	// Templates says which of our templates is meant by a vendor's name. A name that is not in it is looked up as it is.
	Templates map[string]string
	// Domain is the DNS name below which sandboxes have host names, with a port if clients need one; empty if they have none.
	Domain string
	// Collecting is the room for output that replies hold, which all listeners share; nil gives the adapter one of its own.
	Collecting *httpserve.Collecting
	// Closing ends when the server is about to: streams then tell their clients and end.
	Closing context.Context //nolint:containedctx // It is the server's life, not a call's.
}

// Template returns our name for a vendor's template.
func (c Config) Template(name string) string {
	if ours, ok := c.Templates[name]; ok {
		return ours
	}
	return name
}

// Control is what adapters need of control.Service. Every method is scoped to the principal's tenant; errors that are not
// *core.Error are internal and never shown.
type Control interface {
	Sandboxes
	Watches
	Execs
	Templates
	Access
}

// Sandboxes are the use cases on sandboxes and what is inside them.
type Sandboxes interface {
	CreateSandbox(ctx context.Context, p control.Principal, spec core.SandboxSpec) (core.Sandbox, error)
	GetSandbox(ctx context.Context, p control.Principal, ref string) (core.Sandbox, error)
	ListSandboxes(ctx context.Context, p control.Principal, f store.SandboxFilter, page store.Page) ([]core.Sandbox, string, error)
	UpdateSandbox(ctx context.Context, p control.Principal, ref string, patch control.SandboxPatch) (core.Sandbox, error)
	DeleteSandbox(ctx context.Context, p control.Principal, ref string) error
	// Touch counts as use of a sandbox. What is done with its execs and files does so by itself.
	Touch(ctx context.Context, p control.Principal, ref string) error
	Files(ctx context.Context, p control.Principal, ref string) (core.Guest, error)
	Metrics(ctx context.Context, p control.Principal, ref string) (core.SandboxMetrics, error)
	Events(ctx context.Context, p control.Principal, ref string, after int64, limit int, wait time.Duration) ([]core.Event, int64, error)
}

// Watches are the use cases on what happens to files, for callers who come back for it.
type Watches interface {
	KeepWatch(ctx context.Context, p control.Principal, ref, path string, opts core.WatchOptions) (id string, err error)
	WatchEvents(ctx context.Context, p control.Principal, ref, id string, tell func([]core.FileEvent) error) error
	EndWatch(ctx context.Context, p control.Principal, ref, id string) error
}

// Execs are the use cases on processes.
type Execs interface {
	Exec(ctx context.Context, p control.Principal, ref string, spec core.ExecSpec) (core.Exec, core.ExecStream, error)
	RunExec(ctx context.Context, p control.Principal, ref string, spec core.ExecSpec, stdin []byte, limit int) (core.ExecResult, error)
	AttachExec(ctx context.Context, p control.Principal, ref string, id core.ExecID, from int64) (core.ExecStream, error)
	GetExec(ctx context.Context, p control.Principal, ref string, id core.ExecID) (core.Exec, error)
	FindExec(ctx context.Context, p control.Principal, ref string, by control.ExecSelector) (core.Exec, error)
	ListExecs(ctx context.Context, p control.Principal, ref string, f store.ExecFilter, page store.Page) ([]core.Exec, string, error)
	SignalExec(ctx context.Context, p control.Principal, ref string, id core.ExecID, signal string) error
	CancelExec(ctx context.Context, p control.Principal, ref string, id core.ExecID) error
	ResizeExec(ctx context.Context, p control.Principal, ref string, id core.ExecID, rows, cols uint16) error
	WriteExecStdin(ctx context.Context, p control.Principal, ref string, id core.ExecID, data []byte, end bool) error
}

// Templates are the use cases on templates.
type Templates interface {
	ListTemplates(ctx context.Context, p control.Principal, f store.TemplateFilter, page store.Page) ([]core.Template, string, error)
	GetTemplate(ctx context.Context, p control.Principal, ref string) (core.Template, error)
	// Limits are the defaults and ceilings of a sandbox's resources and life, for the caller's tenant.
	Limits(p control.Principal) control.Limits
}

// Access are the use cases of callers who have no key: they know a sandbox's id, and some its access token.
type Access interface {
	AccessToken(sb core.Sandbox) string
	OpenSandbox(ctx context.Context, id core.SandboxID, opens func(token string) bool) (control.Principal, core.Sandbox, error)
	Alive(ctx context.Context, id core.SandboxID) bool
}

var _ Control = (*control.Service)(nil)
