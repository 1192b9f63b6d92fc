package control

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"time"

	"shoal/internal/core"
	"shoal/internal/failpoint"
	"shoal/internal/store"
)

// ResourcesPatch changes limits. A zero field is left as it is.
type ResourcesPatch core.Resources

// Over returns the limits that a sandbox would have.
func (r ResourcesPatch) Over(old core.Resources) core.Resources {
	return core.Resources{
		VCPUs: cmp.Or(r.VCPUs, old.VCPUs), MemoryBytes: cmp.Or(r.MemoryBytes, old.MemoryBytes),
		DiskBytes: cmp.Or(r.DiskBytes, old.DiskBytes), Pids: cmp.Or(r.Pids, old.Pids),
		OpenFiles: cmp.Or(r.OpenFiles, old.OpenFiles), CPUWeight: cmp.Or(r.CPUWeight, old.CPUWeight),
		IOWeight: cmp.Or(r.IOWeight, old.IOWeight),
	}
}

// resizing changes the limits of a sandbox. One that doesn't run has the new ones from its next start on.
//
// The record changes first, with its event, and says that a resize is under way until the node has changed the limits. If the node
// can't, the record changes back, with an event again. After a crash the record is what holds.
type resizing struct {
	*deps
	usage *usage
}

// resizeTimeout bounds the node's part. A caller who goes away doesn't cut it in two.
const resizeTimeout = 30 * time.Second

// update makes a change that has to do with limits.
func (z *resizing) update(ctx context.Context, p Principal, id core.SandboxID, patch SandboxPatch) (sb core.Sandbox, err error) {
	_, done, err := z.commands.begin(ctx, id)
	if err != nil {
		return sb, err
	}
	defer done()
	old, want, err := z.reserve(ctx, p, id, patch)
	if err != nil {
		return sb, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resizeTimeout)
	defer cancel()
	if sb, err = z.record(ctx, p, id, patch, want); err != nil {
		return sb, z.giveBack(ctx, id, old, err)
	}
	z.waiters.wake(p.Tenant)
	err = failpoint.Hit(failpoint.ControlResizeRecorded)
	if err == nil && sb.State == core.StateRunning {
		if err = z.node.Resize(ctx, id, want, false); err == nil {
			err = failpoint.Hit(failpoint.ControlResizeNodeDone)
		}
	}
	if err == nil {
		sb, err = z.finish(ctx, p, id, patch)
	}
	if err != nil {
		return sb, z.revert(ctx, p, id, old, err)
	}
	return sb, failpoint.Hit(failpoint.ControlResizeCommitted)
}

// reserve checks what is asked for and has the node promise it. It returns the limits of before and those to be.
func (z *resizing) reserve(ctx context.Context, p Principal, id core.SandboxID, patch SandboxPatch) (old, want core.Resources, err error) {
	var runs bool
	err = z.store.View(ctx, func(r store.Reader) error {
		sb, err := p.findToChange(r, string(id))
		if err != nil {
			return err
		}
		old, runs = sb.Resources, sb.State == core.StateRunning
		want, err = z.check(r, p, sb, patch)
		return err
	})
	if err == nil && !runs {
		err = z.keepsLess(ctx, id, old, want)
	}
	if err != nil || !runs || want.MemoryBytes <= old.MemoryBytes {
		return old, want, err
	}
	return old, want, z.node.Reserve(ctx, id, want)
}

// keepsLess refuses a limit of the disk below what a sandbox that doesn't run keeps there; of one that runs the node does.
func (z *resizing) keepsLess(ctx context.Context, id core.SandboxID, old, want core.Resources) error {
	if want.DiskBytes == 0 || want.DiskBytes == old.DiskBytes || z.usage.sizes == nil {
		return nil
	}
	kept, err := z.usage.sizes.KeptBytes(ctx, id)
	if err == nil && kept > want.DiskBytes {
		return core.Errorf(core.CodeConflict, "the sandbox keeps %d MiB on its disk now, which is more than %d MiB",
			kept>>20, want.DiskBytes>>20)
	}
	return err
}

// check returns the limits that a sandbox would have, if it may have them now.
func (z *resizing) check(r store.Reader, p Principal, sb core.Sandbox, patch SandboxPatch) (core.Resources, error) {
	if err := core.Begin(sb.State, sb.Operation, core.OpResize); err != nil {
		return core.Resources{}, err
	}
	if sb.Operation != core.OpNone { // one that a crash cut off, and that is being set right
		return core.Resources{}, core.Errorf(core.CodeConflict, "a %s is under way: try again when it has ended", sb.Operation)
	}
	limits, err := z.limitsIn(r, sb.Tenant)
	if err != nil {
		return core.Resources{}, err
	}
	// What stays as it is may be above a ceiling that was lowered since.
	if _, err := limits.resources(core.Resources(patch.Resources)); err != nil {
		return core.Resources{}, err
	}
	if _, err = z.patched(r, p, sb, patch, z.clock.Now()); err != nil { // the rest of the patch comes later, and must not fail then
		return core.Resources{}, err
	}
	want := patch.Resources.Over(sb.Resources)
	return want, z.quotas.grow(r, sb, want)
}

// record makes the change durable before it is done.
func (z *resizing) record(ctx context.Context, p Principal, id core.SandboxID, patch SandboxPatch, want core.Resources) (sb core.Sandbox, err error) {
	now := z.clock.Now()
	err = z.store.Update(ctx, func(tx store.Tx) error {
		if sb, err = p.findToChange(tx, string(id)); err != nil {
			return err
		}
		if _, err := z.check(tx, p, sb, patch); err != nil {
			return err
		}
		sb.Resources, sb.Operation, sb.OperationSince = want, core.OpResize, now
		if err := tx.PutSandbox(sb); err != nil {
			return err
		}
		return appendEvent(tx, sb, core.EventSandboxResized, p.Actor, now, resizedData(want))
	})
	return sb, err
}

