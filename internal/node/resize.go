package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/disk"
	"shoal/internal/failpoint"
	"shoal/internal/guest/wire"
	"shoal/internal/runtime"
)

// limitTimeout bounds a guest agent's answer to its new limits. One that is kept busy takes its time; one that was stopped never
// answers.
const limitTimeout = 10 * time.Second

// resizer is the node's part that changes limits.
type resizer struct {
	runtime   runtime.Driver
	disk      disk.Driver
	journal   *journal
	admission *admission
	turns     *turns
	machines  *machines
	log       *slog.Logger
}

// Resize changes the limits of a sandbox that runs.
func (n *resizer) Resize(ctx context.Context, id core.SandboxID, r core.Resources, force bool) error {
	done, err := n.turns.take(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	m, err := n.machines.get(id)
	if err != nil {
		return err
	}
	e, known, err := n.journal.get(id)
	if err != nil || !known {
		return core.Wrap(core.CodeUnavailable, err, "the node has no entry of this sandbox")
	}
	z := resize{n: n, m: m, entry: e, old: e.Resources, want: r, force: force, all: force}
	if err := z.apply(ctx); err != nil {
		z.undo(ctx)
		return err
	}
	n.admission.force(id, r)
	return nil
}

// resize is one change of limits under way.
type resize struct {
	n         *resizer
	m         *machine
	entry     entry
	old, want core.Resources
	force     bool
	// all says that nobody knows which of the limits hold already: all are set.
	all bool
}

// apply writes the journal, and then has the limits changed: at every moment the host's lies above the guest agent's.
func (z *resize) apply(ctx context.Context) error {
	if err := z.record(z.want); err != nil {
		return err
	}
	if err := failpoint.Hit(failpoint.NodeResizeJournaled); err != nil {
		return err
	}
	if err := z.limitDisk(ctx); err != nil {
		return err
	}
	steps := []func(context.Context) error{z.limitGuest, z.limitHost}
	if z.want.MemoryBytes > z.old.MemoryBytes {
		steps[0], steps[1] = steps[1], steps[0]
	}
	if err := steps[0](ctx); err != nil {
		return err
	}
	if err := failpoint.Hit(failpoint.NodeResizeHalf); err != nil {
		return err
	}
	if err := steps[1](ctx); err != nil {
		return err
	}
	return failpoint.Hit(failpoint.NodeResizeDone)
}

func (z *resize) record(r core.Resources) error {
	e := z.entry
	e.Resources = r
	if err := z.n.journal.put(e); err != nil {
		return journalError(err)
	}
	return nil
}

func (z *resize) limitGuest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, limitTimeout)
	defer cancel()
	want := z.want
	if !z.all {
		want = changed(z.old, want)
	}
	l := guestLimits(want)
	if l == nil {
		return nil // an agent of before there was the call, or one that is stopped, need not be asked
	}
	l.Force = z.force
	if err := z.m.guest.Limit(ctx, *l); err != nil {
		return fmt.Errorf("tell guest agent its limits: %w", err)
	}
	return nil
}

// limitDisk changes the limit of the tree, if it is to be another. Less than is written already is a conflict, unless it is forced.
func (z *resize) limitDisk(ctx context.Context) error {
	if z.want.DiskBytes == z.old.DiskBytes && !z.all || z.want.DiskBytes == 0 {
		return nil
	}
	tree := sandboxTree(z.m.id)
	if !z.force {
		u, err := z.n.disk.Usage(ctx, tree)
		if err != nil {
			return fmt.Errorf("look at what is on the disk: %w", err)
		}
		if u.WrittenBytes > z.want.DiskBytes {
			return core.Errorf(core.CodeConflict, "the sandbox keeps %d MiB on its disk now, which is more than %d MiB",
				u.WrittenBytes>>20, z.want.DiskBytes>>20)
		}
	}
	if err := z.n.disk.Limit(ctx, tree, z.want.DiskBytes); err != nil {
		return fmt.Errorf("limit disk: %w", err)
	}
	return nil
}

func (z *resize) limitHost(ctx context.Context) error {
	if err := z.n.runtime.Resize(ctx, z.m.id, z.want); err != nil {
		return fmt.Errorf("limit sandbox: %w", err)
	}
	return nil
}

// undo sets the old limits again, whatever of the new ones was set. It goes on after an error, and is not canceled.
func (z *resize) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	back := resize{n: z.n, m: z.m, entry: z.entry, old: z.want, want: z.old, force: true}
	err := errors.Join(back.record(z.old), back.limitHost(ctx), back.limitGuest(ctx), back.limitDisk(ctx))
	z.n.admission.force(z.m.id, z.old)
	if err != nil && !z.n.machines.running(z.m.id, z.m.incarnation) {
		return // it has ended, and its limits with it
	}
	if err != nil {
		z.n.log.Error("the limits of before can't be set again", slog.String("sandbox_id", string(z.m.id)), slog.Any("err", err))
	}
}

// changed returns those of the guest agent's limits that become others.
func changed(old, want core.Resources) core.Resources {
	var r core.Resources
	if want.MemoryBytes != old.MemoryBytes {
		r.MemoryBytes = want.MemoryBytes
	}
	if want.Pids != old.Pids {
		r.Pids = want.Pids
	}
	if want.OpenFiles != old.OpenFiles {
		r.OpenFiles = want.OpenFiles
	}
	return r
}

// guestLimits are the limits that the guest agent sees to; nil for none.
func guestLimits(r core.Resources) *wire.Limits {
	l := wire.Limits{MemoryBytes: r.MemoryBytes, Pids: r.Pids, OpenFiles: r.OpenFiles}
	if l == (wire.Limits{}) {
		return nil
	}
	return &l
}
