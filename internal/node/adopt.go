package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"shoal/internal/core"
	"shoal/internal/disk"
)

// QuarantineAge is how long a tree without a record is kept.
const QuarantineAge = 24 * time.Hour

// adoptParallel is how many sandboxes are looked at together: one that hangs must not hold up the others.
const adoptParallel = 16

// adopt takes over every sandbox of the journal that still runs, and says how many do and why others don't. Of one that does
// not run any more, or can't be reached, List says so; Sweep ends what is left of it, and its tree stays.
func (n *Node) adopt(ctx context.Context) error {
	entries, err := n.journal.list()
	if err != nil {
		return err
	}
	found := traces(ctx, n.cfg)
	results := make([]adoption, len(entries))
	var g errgroup.Group
	g.SetLimit(adoptParallel)
	for i, e := range entries {
		switch e.Phase {
		case phaseRunning:
		case phaseStopped:
			results[i] = adoptionStopped
			continue
		case phaseCreating, phaseWaking, phaseDeleting:
			n.admission.force(e.Sandbox, e.Resources)
			results[i] = adoptionCutOff
			continue
		}
		g.Go(func() error {
			results[i] = n.adoptOne(ctx, e, found)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	sayAdopted(n.log, results)
	return nil
}

// adoption says what became of one sandbox of the journal; it is the key of its count in the log.
type adoption string

const (
	// adopted: it runs and is ours again.
	adopted adoption = "taken_over"
	// adoptionEnded: nothing of it ran any more, as of one that had failed before.
	adoptionEnded adoption = "ended_before"
	// adoptionStopped: nothing of it is to run.
	adoptionStopped adoption = "stopped"
	// adoptionCutOff: its create, wake or delete was under way, and is finished or undone next.
	adoptionCutOff adoption = "cut_off"
	// The others have a warning of their own.
	adoptionNoNetwork adoption = "lost_network"
	adoptionDead      adoption = "lost_machine"
	adoptionDamaged   adoption = "damaged_entry"
)

// sayAdopted writes the one line about all sandboxes.
func sayAdopted(log *slog.Logger, results []adoption) {
	if len(results) == 0 {
		return
	}
	counts := map[adoption]int{}
	for _, r := range results {
		counts[r]++
	}
	attrs := []any{slog.Int(string(adopted), counts[adopted]), slog.Int("not_taken_over", len(results)-counts[adopted]-counts[adoptionStopped])}
	for _, why := range []adoption{adoptionStopped, adoptionEnded, adoptionCutOff, adoptionNoNetwork, adoptionDead, adoptionDamaged} {
		if counts[why] > 0 {
			attrs = append(attrs, slog.Int(string(why), counts[why]))
		}
	}
	log.Info("sandboxes of before the start", attrs...)
}

// traces returns the sandboxes of which the runtime has any trace; nil if that can't be told.
func traces(ctx context.Context, cfg Config) map[core.SandboxID]bool {
	list, err := cfg.Runtime.List(ctx)
	if err != nil {
		cfg.Logger.Warn("the machines of before the start can't be listed", slog.Any("err", err))
		return nil
	}
	found := map[core.SandboxID]bool{}
	for _, m := range list {
		found[m.ID] = true
	}
	return found
}

func (n *Node) adoptOne(ctx context.Context, e entry, traces map[core.SandboxID]bool) adoption {
	if e.Incarnation == 0 {
		n.log.Error("a journal entry is damaged: its sandbox is ended and its tree kept", slog.String("sandbox_id", string(e.Sandbox)))
		return adoptionDamaged
	}
	if _, err := n.cfg.Network.Adopt(ctx, e.Sandbox); err != nil {
		if core.IsCode(err, core.CodeNotFound) && traces != nil && !traces[e.Sandbox] {
			// It has neither network nor machine: it ended before this start, and whoever saw that has said so.
			return adoptionEnded
		}
		n.log.Warn("sandbox has lost its network", slog.String("sandbox_id", string(e.Sandbox)), slog.Any("err", err))
		return adoptionNoNetwork
	}
	if err := n.cfg.Runtime.Adopt(ctx, e.Sandbox, e.Incarnation); err != nil {
		n.log.Warn("sandbox did not outlive the restart", slog.String("sandbox_id", string(e.Sandbox)), slog.Any("err", err))
		return adoptionDead
	}
	// A server that was killed while it made a checkpoint has held it.
	if err := n.thaw(ctx, e.Sandbox); err != nil {
		return adoptionDead
	}
	n.admission.force(e.Sandbox, e.Resources)
	m := n.newMachine(e.Sandbox, e.Incarnation)
	m.answers.Store(true)
	n.machines.put(m)
	return adopted
}

// Sweep reclaims what has no right to be here. known is what the store has records of. It runs once after a start,
// before any command. It goes on after an error: what is broken in one sandbox is no reason to leave another.
func (n *Node) Sweep(ctx context.Context, known core.Known) error {
	entries, err := n.journal.list()
	if err != nil {
		return err
	}
	journaled, mayRun := map[core.SandboxID]bool{}, map[core.SandboxID]bool{}
	var errs []error
	for _, e := range entries {
		journaled[e.Sandbox] = true
		mayRun[e.Sandbox] = e.Phase != phaseStopped
		if err := n.sweepEntry(ctx, e, known.Sandboxes[e.Sandbox]); err != nil {
			errs = append(errs, fmt.Errorf("sweep sandbox %s: %w", e.Sandbox, err))
		}
	}
	errs = append(errs, n.sweepStrays(ctx, mayRun), n.sweepTrees(ctx, journaled, known), n.purge(ctx))
	return errors.Join(errs...)
}

// sweepEntry settles one sandbox of the journal.
func (n *Node) sweepEntry(ctx context.Context, e entry, known bool) error {
	done, err := n.turns.take(ctx, e.Sandbox)
	if err != nil {
		return err
	}
	defer done()
	if e.Phase == phaseDeleting {
		n.log.Info("finishing a delete that a restart cut off", slog.String("sandbox_id", string(e.Sandbox)))
		return n.teardown(ctx, e.Sandbox)
	}
	// An entry that says creating is no licence to destroy: after a power cut it may be older than the create's end, which
	// the store then knows. If the create was really cut off, the store's owner deletes the sandbox next.
	if !known {
		n.log.Warn("sandbox without a record: its tree is set aside", slog.String("sandbox_id", string(e.Sandbox)))
		return n.setAside(ctx, e.Sandbox)
	}
	if e.Phase == phaseStopped {
		return nil // what a stop that was cut off has left is a stray
	}
	if _, err := n.machines.get(e.Sandbox); err != nil {
		// Nobody can reach what may be left of it.
		if err := n.reclaim(ctx, e.Sandbox); err != nil {
			return err
		}
		n.admission.release(e.Sandbox)
		if e.Phase == phaseWaking {
			return n.journal.putStopped(e, n.cfg.Clock.Now())
		}
	}
	return nil
}

// sweepStrays reclaims processes, slots and run directories that no journal entry stands for, or one that says that nothing is to run.
func (n *Node) sweepStrays(ctx context.Context, mayRun map[core.SandboxID]bool) error {
	found := map[core.SandboxID]bool{}
	var errs []error
	machines, err := n.cfg.Runtime.List(ctx)
	if err != nil {
		errs = append(errs, fmt.Errorf("list machines: %w", err))
	}
	for _, m := range machines {
		found[m.ID] = true
	}
	slots, err := n.cfg.Network.List(ctx)
	if err != nil {
		errs = append(errs, fmt.Errorf("list slots: %w", err))
	}
	for _, s := range slots {
		found[s.Sandbox] = true
	}
	dirs, err := n.runDirs.list()
	if err != nil {
		errs = append(errs, err)
	}
	for _, id := range dirs {
		found[id] = true
	}
	for id := range found {
		if mayRun[id] {
			continue
		}
		n.log.Warn("reclaiming remains of a sandbox", slog.String("sandbox_id", string(id)))
		if err := n.reclaim(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("reclaim remains of sandbox %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// sweepTrees removes cut-off imports, and sets aside the trees that neither journal nor store knows: a missing record destroys
// no data.
func (n *Node) sweepTrees(ctx context.Context, journaled map[core.SandboxID]bool, known core.Known) error {
	trees, err := n.cfg.Disk.List(ctx)
	if err != nil {
		return fmt.Errorf("list trees: %w", err)
	}
	var errs []error
	for _, t := range trees {
		var wanted bool
		switch t.Ref.Kind {
		case disk.KindTemplate:
			if !t.Complete || !t.Frozen {
				errs = append(errs, n.cfg.Disk.Delete(ctx, t.Ref)) // nobody has ever been told of it
				continue
			}
			wanted = known.Templates[core.TemplateID(t.Ref.ID)]
		case disk.KindSandbox:
			id := core.SandboxID(t.Ref.ID)
			wanted = journaled[id] || known.Sandboxes[id]
		case disk.KindView:
			errs = append(errs, n.cfg.Disk.Delete(ctx, t.Ref)) // who read it is gone
			continue
		case disk.KindCheckpoint:
			wanted = known.Checkpoints[core.CheckpointID(t.Ref.ID)]
		}
		if !wanted {
			n.log.Warn("tree without a record is set aside", slog.String("kind", string(t.Ref.Kind)), slog.String("tree", t.Ref.ID))
			errs = append(errs, n.cfg.Disk.Quarantine(ctx, t.Ref))
		}
	}
	return errors.Join(errs...)
}

// purge drops what has been set aside for long enough.
func (n *Node) purge(ctx context.Context) error {
	count, err := n.cfg.Disk.PurgeQuarantine(ctx, QuarantineAge)
	if err != nil {
		err = fmt.Errorf("purge trees set aside: %w", err)
	}
	if count > 0 {
		n.log.Info("removed trees that were set aside", slog.Int("count", count))
	}
	return errors.Join(err, n.journal.purgeAside(n.cfg.Clock.Now(), QuarantineAge))
}
