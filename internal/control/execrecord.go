package control

import (
	"context"
	"log/slog"
	"strconv"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// execRecords writes the records and events of execs. A record is written before the start, as the intent; it has a process
// id, and the event that it started, once the guest agent has said so; and it has an outcome, once, when it is known.
//
// Nothing here waits for the disk: after a power cut the sandbox is gone, and its execs are lost anyway. Nothing is cut short
// by a caller who leaves.
type execRecords struct {
	*deps
	young *young
}

// intend records an exec that is about to be started. In a sandbox that has been deleted or stopped since it was looked up none is: that
// ends all execs that it finds, and nobody would end this one.
func (x *execRecords) intend(ctx context.Context, e core.Exec, turn *turn) error {
	return x.store.UpdateRelaxed(context.WithoutCancel(ctx), func(tx store.Tx) error {
		sb, err := tx.SandboxByID(e.Sandbox)
		if err != nil {
			return err
		}
		if sb.State == core.StateDeleted {
			return core.Errorf(core.CodeNotFound, "no such sandbox")
		}
		if err := usable(sb); err != nil {
			return err
		}
		if err := x.quotas.exec(tx, sb.Tenant); err != nil {
			return err
		}
		if err := tx.PutExec(e); err != nil {
			return err
		}
		return turn.record(tx, e.Sandbox, e.ID)
	})
}

// started records that an exec runs, unless somebody has.
func (x *execRecords) started(ctx context.Context, actor core.Actor, sb core.Sandbox, e core.Exec) {
	x.write(ctx, "started", sb, e.ID, func(tx store.Tx, current core.Exec) error {
		if current.PID != 0 {
			return nil
		}
		return putStarted(tx, actor, sb, current, e.PID)
	})
}

// putStarted gives a record its process id, and writes the event.
func putStarted(tx store.Tx, actor core.Actor, sb core.Sandbox, e core.Exec, pid int) error {
	e.PID = pid
	if err := tx.PutExec(e); err != nil {
		return err
	}
	return appendEvent(tx, sb, core.EventExecStarted, actor, e.StartedAt, execFacts(e))
}

// forget removes the record of an exec that never was.
func (x *execRecords) forget(ctx context.Context, sb core.Sandbox, id core.ExecID, turn *turn) {
	x.write(ctx, "forget", sb, id, func(tx store.Tx, _ core.Exec) error {
		if err := turn.undo(tx); err != nil {
			return err
		}
		return tx.DeleteExec(sb.ID, id)
	})
}

// restart makes the record of an exec that was never started that of one which is about to be: whoever has given it up for lost
// meanwhile, or is about to, finds that it is another.
func (x *execRecords) restart(ctx context.Context, sb core.Sandbox, id core.ExecID) (e core.Exec, err error) {
	err = x.store.UpdateRelaxed(context.WithoutCancel(ctx), func(tx store.Tx) error {
		if e, err = tx.Exec(sb.ID, id); err != nil {
			return err
		}
		if e.Outcome != core.OutcomeRunning || e.PID != 0 {
			return core.Errorf(core.CodeUnavailable, "what became of exec %s is being found out", id)
		}
		e.StartedAt = x.clock.Now()
		return tx.PutExec(e)
	})
	return e, err
}

// ended records how an exec ended, once, lets the guest agent forget it, and returns the whole record.
func (x *execRecords) ended(ctx context.Context, actor core.Actor, sb core.Sandbox, e, end core.Exec) core.Exec {
	if end.PID != 0 {
		e.PID = end.PID
	}
	e.Outcome, e.ExitCode, e.Signal = end.Outcome, end.ExitCode, end.Signal
	e.OutOfMemory, e.Shortage = end.OutOfMemory, end.Shortage
	e.OutputBytes, e.OutputFrom, e.Processes = end.OutputBytes, end.OutputFrom, end.Processes
	e.EndedAt = x.clock.Now()
	restarted := false
	mine := x.write(ctx, "ended", sb, e.ID, func(tx store.Tx, current core.Exec) error {
		// One that was given up may have been started after all, by a repeat of its call.
		if restarted = e.Outcome == core.OutcomeLost && !current.StartedAt.Equal(e.StartedAt); restarted {
			return nil
		}
		if current.PID == 0 && e.PID != 0 {
			if err := putStarted(tx, actor, sb, current, e.PID); err != nil {
				return err
			}
		}
		if err := tx.PutExec(e); err != nil {
			return err
		}
		return execEnded(tx, sb, actor, e)
	})
	if !mine || restarted {
		return x.read(ctx, sb, e)
	}
	x.observer.ExecEnd(e.Outcome)
	if err := failpoint.Hit(failpoint.ControlExecEnded); err != nil {
		x.log.Warn("acknowledge the end of an exec", slog.Any("err", err))
		return e
	}
	if e.Outcome != core.OutcomeLost {
		x.acknowledge(sb.ID, e.ID)
	}
	return e
}

// execEnded tells of the end of an exec and counts the time that it took.
func execEnded(tx store.Tx, sb core.Sandbox, actor core.Actor, e core.Exec) error {
	if err := tx.CountExec(sb.Tenant, sb.ID, e.StartedAt, e.EndedAt); err != nil {
		return err
	}
	return appendEvent(tx, sb, core.EventExecEnded, actor, e.EndedAt, execFacts(e))
}

// write changes the record of an exec that has no outcome yet, and reports whether it did. That an exec has ended, or is gone
// with its sandbox, is no failure: somebody else was first.
func (x *execRecords) write(
	ctx context.Context, what string, sb core.Sandbox, id core.ExecID, change func(tx store.Tx, current core.Exec) error,
) (done bool) {
	err := x.store.UpdateRelaxed(context.WithoutCancel(ctx), func(tx store.Tx) error {
		current, err := tx.Exec(sb.ID, id)
		if done = err == nil && current.Outcome == core.OutcomeRunning; !done {
			return err
		}
		return change(tx, current)
	})
	if err != nil {
		if !core.IsCode(err, core.CodeNotFound) {
			x.log.Error("write the record of an exec", slog.String("act", what),
				slog.String("sandbox_id", string(sb.ID)), slog.String("exec_id", string(id)), slog.Any("err", err))
		}
		return false
	}
	if done {
		x.waiters.wake(sb.Tenant)
	}
	return done
}

// read returns the record of an exec; e if it can't be read.
func (x *execRecords) read(ctx context.Context, sb core.Sandbox, e core.Exec) core.Exec {
	err := x.store.View(context.WithoutCancel(ctx), func(r store.Reader) error {
		got, err := r.Exec(sb.ID, e.ID)
		if err == nil && got.Outcome != core.OutcomeRunning {
			e = got
		}
		return err
	})
	if err != nil {
		x.log.Warn("read the record of an exec",
			slog.String("sandbox_id", string(sb.ID)), slog.String("exec_id", string(e.ID)), slog.Any("err", err))
	}
	return e
}

// acknowledge lets the guest agent forget an exec whose end is on record. If the agent can't be told now, it keeps the record
// within its bounds: nothing is lost.
func (x *execRecords) acknowledge(id core.SandboxID, exec core.ExecID) {
	x.tasks.run(func(ctx context.Context) {
		g, err := x.node.Guest(id)
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, agentTimeout)
		defer cancel()
		if err := g.Acknowledge(ctx, []core.ExecID{exec}); err != nil && !core.IsCode(err, core.CodeUnavailable) {
			x.log.Debug("acknowledge an exec", slog.String("sandbox_id", string(id)), slog.String("exec_id", string(exec)), slog.Any("err", err))
		}
	})
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
	if e.OutOfMemory {
		facts["out_of_memory"] = "true"
		for name, n := range map[string]int64{
			"memory_used_bytes": e.Shortage.UsedBytes, "memory_held_bytes": e.Shortage.HeldBytes, "memory_limit_bytes": e.Shortage.LimitBytes,
		} {
			if n > 0 {
				facts[name] = strconv.FormatInt(n, 10)
			}
		}
	}
	return facts
}