// resizedData is what the event says: the limits that hold from then on.
func resizedData(r core.Resources) map[string]string {
	data := sizeFacts(r)
	for name, n := range map[string]int64{
		"disk_bytes": r.DiskBytes, "pids": int64(r.Pids), "open_files": int64(r.OpenFiles), "cpu_weight": int64(r.CPUWeight),
		"io_weight": int64(r.IOWeight),
	} {
		if n > 0 {
			data[name] = strconv.FormatInt(n, 10)
		}
	}
	return data
}

// finish records that the limits hold, with the rest of the patch.
func (z *resizing) finish(ctx context.Context, p Principal, id core.SandboxID, patch SandboxPatch) (sb core.Sandbox, err error) {
	err = z.store.Update(ctx, func(tx store.Tx) error {
		if sb, err = p.findToChange(tx, string(id)); err != nil {
			return err
		}
		if sb.Operation != core.OpResize {
			return core.Errorf(core.CodeConflict, "the sandbox ended while its limits were changed")
		}
		now := z.clock.Now()
		if sb, err = z.patched(tx, p, sb, patch, now); err != nil {
			return err
		}
		sb.Operation, sb.OperationSince = core.OpNone, time.Time{}
		if err := tx.PutSandbox(sb); err != nil {
			return err
		}
		return z.usage.relabel(tx, sb, patch, now)
	})
	return sb, err
}

// revert records that the limits of before hold, and returns why. What can't be written now is written later.
func (z *resizing) revert(ctx context.Context, p Principal, id core.SandboxID, old core.Resources, cause error) error {
	act := func(ctx context.Context) error { return z.restore(ctx, p, id, old, cause) }
	if err := act(ctx); err != nil {
		z.log.Error("record limits that could not be changed", slog.String("sandbox_id", string(id)), slog.Any("err", err))
		z.persist(act, func(err error) {
			z.log.Warn("record limits that could not be changed: will be tried again", slog.String("sandbox_id", string(id)), slog.Any("err", err))
		})
	}
	return cause
}

// restore has the node set the limits of before, and then writes them. The node has them already, unless it was the record of their
// change that failed: until it has, the record holds more, which counts, and no other change begins.
func (z *resizing) restore(ctx context.Context, p Principal, id core.SandboxID, old core.Resources, cause error) error {
	now := z.clock.Now()
	var under, runs bool
	err := z.store.View(ctx, func(r store.Reader) error {
		sb, err := r.SandboxByID(id)
		under, runs = err == nil && sb.Operation == core.OpResize, sb.State == core.StateRunning
		return goneIsDone(err)
	})
	if err == nil && under && runs {
		err = z.node.Resize(ctx, id, old, true)
	}
	if err != nil || !under {
		return err
	}
	err = z.store.Update(ctx, func(tx store.Tx) error {
		sb, err := tx.SandboxByID(id)
		if under = err == nil && sb.Operation == core.OpResize; !under {
			return goneIsDone(err)
		}
		sb.Resources, sb.Operation, sb.OperationSince = old, core.OpNone, time.Time{}
		if err := tx.PutSandbox(sb); err != nil {
			return err
		}
		data := resizedData(old)
		data["reason"], data["code"] = "the change could not be made", string(core.CodeOf(cause))
		return appendEvent(tx, sb, core.EventSandboxResized, p.Actor, now, data)
	})
	if err == nil && under {
		z.waiters.wake(p.Tenant)
	}
	return err
}

// giveBack gives back what was reserved for a change that was not recorded, and returns why it was not.
func (z *resizing) giveBack(ctx context.Context, id core.SandboxID, old core.Resources, cause error) error {
	if _, err := z.node.Guest(id); err == nil { // else nothing is reserved any more
		if err := z.node.Reserve(ctx, id, old); err != nil {
			z.log.Warn("give back a reservation", slog.String("sandbox_id", string(id)), slog.Any("err", err))
		}
	}
	return cause
}

// resume settles a change that a crash cut off: what the record says holds.
func (z *resizing) resume(ctx context.Context, sb core.Sandbox) {
	act := func(ctx context.Context) error {
		_, done, err := z.commands.begin(ctx, sb.ID)
		if err != nil {
			return err
		}
		defer done()
		return z.settle(ctx, sb.ID)
	}
	if err := act(ctx); err != nil {
		z.log.Warn("limits that a restart left half changed", slog.String("sandbox_id", string(sb.ID)), slog.Any("err", err))
		z.persist(act, func(err error) {
			z.log.Warn("limits that a restart left half changed: will be tried again",
				slog.String("sandbox_id", string(sb.ID)), slog.Any("err", err))
		})
	}
}

// settle sets the limits that are on record, if a change of them is under way.
func (z *resizing) settle(ctx context.Context, id core.SandboxID) error {
	var sb core.Sandbox
	err := z.store.View(ctx, func(r store.Reader) (err error) {
		sb, err = r.SandboxByID(id)
		return err
	})
	if core.IsCode(err, core.CodeNotFound) || err == nil && sb.Operation != core.OpResize {
		return nil
	}
	if err == nil && sb.State == core.StateRunning {
		err = z.node.Resize(ctx, id, sb.Resources, true)
	}
	if err != nil {
		return err
	}
	return z.store.Update(ctx, func(tx store.Tx) error {
		current, err := tx.SandboxByID(id)
		if err != nil || current.Operation != core.OpResize {
			return goneIsDone(err)
		}
		current.Operation, current.OperationSince = core.OpNone, time.Time{}
		return tx.PutSandbox(current)
	})
}
