package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/failpoint"
)

const (
	// stopAsk is how long a guest agent may take to say that it is there, before a stop goes on without it.
	stopAsk = 5 * time.Second
	// stopFlush bounds how long a sandbox's programs' writes are flushed before it is ended.
	stopFlush = 2 * time.Minute
)

// sleeping is the node's part that stops and wakes sandboxes.
type sleeping struct{ n *Node }

// Stop ends a sandbox's processes and keeps its tree. The journal says so first: from then on nothing takes over what may be left of
// it.
func (s *sleeping) Stop(ctx context.Context, id core.SandboxID) error {
	done, err := s.n.turns.take(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	e, known, err := s.n.journal.get(id)
	if err != nil {
		s.n.log.Warn("journal entry of a sandbox to stop is damaged", slog.String("sandbox_id", string(id)), slog.Any("err", err))
	}
	if known && e.Phase == phaseDeleting {
		return core.Errorf(core.CodeConflict, "the sandbox is being deleted")
	}
	s.flush(ctx, id)
	if ctx.Err() != nil {
		return interrupted(ctx, ctx.Err(), "the stop")
	}
	if known && e.Phase != phaseStopped {
		if err := s.n.journal.putStopped(e, s.n.cfg.Clock.Now()); err != nil {
			return journalError(err)
		}
	}
	s.n.machines.drop(id, 0) // from here on there is no way back
	if err := failpoint.Hit(failpoint.NodeStopJournaled); err != nil {
		return err
	}
	if err := s.n.reclaim(ctx, id); err != nil {
		return err
	}
	s.n.admission.release(id)
	if err := failpoint.Hit(failpoint.NodeStopReclaimed); err != nil {
		return err
	}
	// Whoever is told that it is stopped may pull the plug.
	if err := s.n.cfg.Disk.Flush(ctx, sandboxTree(id)); err != nil && !core.IsCode(err, core.CodeNotFound) {
		return fmt.Errorf("flush tree: %w", err)
	}
	return nil
}

// putStopped writes that nothing of a sandbox is to run.
func (j *journal) putStopped(e entry, now time.Time) error {
	e.Phase, e.At = phaseStopped, now
	return j.put(e)
}

// flush has what a sandbox's programs have written flushed to its tree, if it runs and its guest agent answers: one that doesn't must not
// keep the sandbox from being stopped.
func (s *sleeping) flush(ctx context.Context, id core.SandboxID) {
	m, err := s.n.machines.get(id)
	if err != nil {
		return
	}
	ask, cancel := context.WithTimeout(ctx, stopAsk)
	defer cancel()
	if err = m.guest.Ping(ask); err == nil {
		flush, cancel := context.WithTimeout(ctx, stopFlush)
		defer cancel()
		err = m.guest.Sync(flush)
	}
	if err != nil && ctx.Err() == nil {
		s.n.log.Warn("a sandbox is stopped without its last writes flushed", slog.String("sandbox_id", string(id)), slog.Any("err", err))
	}
}

// Wake starts a sandbox on the tree that it has.
func (s *sleeping) Wake(ctx context.Context, spec core.NodeSpec) error {
	done, err := s.n.turns.take(ctx, spec.Sandbox)
	if err != nil {
		return err
	}
	defer done()
	if !s.n.admission.has(spec.Sandbox) {
		return core.Errorf(core.CodeInternal, "the sandbox has no reservation")
	}
	e, known, err := s.n.journal.get(spec.Sandbox)
	if err != nil {
		s.n.log.Warn("journal entry of a sandbox to wake is damaged", slog.String("sandbox_id", string(spec.Sandbox)), slog.Any("err", err))
	}
	if known && e.Phase == phaseDeleting {
		return core.Errorf(core.CodeConflict, "the sandbox is being deleted")
	}
	if m, err := s.n.machines.get(spec.Sandbox); err == nil {
		if m.incarnation == spec.Incarnation {
			return nil
		}
		return core.Errorf(core.CodeConflict, "the sandbox runs")
	}
	defer s.n.machines.beginStart(spec.Sandbox, spec.Incarnation)()
	if err := s.wake(ctx, spec, known && e.Phase == phaseStopped); err != nil {
		return s.undoWake(ctx, spec, err)
	}
	return nil
}

// wake starts a sandbox. What may be left of it is reclaimed first, unless it was stopped as it should.
func (s *sleeping) wake(ctx context.Context, spec core.NodeSpec, clean bool) error {
	if !clean {
		if err := s.n.reclaim(ctx, spec.Sandbox); err != nil {
			return err
		}
	}
	return s.n.launch(ctx, spec, launch{
		phase: phaseWaking, tree: keptTree, journaled: failpoint.NodeWakeJournaled, hasTree: failpoint.NodeWakeTree,
		attached: failpoint.NodeWakeAttached, runDir: failpoint.NodeWakeRunDir, isolated: failpoint.NodeWakeIsolated,
		started: failpoint.NodeWakeStarted, configured: failpoint.NodeWakeConfigured, ready: failpoint.NodeWakeReady,
	})
}

// keptTree returns the tree that a sandbox has, with the limit that it has now: that may have been changed while it didn't run.
func keptTree(ctx context.Context, d disk.Driver, spec core.NodeSpec) (string, error) {
	tree := sandboxTree(spec.Sandbox)
	root, err := d.Path(tree)
	if core.IsCode(err, core.CodeNotFound) {
		return "", core.Wrap(core.CodeDataLoss, err, "the sandbox's files are not on the node")
	}
	if err != nil {
		return "", fmt.Errorf("find tree: %w", err)
	}
	if spec.Resources.DiskBytes > 0 {
		if err := d.Limit(ctx, tree, spec.Resources.DiskBytes); err != nil {
			return "", fmt.Errorf("limit disk: %w", err)
		}
	}
	return root, nil
}

// undoWake ends what a wake has begun and returns why it failed, as the caller's cancel if it was that.
func (s *sleeping) undoWake(ctx context.Context, spec core.NodeSpec, cause error) error {
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	err := s.n.reclaim(undo, spec.Sandbox)
	if err == nil {
		s.n.admission.release(spec.Sandbox)
		err = s.n.journal.putStopped(entryOf(spec), s.n.cfg.Clock.Now())
	}
	if err != nil {
		s.n.log.Warn("undo of a wake left something for the next one", slog.String("sandbox_id", string(spec.Sandbox)), slog.Any("err", err))
	}
	if ctx.Err() != nil {
		return interrupted(ctx, cause, "the wake")
	}
	return cause
}
