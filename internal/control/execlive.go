package control

import (
	"context"

	"shoal/internal/core"
	"shoal/internal/store"
)

// AttachExec follows an exec's output from an offset.
func (s *Service) AttachExec(ctx context.Context, p Principal, ref string, id core.ExecID, from int64) (core.ExecStream, error) {
	if err := p.may("AttachExec"); err != nil {
		return nil, err
	}
	sb, e, err := s.exec(ctx, p, ref, id)
	if err != nil {
		return nil, err
	}
	g, err := s.node.Guest(sb.ID)
	if err != nil {
		if e.Outcome != core.OutcomeRunning {
			return newEndedStream(e), nil
		}
		return nil, err
	}
	release, err := s.activity.hold(ctx, sb.ID, core.UseExecStream)
	if err != nil {
		return nil, err
	}
	stream, err := g.Attach(ctx, id, from)
	if err != nil {
		release()
		return nil, err
	}
	return heldStream{s.watchers.follow(sb, p.Actor, e, stream), release}, nil
}

// GetExec returns an exec: its record, with what the guest agent says while it runs.
func (s *Service) GetExec(ctx context.Context, p Principal, ref string, id core.ExecID) (core.Exec, error) {
	if err := p.may("GetExec"); err != nil {
		return core.Exec{}, err
	}
	sb, e, err := s.exec(ctx, p, ref, id)
	if err != nil {
		return e, err
	}
	g, err := s.node.Guest(sb.ID)
	if err != nil {
		return e, nil //nolint:nilerr // the record is all there is to say of an exec whose sandbox does not run
	}
	live, err := g.GetExec(ctx, id)
	if core.IsCode(err, core.CodeNotFound) || core.IsCode(err, core.CodeUnavailable) {
		return e, nil
	}
	if err != nil {
		return e, err
	}
	return s.merge(ctx, sb, e, live), nil
}

// merge joins a record with what the guest agent says of the exec now.
func (s *Service) merge(ctx context.Context, sb core.Sandbox, e, live core.Exec) core.Exec {
	e.PID, e.OutputBytes, e.OutputFrom, e.Processes = live.PID, live.OutputBytes, live.OutputFrom, live.Processes
	if e.Outcome == core.OutcomeRunning && live.Outcome != core.OutcomeRunning {
		e = s.records.ended(ctx, system("watch"), sb, e, live)
	}
	return e
}

// ListExecs returns a page of a sandbox's execs, newest first.
func (s *Service) ListExecs(
	ctx context.Context, p Principal, ref string, f store.ExecFilter, page store.Page,
) (list []core.Exec, next string, err error) {
	if err := p.may("ListExecs"); err != nil {
		return nil, "", err
	}
	if err := checkTag(f.Tag); err != nil {
		return nil, "", err
	}
	var sb core.Sandbox
	err = s.store.View(ctx, func(r store.Reader) error {
		if sb, err = p.find(r, ref); err != nil {
			return err
		}
		list, next, err = r.ListExecs(sb.ID, f, page)
		return err
	})
	if err == nil {
		err = s.activity.touch(ctx, sb.ID)
	}
	if err != nil {
		return nil, "", err
	}
	g, err := s.node.Guest(sb.ID)
	if err != nil {
		return list, next, nil // the records are all there is to say
	}
	lives, err := g.ListExecs(ctx)
	if err != nil {
		return list, next, nil // an agent that does not answer takes only the live figures away
	}
	byID := map[core.ExecID]core.Exec{}
	for _, l := range lives {
		byID[l.ID] = l
	}
	for i, e := range list {
		if l, ok := byID[e.ID]; ok {
			list[i] = s.merge(ctx, sb, e, l)
		}
	}
	return list, next, nil
}

// SignalExec sends a signal to an exec's whole group.
func (s *Service) SignalExec(ctx context.Context, p Principal, ref string, id core.ExecID, signal string) error {
	if err := p.may("SignalExec"); err != nil {
		return err
	}
	g, err := s.execGuest(ctx, p, ref, id)
	if err != nil {
		return err
	}
	return g.Signal(ctx, id, signal)
}

// CancelExec kills an exec's whole group.
func (s *Service) CancelExec(ctx context.Context, p Principal, ref string, id core.ExecID) error {
	if err := p.may("CancelExec"); err != nil {
		return err
	}
	g, err := s.execGuest(ctx, p, ref, id)
	if err != nil {
		return err
	}
	return g.Cancel(ctx, id)
}

// ResizeExec changes the size of an exec's terminal.
func (s *Service) ResizeExec(ctx context.Context, p Principal, ref string, id core.ExecID, rows, cols uint16) error {
	if err := p.may("ResizeExec"); err != nil {
		return err
	}
	g, err := s.execGuest(ctx, p, ref, id)
	if err != nil {
		return err
	}
	return g.Resize(ctx, id, rows, cols)
}

// WriteExecStdin appends to a running exec's input; end closes it afterwards.
func (s *Service) WriteExecStdin(ctx context.Context, p Principal, ref string, id core.ExecID, data []byte, end bool) error {
	if err := p.may("WriteExecStdin"); err != nil {
		return err
	}
	g, err := s.execGuest(ctx, p, ref, id)
	if err != nil {
		return err
	}
	return g.WriteStdin(ctx, id, data, end)
}

func (s *Service) execGuest(ctx context.Context, p Principal, ref string, id core.ExecID) (core.Guest, error) {
	sb, _, err := s.exec(ctx, p, ref, id)
	if err != nil {
		return nil, err
	}
	return s.node.Guest(sb.ID)
}
