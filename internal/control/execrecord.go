package control

import (
	"context"
	"strconv"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// recordExec writes an exec's record and the event that it started or ended. It does not wait for the disk: after a power
// cut the sandbox is gone, and its execs are lost anyway.
func (s *Service) recordExec(ctx context.Context, actor core.Actor, sb core.Sandbox, e core.Exec, t core.EventType) error {
	at := e.StartedAt
	if t == core.EventExecEnded {
		at = e.EndedAt
	}
	err := s.store.UpdateRelaxed(ctx, func(tx store.Tx) error {
		if t == core.EventExecEnded {
			if current, err := tx.Exec(sb.ID, e.ID); err != nil || current.Outcome != core.OutcomeRunning {
				return errAlreadyRecorded(err)
			}
		}
		if err := tx.PutExec(e); err != nil {
			return err
		}
		return appendEvent(tx, sb, t, actor, at, execFacts(e))
	})
	if err == nil {
		s.changed(sb.Tenant)
	}
	return err
}

// errAlreadyRecorded is err, or exists if the end of the exec was recorded by someone else first.
func errAlreadyRecorded(err error) error {
	if err != nil {
		return err
	}
	return core.Errorf(core.CodeExists, "the end of the exec is recorded already")
}

// execFacts are the facts of an exec's event.
func execFacts(e core.Exec) map[string]string {
	facts := map[string]string{"exec_id": string(e.ID)}
	if e.Outcome != core.OutcomeRunning {
		facts["outcome"] = string(e.Outcome)
	}
	if e.ExitCode != nil {
		facts["exit_code"] = strconv.Itoa(*e.ExitCode)
	}
	if e.Signal != "" {
		facts["signal"] = e.Signal
	}
	return facts
}

// execNotStarted records that an exec came to nothing, and returns why. What the guest agent may have started all the same is
// killed.
func (s *Service) execNotStarted(ctx context.Context, actor core.Actor, sb core.Sandbox, e core.Exec, cause error) error {
	ctx = context.WithoutCancel(ctx)
	if g, err := s.node.Guest(sb.ID); err == nil && !core.IsCode(cause, core.CodeInvalid) {
		ctx, cancel := context.WithTimeout(ctx, agentTimeout)
		defer cancel()
		if err := g.Cancel(ctx, e.ID); err != nil && !core.IsCode(err, core.CodeNotFound) {
			s.log.Warn("cancel an exec that was not started in order", "sandbox_id", string(sb.ID), "exec_id", string(e.ID), "err", err)
		}
	}
	e.Outcome, e.EndedAt = core.OutcomeLost, s.clock.Now()
	if core.IsCode(cause, core.CodeInvalid) || core.IsCode(cause, core.CodeCanceled) {
		e.Outcome = core.OutcomeCanceled
	}
	if err := s.recordExec(ctx, actor, sb, e, core.EventExecEnded); err != nil && !core.IsCode(err, core.CodeExists) {
		s.log.Error("record an exec that did not start", "sandbox_id", string(sb.ID), "exec_id", string(e.ID), "err", err)
	}
	return cause
}

// recorded is the record of an exec whose end somebody else was first to write; e if it can't be read.
func (s *Service) recorded(ctx context.Context, sb core.Sandbox, e core.Exec) core.Exec {
	err := s.store.View(ctx, func(r store.Reader) error {
		got, err := r.Exec(sb.ID, e.ID)
		if err == nil {
			e = got
		}
		return err
	})
	if err != nil {
		s.log.Warn("read the record of an exec", "sandbox_id", string(sb.ID), "exec_id", string(e.ID), "err", err)
	}
	return e
}

// execEnded records how an exec ended, once, lets the guest agent forget it, and returns the whole record.
func (s *Service) execEnded(ctx context.Context, actor core.Actor, sb core.Sandbox, e, end core.Exec) core.Exec {
	e.PID, e.Outcome, e.ExitCode, e.Signal = end.PID, end.Outcome, end.ExitCode, end.Signal
	e.OutputBytes, e.OutputFrom, e.Processes = end.OutputBytes, end.OutputFrom, end.Processes
	e.EndedAt = s.clock.Now()
	err := s.recordExec(ctx, actor, sb, e, core.EventExecEnded)
	if core.IsCode(err, core.CodeExists) {
		return s.recorded(ctx, sb, e)
	}
	if err != nil {
		s.log.Error("record the end of an exec", "sandbox_id", string(sb.ID), "exec_id", string(e.ID), "err", err)
		return e
	}
	s.cfg.Observer.ExecEnd(e.Outcome)
	if err := failpoint.Hit(failpoint.ControlExecEnded); err != nil {
		s.log.Warn("acknowledge the end of an exec", "err", err)
		return e
	}
	if e.Outcome != core.OutcomeLost {
		s.watchers.acknowledge(sb.ID, e.ID)
	}
	return e
}
