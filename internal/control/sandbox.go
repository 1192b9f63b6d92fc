package control

import (
	"context"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// GetSandbox finds a sandbox by id or name.
func (s *Service) GetSandbox(ctx context.Context, p Principal, ref string) (sb core.Sandbox, err error) {
	err = s.store.View(ctx, func(r store.Reader) error {
		sb, err = p.find(r, ref)
		return err
	})
	return sb, err
}

// ListSandboxes returns a page of the tenant's sandboxes, newest first.
func (s *Service) ListSandboxes(ctx context.Context, p Principal, f store.SandboxFilter, page store.Page) (list []core.Sandbox, next string, err error) {
	if err := p.needKey(); err != nil {
		return nil, "", err
	}
	err = s.store.View(ctx, func(r store.Reader) error {
		list, next, err = r.ListSandboxes(p.Tenant, f, page)
		return err
	})
	return list, next, err
}

// settleMost bounds how long a call waits for a create that is under way.
const settleMost = 10 * time.Second

// settled finds a sandbox. One that is being created is waited for, until settleMost has passed or the server closes.
func (s *Service) settled(ctx context.Context, p Principal, ref string) (core.Sandbox, error) {
	var tooLate <-chan time.Time
	for {
		news := s.waiters.wait(p.Tenant)
		sb, err := s.GetSandbox(ctx, p, ref)
		if err != nil || sb.State != core.StateCreating {
			return sb, err
		}
		ref = string(sb.ID) // if it is deleted meanwhile, another may get its name
		if tooLate == nil {
			tooLate = s.clock.After(settleMost)
		}
		select {
		case <-news:
		case <-tooLate:
			return sb, nil
		case <-s.tasks.stop.Done():
			return sb, nil
		case <-ctx.Done():
			return sb, core.Wrap(core.CodeCanceled, ctx.Err(), "the call was canceled")
		}
	}
}

// running finds a sandbox and its guest agent, or says why there is none to talk to.
func (s *Service) running(ctx context.Context, p Principal, ref string) (core.Sandbox, core.Guest, error) {
	sb, err := s.settled(ctx, p, ref)
	if err != nil {
		return sb, nil, err
	}
	if sb.State != core.StateRunning {
		msg := "the sandbox is " + string(sb.State)
		if sb.Failure != "" {
			msg += ": " + sb.Failure
		}
		if sb.Operation != core.OpNone {
			return sb, nil, &core.Error{Code: core.CodeConflict, Message: msg + ", with a " + string(sb.Operation) + " under way", RetryAfter: time.Second}
		}
		return sb, nil, core.Errorf(core.CodeConflict, "%s", msg)
	}
	g, err := s.node.Guest(sb.ID)
	return sb, g, err
}

// Files returns the guest agent of a running sandbox for its file methods.
func (s *Service) Files(ctx context.Context, p Principal, ref string) (core.Guest, error) {
	_, g, err := s.running(ctx, p, ref)
	return g, err
}

// Metrics reports what a running sandbox uses.
func (s *Service) Metrics(ctx context.Context, p Principal, ref string) (core.SandboxMetrics, error) {
	sb, _, err := s.running(ctx, p, ref)
	if err != nil {
		return core.SandboxMetrics{}, err
	}
	return s.node.Metrics(ctx, sb.ID)
}
