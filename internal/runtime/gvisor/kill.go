package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// Kill ends every process of the sandbox and removes its groups and state, in any condition. It looks at what is there, not
// at what a record says: the record may be half written or gone.
func (d *Driver) Kill(ctx context.Context, id core.SandboxID) error {
	if !core.IsID(string(id)) {
		return nil
	}
	b, err := d.boxForKill(id)
	if err != nil {
		return err
	}
	b.kill()
	b.unwatch()
	// Now, and not only when it is our turn: whatever is being done with the sandbox fails as soon as its processes die.
	if err := d.killGroup(b); err != nil {
		d.log.WarnContext(ctx, "first attempt to kill failed", slog.Any("sandbox_id", id), slog.Any("err", err))
	}
	b.op.Lock()
	defer b.op.Unlock()
	if err := d.destroy(ctx, b); err != nil {
		return core.Wrap(core.CodeUnavailable, err, "the sandbox could not be removed completely")
	}
	return nil
}

// boxForKill returns the sandbox's box, or makes one of whatever is known of it.
func (d *Driver) boxForKill(id core.SandboxID) (*box, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, core.Errorf(core.CodeUnavailable, "the runtime is shutting down")
	}
	if b := d.boxes[id]; b != nil {
		return b, nil
	}
	r, err := readRecord(d.cfg.StateDir, id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.log.Warn("record cannot be read: killing by control group alone", slog.Any("sandbox_id", id), slog.Any("err", err))
	}
	r.ID = id
	b := newBox(r)
	d.boxes[id] = b
	return b, nil
}

// destroy removes every trace: processes, groups, files, and at last the record, so that a crash half way leaves something
// to find. The caller holds b.op.
func (d *Driver) destroy(ctx context.Context, b *box) error {
	b.kill()
	b.unwatch()
	if err := d.endProcesses(ctx, b); err != nil {
		return err
	}
	if err := d.removeGroups(ctx, b); err != nil {
		return err
	}
	paths, err := filesOf(d.cfg.StateDir, b.id)
	if err != nil {
		return err
	}
	last := recordPath(d.cfg.StateDir, b.id)
	for _, p := range paths {
		if p == last {
			continue
		}
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove state: %w", err)
		}
	}
	if err := os.Remove(last); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove record: %w", err)
	}
	d.forget(b)
	return nil
}

// killGroup kills what is in the sandbox's groups now and remembers it for reaping.
func (d *Driver) killGroup(b *box) error {
	pids, err := d.cgroups.killAll(string(b.id))
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, pid := range pids {
		// It is dead or dying, and if it is our child its id can't be used again before we have collected it.
		if p, _, err := lookProcess(pid); err == nil {
			b.dying = append(b.dying, p)
		}
	}
	return err
}

// endProcesses kills until nothing is left in the groups and no zombie is ours.
func (d *Driver) endProcesses(ctx context.Context, b *box) error {
	d.killRecorded(b)
	return retry(ctx, func() (bool, error) {
		if err := d.killGroup(b); err != nil {
			return false, err
		}
		left, err := d.cgroups.processes(string(b.id))
		if err != nil {
			return false, err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.dying = slices.DeleteFunc(b.dying, func(p process) bool {
			_, gone := p.reap()
			return gone
		})
		return len(left) == 0 && len(b.dying) == 0, nil
	})
}

// killRecorded kills the processes that the record names, if they are still those: one may have left its group by a hand that
// is not ours.
func (d *Driver) killRecorded(b *box) {
	r := b.current()
	if r.Boot != bootID() {
		return
	}
	for _, p := range []process{r.Sentry, r.Gofer} {
		if f, err := p.open(); err == nil {
			err := errors.Join(unix.PidfdSendSignal(int(f.Fd()), unix.SIGKILL, nil, 0), f.Close())
			if err != nil && !errors.Is(err, unix.ESRCH) {
				d.log.Warn("recorded process cannot be killed", slog.Any("sandbox_id", r.ID), slog.Int("pid", p.PID), slog.Any("err", err))
			}
		}
		b.mu.Lock()
		b.dying = append(b.dying, p)
		b.mu.Unlock()
	}
}

// removeGroups removes the sandbox's groups. The kernel may need a moment to let go of the last process, and a creator that
// was orphaned by a crash may have entered only now.
func (d *Driver) removeGroups(ctx context.Context, b *box) error {
	return retry(ctx, func() (bool, error) {
		err := d.cgroups.remove(string(b.id))
		if errors.Is(err, unix.EBUSY) {
			return false, d.killGroup(b)
		}
		return err == nil, err
	})
}

// retry calls step until it is done, with a growing pause, for at most ten seconds.
func retry(ctx context.Context, step func() (done bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for pause := 500 * time.Microsecond; ; pause = min(2*pause, 50*time.Millisecond) {
		done, err := step()
		if done || err != nil {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait for the kernel to let go: %w", ctx.Err())
		case <-timer.C:
		}
	}
}

// Uninstall removes what the driver keeps on the host beside sandboxes: its parent groups and a namespace mount that gVisor
// may leave. It fails while a sandbox is there.
func (d *Driver) Uninstall(ctx context.Context) error {
	list, err := d.List(ctx)
	if err != nil {
		return err
	}
	if len(list) > 0 {
		return core.Errorf(core.CodeConflict, "%d sandboxes are still there", len(list))
	}
	mount := filepath.Join(d.cfg.StateDir, "null-netns")
	if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount namespace: %w", err)
	}
	if err := d.cgroups.uninstall(); err != nil {
		return fmt.Errorf("remove cgroups: %w", err)
	}
	return nil
}
