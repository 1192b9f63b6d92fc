package control

import (
	"context"

	"shoal/internal/core"
	"shoal/internal/store"
)

// GetSandbox finds a sandbox by id or name.
func (s *Service) GetSandbox(ctx context.Context, p Principal, ref string) (core.Sandbox, error) {
	if err := p.may("GetSandbox"); err != nil {
		return core.Sandbox{}, err
	}
	return s.sandbox(ctx, p, ref)
}

// ListSandboxes returns a page of the tenant's sandboxes, newest first.
func (s *Service) ListSandboxes(ctx context.Context, p Principal, f store.SandboxFilter, page store.Page) (list []core.Sandbox, next string, err error) {
	if err := p.may("ListSandboxes"); err != nil {
		return nil, "", err
	}
	if err := p.needKey(); err != nil {
		return nil, "", err
	}
	asked := f.Labels
	if f.Labels, err = p.labeled(asked); err != nil {
		return nil, "", nil // it sees none that have what is asked for
	}
	err = s.store.View(ctx, func(r store.Reader) error {
		list, next, err = r.ListSandboxes(p.Tenant, f, page)
		return err
	})
	for i := range list {
		s.activity.show(&list[i])
	}
	return list, next, err
}

// Metrics reports what a running sandbox uses.
func (s *Service) Metrics(ctx context.Context, p Principal, ref string) (core.SandboxMetrics, error) {
	if err := p.may("Metrics"); err != nil {
		return core.SandboxMetrics{}, err
	}
	sb, _, err := s.running(ctx, p, ref)
	if err != nil {
		return core.SandboxMetrics{}, err
	}
	return s.node.Metrics(ctx, sb.ID)
}
