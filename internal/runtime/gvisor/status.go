package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/sentry/control"
	"gvisor.dev/gvisor/runsc/boot"

	"shoal/internal/core"
	"shoal/internal/runtime"
)

// limitReader bounds what is read from a sentry.
func limitReader(r io.Reader, n int64) io.Reader { return io.LimitReader(r, n) }

// Status looks at one sandbox and asks its sentry for a sign of life.
func (d *Driver) Status(ctx context.Context, id core.SandboxID) (runtime.Status, error) {
	b, err := d.known(id)
	if err != nil {
		return runtime.Status{}, err
	}
	return d.status(ctx, b.current()), nil
}

// status is a record's, with a sign of life if there is one.
func (d *Driver) status(ctx context.Context, r record) runtime.Status {
	s := runtime.Status{ID: r.ID, Incarnation: r.Incarnation, Digest: r.Digest, PID: r.Sentry.PID}
	if r.Container == "" || r.Sentry.PID == 0 || r.Boot != bootID() {
		return s
	}
	_, err := d.ping(ctx, r)
	s.Running = err == nil
	return s
}

// recorded returns every readable record.
func (d *Driver) recorded() ([]record, error) {
	entries, err := os.ReadDir(d.cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("list state: %w", err)
	}
	var list []record
	for _, e := range entries {
		id, ok := sandboxOfFile(e.Name())
		if !ok || !strings.HasSuffix(e.Name(), recordSuffix) || string(id)+recordSuffix != e.Name() {
			continue
		}
		if r, err := readRecord(d.cfg.StateDir, id); err == nil {
			list = append(list, r)
		}
	}
	return list, nil
}

// listParallel is how many sentries are asked at once: one that hangs must not hold up the others.
const listParallel = 16

// List returns every sandbox that has left any trace in the state directory or the groups.
func (d *Driver) List(ctx context.Context) ([]runtime.Status, error) {
	ids, err := d.traces()
	if err != nil {
		return nil, core.Wrap(core.CodeUnavailable, err, "the runtime's state cannot be read")
	}
	list := make([]runtime.Status, len(ids))
	var group errgroup.Group
	group.SetLimit(listParallel)
	for i, id := range ids {
		group.Go(func() error {
			r, err := readRecord(d.cfg.StateDir, id)
			if err != nil {
				r = record{ID: id}
			}
			list[i] = d.status(ctx, r)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return list, nil
}

// traces returns the ids that any file or group belongs to, sorted.
func (d *Driver) traces() ([]core.SandboxID, error) {
	var ids []core.SandboxID
	entries, err := os.ReadDir(d.cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("list state: %w", err)
	}
	for _, e := range entries {
		if id, ok := sandboxOfFile(e.Name()); ok {
			ids = append(ids, id)
		}
	}
	names, err := d.cgroups.names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		ids = append(ids, core.SandboxID(name))
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// Adopt takes over a sandbox that runs since before a restart.
func (d *Driver) Adopt(ctx context.Context, id core.SandboxID, incarnation int64) error {
	b, err := d.known(id)
	if err != nil {
		return err
	}
	b.op.Lock()
	defer b.op.Unlock()
	r := b.current()
	if r.Incarnation != incarnation {
		return core.Errorf(core.CodeUnavailable, "another start of the sandbox runs")
	}
	state, err := d.ping(ctx, r)
	switch {
	case err == nil && state != boot.RuntimeStateRunning:
		return core.Errorf(core.CodeUnavailable, "the sandbox has not been started")
	case err != nil && isSilence(err) && r.Started && r.Boot == bootID() && r.Sentry.alive():
		// It is busy, or held. Silence is no end: that would be a refused connection, or a process that is gone.
		d.log.WarnContext(ctx, "sandbox that says nothing is taken over as it is", slog.Any("sandbox_id", id), slog.Any("err", err))
	case err != nil:
		return core.Wrap(core.CodeUnavailable, err, "the sandbox does not run")
	}
	if b.isKilled() {
		return core.Errorf(core.CodeUnavailable, "the sandbox is being deleted")
	}
	// The server may have died before it had set the limit. One that can't be set now is no reason to end what runs.
	if err := d.limitGroups(r); err != nil {
		d.log.ErrorContext(ctx, "processor time and weights of a sandbox cannot be set", slog.Any("sandbox_id", id), slog.Any("err", err))
	}
	if err := errors.Join(d.update(b, func(r *record) { r.Started = true }), d.watchBox(ctx, b)); err != nil {
		return core.Wrap(core.CodeUnavailable, err, "the sandbox ended")
	}
	return nil
}

// isSilence reports whether a sentry was there and said nothing. One that is gone refuses at once.
func isSilence(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, unix.EAGAIN)
}

// Stats returns what a sandbox uses now.
func (d *Driver) Stats(ctx context.Context, id core.SandboxID) (runtime.Stats, error) {
	b, err := d.known(id)
	if err != nil {
		return runtime.Stats{}, err
	}
	r := b.current()
	count := -1 // what the host counts needs no answer from the sentry
	var processes []*control.Process
	switch err := d.ask(ctx, r.Container, methodProcesses, r.Container, &processes); {
	case err == nil:
		count = len(processes)
	case !isSilence(err):
		return runtime.Stats{}, core.Wrap(core.CodeUnavailable, err, "the sandbox does not answer")
	}
	u, err := d.cgroups.usage(string(id))
	if err != nil {
		return runtime.Stats{}, core.Wrap(core.CodeUnavailable, err, "the sandbox's use cannot be read")
	}
	s := runtime.Stats{
		At: time.Now(), CPUSeconds: u.cpuSeconds, MemoryBytes: u.memoryBytes, MemoryLimitBytes: r.MemoryBytes,
		PSSBytes: -1, Processes: count,
	}
	sentry, gofer := proportionalBytes(r.Sentry.PID), proportionalBytes(r.Gofer.PID)
	if sentry >= 0 && gofer >= 0 {
		s.PSSBytes = sentry + gofer
	}
	if !d.cgroups.limitsMemory() {
		// The host counts no memory of groups: what the processes hold is nearest to it.
		s.MemoryBytes = max(s.PSSBytes, 0)
	}
	return s, nil
}
