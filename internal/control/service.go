// Package control holds the use cases: what a tenant may ask for, recorded durably before it is done, carried out on a node
// one command at a time per sandbox, and repaired by reconcile loops after a crash.
//
// It knows no HTTP, no SQL and no runtime: it meets the node and the guest agent at ports in core. Start reading at
// create.go and delete.go, then reconcile.go.
package control

import (
	"context"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// Principal is who makes a call: every call is scoped to its tenant.
type Principal struct {
	Tenant core.TenantID
	Actor  core.Actor
	Admin  bool
}

// SandboxPatch changes a sandbox. A nil field is left as it is.
type SandboxPatch struct {
	// TTL counts from now; zero takes the ttl away, which only a persistent sandbox allows.
	TTL    *time.Duration
	Labels *map[string]string
}

// Service is the use cases.
type Service struct{}

var errTODO = core.Errorf(core.CodeUnsupported, "not yet")

func (s *Service) Authenticate(ctx context.Context, secret string) (Principal, error) {
	return Principal{}, errTODO
}

// Ready returns nil when sandboxes can be created, or says what is still missing.
func (s *Service) Ready(ctx context.Context) error { return errTODO }

func (s *Service) CreateSandbox(ctx context.Context, p Principal, spec core.SandboxSpec) (core.Sandbox, error) {
	return core.Sandbox{}, errTODO
}
func (s *Service) GetSandbox(ctx context.Context, p Principal, ref string) (core.Sandbox, error) {
	return core.Sandbox{}, errTODO
}
func (s *Service) ListSandboxes(ctx context.Context, p Principal, f store.SandboxFilter, page store.Page) ([]core.Sandbox, string, error) {
	return nil, "", errTODO
}
func (s *Service) UpdateSandbox(ctx context.Context, p Principal, ref string, patch SandboxPatch) (core.Sandbox, error) {
	return core.Sandbox{}, errTODO
}
func (s *Service) DeleteSandbox(ctx context.Context, p Principal, ref string) error { return errTODO }

// Exec starts a process and returns its record and, unless spec.Detach, the stream that follows it (else nil).
func (s *Service) Exec(ctx context.Context, p Principal, ref string, spec core.ExecSpec) (core.Exec, core.ExecStream, error) {
	return core.Exec{}, nil, errTODO
}

// RunExec starts a process, waits for its end and returns its output, at most limit bytes of each stream. stdin may be nil.
// If ctx ends first the process goes on and the error is canceled.
func (s *Service) RunExec(ctx context.Context, p Principal, ref string, spec core.ExecSpec, stdin []byte, limit int) (core.ExecResult, error) {
	return core.ExecResult{}, errTODO
}
func (s *Service) AttachExec(ctx context.Context, p Principal, ref string, id core.ExecID, from int64) (core.ExecStream, error) {
	return nil, errTODO
}
func (s *Service) GetExec(ctx context.Context, p Principal, ref string, id core.ExecID) (core.Exec, error) {
	return core.Exec{}, errTODO
}
func (s *Service) ListExecs(ctx context.Context, p Principal, ref string, page store.Page) ([]core.Exec, string, error) {
	return nil, "", errTODO
}
func (s *Service) SignalExec(ctx context.Context, p Principal, ref string, id core.ExecID, signal string) error {
	return errTODO
}
func (s *Service) CancelExec(ctx context.Context, p Principal, ref string, id core.ExecID) error {
	return errTODO
}
func (s *Service) ResizeExec(ctx context.Context, p Principal, ref string, id core.ExecID, rows, cols uint16) error {
	return errTODO
}
func (s *Service) WriteExecStdin(ctx context.Context, p Principal, ref string, id core.ExecID, data []byte, end bool) error {
	return errTODO
}

// Files returns the guest agent of a running sandbox for its file methods.
func (s *Service) Files(ctx context.Context, p Principal, ref string) (core.Guest, error) {
	return nil, errTODO
}
func (s *Service) Metrics(ctx context.Context, p Principal, ref string) (core.SandboxMetrics, error) {
	return core.SandboxMetrics{}, errTODO
}

// Events returns events after a sequence number; with ref only those of one sandbox. If there are none yet it waits until
// one comes or wait has passed.
func (s *Service) Events(ctx context.Context, p Principal, ref string, after int64, limit int, wait time.Duration) (list []core.Event, oldest int64, err error) {
	return nil, 0, errTODO
}
func (s *Service) ListTemplates(ctx context.Context, p Principal, page store.Page) ([]core.Template, string, error) {
	return nil, "", errTODO
}
func (s *Service) GetTemplate(ctx context.Context, p Principal, ref string) (core.Template, error) {
	return core.Template{}, errTODO
}
func (s *Service) Capacity(ctx context.Context, p Principal) (core.NodeCapacity, error) {
	return core.NodeCapacity{}, errTODO
}
