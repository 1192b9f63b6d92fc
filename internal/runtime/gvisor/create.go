package gvisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/container"

	"shoal/internal/core"
	"shoal/internal/runtime"
)

// Bounds for what has none from its caller. Both steps take well under a second on an idle machine.
const (
	createTimeout = 60 * time.Second
	startTimeout  = 30 * time.Second
	// cleanupTimeout is for removing what a failed Create had made.
	cleanupTimeout = 15 * time.Second
)

// Create builds the isolation: groups, namespaces, sentry and gofer, with nothing of the guest running.
func (d *Driver) Create(ctx context.Context, spec runtime.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return core.Wrap(core.CodeCanceled, err, "creating the sandbox was canceled")
	}
	b, err := d.claim(record{
		ID: spec.ID, Incarnation: spec.Incarnation, Digest: d.digest, Boot: bootID(),
		Container: string(spec.ID) + "-" + core.NewID()[:8], MemoryBytes: spec.Resources.MemoryBytes,
		VCPUs: spec.Resources.VCPUs, CPUWeight: spec.Resources.CPUWeight, IOWeight: spec.Resources.IOWeight,
	})
	if err != nil {
		return err
	}
	b.op.Lock()
	defer b.op.Unlock()
	ctx, cancel := b.context(ctx, createTimeout)
	defer cancel()
	if err := d.create(ctx, b, spec); err != nil {
		clean, stop := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer stop()
		err = createError(ctx, b, err)
		if cleanErr := d.destroy(clean, b); cleanErr != nil {
			d.log.ErrorContext(clean, "sandbox left behind by a failed create", slog.Any("sandbox_id", b.id), slog.Any("err", cleanErr))
		}
		return err
	}
	return nil
}

// context returns a context that also ends when the box is killed, or after a time.
func (b *box) context(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-b.killed:
			cancel()
		case <-done:
		}
	}()
	return ctx, func() {
		close(done)
		<-ended
		cancel()
	}
}

// create does Create's work and leaves cleaning up to the caller.
func (d *Driver) create(ctx context.Context, b *box, spec runtime.Spec) (err error) {
	r := b.current()
	c, err := d.startInGroups(ctx, b, spec.Resources)
	if err != nil {
		return err
	}
	if spec, err = spec.WithParts(ctx); err != nil {
		return &partsError{errors.Join(err, c.stop())}
	}
	// The path is valid in this process only: hand over the namespace itself.
	netNS, err := os.Open(spec.NetNS)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", errors.Join(err, c.stop()))
	}
	defer func() { err = errors.Join(err, netNS.Close()) }()
	made, err := c.run(ctx, netNS, job{
		Container: r.Container, Bundle: bundleName(spec.Resources), StateDir: d.cfg.StateDir,
		RootFS: spec.RootFS, RunDir: spec.RunDir, Hostname: spec.Hostname,
		OwnerUID: d.cfg.OwnerUID, OwnerIDs: d.cfg.OwnerCount, DebugLogDir: d.cfg.DebugLogDir,
	})
	if err != nil {
		return errors.Join(err, c.end())
	}
	d.endCreator(c)
	d.log.DebugContext(ctx, "sandbox made", slog.Any("sandbox_id", b.id), slog.Duration("library_new", made.Took))
	return d.update(b, func(r *record) { r.Sentry, r.Gofer = made.Sentry, made.Gofer })
}

// endCreator waits for a creator's end, beside what comes next. It is in the sandbox's groups: a Kill ends it as well.
func (d *Driver) endCreator(c *creator) {
	end := func() { _ = c.end() } // It has answered: how it ends is no news.
	d.mu.Lock()
	closed := d.closed
	if !closed {
		d.watchers.Go(end)
	}
	d.mu.Unlock()
	if closed {
		end()
	}
}

// startInGroups makes the sandbox's groups and starts its creator in them.
func (d *Driver) startInGroups(ctx context.Context, b *box, limits core.Resources) (_ *creator, err error) {
	if err := d.cgroups.create(string(b.id), hardMemory(limits.MemoryBytes)); err != nil {
		return nil, err
	}
	home, err := d.cgroups.birthplace(string(b.id))
	if err != nil {
		return nil, err
	}
	if home != nil {
		defer func() { err = errors.Join(err, home.Close()) }()
		c, err := startCreator(ctx, d.program, home)
		if !errors.Is(err, unix.ENOSYS) {
			return c, err
		}
		// Linux before 5.7 moves it, as below.
	}
	c, err := startCreator(ctx, d.program, nil)
	if err != nil {
		return nil, err
	}
	// Moving a process takes the kernel up to 20 ms, which the creator needs to come up, and whoever makes the parts for them.
	for _, path := range d.cgroups.entries(string(b.id)) {
		if err := writeControl(filepath.Dir(path), filepath.Base(path), strconv.Itoa(c.cmd.Process.Pid)); err != nil {
			return nil, fmt.Errorf("enter cgroup: %w", errors.Join(err, c.stop()))
		}
	}
	return c, nil
}

