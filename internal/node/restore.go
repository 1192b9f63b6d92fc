package node

import (
	"context"
	"fmt"
	"log/slog"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/failpoint"
)

// Restore puts other files in the place of a sandbox's and starts it on them. Its processes are ended before; the journal says so first, as
// for a stop.
func (s *sleeping) Restore(ctx context.Context, spec core.NodeSpec) error {
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
		s.n.log.Warn("journal entry of a sandbox to restore is damaged", slog.String("sandbox_id", string(spec.Sandbox)), slog.Any("err", err))
	}
	if known && e.Phase == phaseDeleting {
		return core.Errorf(core.CodeConflict, "the sandbox is being deleted")
	}
	if s.n.machines.running(spec.Sandbox, spec.Incarnation) {
		return nil
	}
	if err := s.n.journal.putStopped(entryOf(spec), s.n.cfg.Clock.Now()); err != nil {
		return journalError(err)
	}
	defer s.n.machines.beginStart(spec.Sandbox, spec.Incarnation)()
	if err := s.restore(ctx, spec); err != nil {
		return s.undoWake(ctx, spec, err)
	}
	return nil
}

// restore ends what runs, replaces the files and starts the sandbox. Its caller undoes what is begun.
func (s *sleeping) restore(ctx context.Context, spec core.NodeSpec) error {
	s.n.machines.drop(spec.Sandbox, 0) // from here on there is no way back
	if err := failpoint.Hit(failpoint.NodeRestoreJournaled); err != nil {
		return err
	}
	if err := s.n.reclaim(ctx, spec.Sandbox); err != nil {
		return err
	}
	if err := failpoint.Hit(failpoint.NodeRestoreEnded); err != nil {
		return err
	}
	if err := s.replaceTree(ctx, spec); err != nil {
		return err
	}
	if err := failpoint.Hit(failpoint.NodeRestoreReplaced); err != nil {
		return err
	}
	return s.wake(ctx, spec, true)
}

// replaceTree gives a sandbox the files of a checkpoint or template. One whose tree is lost gets them too.
func (s *sleeping) replaceTree(ctx context.Context, spec core.NodeSpec) error {
	source := templateTree(spec.Source.Template)
	if from := spec.Source.Checkpoint; from != "" {
		done, err := s.n.checkpointing.trees.take(ctx, from)
		if err != nil {
			return err
		}
		defer done()
		source = checkpointTree(from)
	}
	tree, opts := sandboxTree(spec.Sandbox), disk.CloneOptions{LimitBytes: spec.Resources.DiskBytes}
	if _, err := s.n.cfg.Disk.Path(tree); core.IsCode(err, core.CodeNotFound) {
		_, err := s.n.cfg.Disk.Clone(ctx, source, tree, opts)
		return wrapped("clone files", err)
	}
	_, err := s.n.cfg.Disk.Replace(ctx, source, tree, opts)
	return wrapped("replace files", err)
}

func wrapped(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