// partsError is that the parts of a Spec could not be had: it is somebody else's, who has given it its code.
type partsError struct{ error }

func (e *partsError) Unwrap() error { return e.error }

// createError gives the error of a failed Create its code.
func createError(ctx context.Context, b *box, err error) error {
	var parts *partsError
	switch {
	case b.isKilled():
		return core.Wrap(core.CodeCanceled, err, "the sandbox was deleted while it was created")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return core.Wrap(core.CodeTimeout, err, "creating the sandbox took too long")
	case ctx.Err() != nil:
		return core.Wrap(core.CodeCanceled, err, "creating the sandbox was canceled")
	case errors.As(err, &parts):
		return parts.error
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EMFILE):
		return core.Wrap(core.CodeExhausted, err, "the node is out of resources")
	default:
		return core.Wrap(core.CodeInternal, err, "the sandbox could not be created")
	}
}

// Start runs the guest agent.
func (d *Driver) Start(ctx context.Context, id core.SandboxID) error {
	b, err := d.known(id)
	if err != nil {
		return err
	}
	b.op.Lock()
	defer b.op.Unlock()
	if b.isKilled() {
		return core.Errorf(core.CodeCanceled, "the sandbox was deleted")
	}
	if err := ctx.Err(); err != nil {
		return core.Wrap(core.CodeCanceled, err, "starting the sandbox was canceled")
	}
	ctx, cancel := b.context(ctx, startTimeout)
	defer cancel()
	// The library's calls know no context: what ends them is the end of the sentry.
	stop := context.AfterFunc(ctx, func() {
		if err := d.killGroup(b); err != nil {
			d.log.WarnContext(ctx, "canceled start cannot be killed", slog.Any("sandbox_id", id), slog.Any("err", err))
		}
	})
	err = d.start(ctx, b)
	if interrupted := !stop(); interrupted {
		return startError(ctx, b, errors.Join(err, ctx.Err()))
	}
	if err != nil {
		return startError(ctx, b, err)
	}
	return nil
}

// startError gives the error of a failed Start its code.
func startError(ctx context.Context, b *box, err error) error {
	switch {
	case b.isKilled():
		return core.Wrap(core.CodeCanceled, err, "the sandbox was deleted while it started")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return core.Wrap(core.CodeTimeout, err, "starting the sandbox took too long")
	case ctx.Err() != nil:
		return core.Wrap(core.CodeCanceled, err, "starting the sandbox was canceled")
	default:
		return core.Wrap(core.CodeUnavailable, err, "the sandbox could not be started")
	}
}

// start hands the sentry its network and has it run init.
func (d *Driver) start(ctx context.Context, b *box) error {
	r := b.current()
	if r.Digest != d.digest {
		return fmt.Errorf("sandbox was made by program %s, this is %s", r.Digest, d.digest)
	}
	conf, err := newConfig(d.cfg.StateDir, d.cfg.DebugLogDir)
	if err != nil {
		return err
	}
	c, err := container.Load(d.cfg.StateDir, container.FullID{SandboxID: r.Container, ContainerID: r.Container},
		container.LoadOpts{Exact: true, SkipCheck: true})
	if err != nil {
		return fmt.Errorf("load sandbox: %w", err)
	}
	// The creator knew the directory by another path.
	c.Saver.RootDir = d.cfg.StateDir
	begun := time.Now()
	if err := c.Start(conf); err != nil {
		return fmt.Errorf("start sandbox: %w", err)
	}
	d.log.DebugContext(ctx, "sandbox started", slog.Any("sandbox_id", b.id), slog.Duration("library_start", time.Since(begun)))
	return errors.Join(d.limitGroups(r), d.update(b, func(r *record) { r.Started = true }), d.watchBox(ctx, b))
}

// limitGroups sets the tenant's limit of processor time and its weights. It comes last: what builds a sandbox is our own work.
func (d *Driver) limitGroups(r record) error {
	name := string(r.ID)
	return errors.Join(d.cgroups.limitCPU(name, r.VCPUs), d.cgroups.weighCPU(name, r.CPUWeight), d.cgroups.weighIO(name, r.IOWeight))
}
