package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"shoal/internal/guest/embedded"
	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

const mib = 1 << 20

// measureAll runs every measurement, the server's and the bare ones in turns.
func measureAll(ctx context.Context, o options, srv *server, b *bare, r *report) error {
	for _, step := range []struct {
		name string
		run  func(context.Context, int, *server, *bare, *report) error
	}{
		{"create", measureCreate},
		{"exec", measureExec},
		{"idle", measureIdle},
		{"many", measureMany},
		{stepBurst, measureBurst},
		{"files", measureFiles},
		{"records", measureRecords},
		{"neighbours", measureNeighbours},
		{stepCheckpoint, measureCheckpoint},
		{stepImport, measureImport},
	} {
		if o.only != step.name && (o.only != "" || step.name == "neighbours" || step.name == stepCheckpoint) { // which take minutes: only when asked for
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring", step.name)
		if err := step.run(ctx, o.n, srv, b, r); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	agent, err := embedded.Agent()
	if err != nil {
		return err
	}
	r.goal("guest binary", float64(len(agent))/mib, 6, "MiB")
	for _, s := range r.Series {
		s.finish()
	}
	r.compare()
	return nil
}

// compare holds the medians against the promises, as far as they were measured.
func (r *report) compare() {
	const (
		create, bareCreate = "create → first command", "bare New + Start + guest ready"
		run, bareRun       = "exec /bin/true", "bare urpc exec /bin/true"
	)
	if ours, theirs, ok := r.medians(create, bareCreate); ok {
		r.goal(create+" ÷ ("+bareCreate+")", ours/theirs, 1.3, "×")
	}
	if ours, theirs, ok := r.medians(run, bareRun); ok {
		r.goal(run+" above "+bareRun, ours-theirs, 5, "ms")
	}
	for _, g := range []struct {
		name, unit string
		limit      float64
	}{
		{"agent round trip", "ms", 2},
		{"delete acknowledged", "ms", 15},
		{"checkpoint, idle", "ms", 30},
		{"idle memory of a sandbox", "MiB", 34},
		{"idle processor time of a sandbox", "%", 0.1},
	} {
		if value, _, ok := r.medians(g.name, g.name); ok {
			r.goal(g.name, value, g.limit, g.unit)
		}
	}
}

// medians returns the medians of two series, if both were measured.
func (r *report) medians(a, b string) (first, second float64, ok bool) {
	x, y := r.find(a), r.find(b)
	if x == nil || y == nil {
		return 0, 0, false
	}
	return x.P50, y.P50, true
}

// rest lets the kernel finish what the removal of the last sandbox has left it, such as the end of a network namespace, which
// the next one's would wait for.
const rest = 100 * time.Millisecond

// measureCreate makes sandboxes by the server and bare, one at a time; who is first changes with each round.
func measureCreate(ctx context.Context, n int, srv *server, b *bare, r *report) error {
	sides := []func() error{
		func() error { return createServed(ctx, srv, r) },
		func() error { return createBare(ctx, b, r) },
	}
	for range n {
		for _, side := range sides {
			if err := errors.Join(pause(ctx, rest), side()); err != nil {
				return err
			}
		}
		slices.Reverse(sides)
	}
	return nil
}

func createServed(ctx context.Context, srv *server, r *report) error {
	start := time.Now()
	sb, err := srv.client.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{})
	if err != nil {
		return err
	}
	r.series("create answered", "ms").since(start)
	if err := srv.run(ctx, sb.ID, "/bin/true"); err != nil {
		return err
	}
	r.series("create → first command", "ms").since(start)
	start = time.Now()
	if err := srv.client.Sandboxes().Delete(ctx, sb.ID); err != nil {
		return err
	}
	r.series("delete acknowledged", "ms").since(start)
	return srv.settled(ctx)
}

func createBare(ctx context.Context, b *bare, r *report) error {
	m, err := b.startMachine(ctx)
	if err != nil {
		return err
	}
	r.series("bare New", "ms").took(m.library.create)
	r.series("bare Start", "ms").took(m.library.start)
	r.series("bare guest ready", "ms").took(m.ready)
	r.series("bare New + Start + guest ready", "ms").took(m.library.create + m.library.start + m.ready)
	r.series("driver Clone of the tree", "ms").took(m.clone)
	r.series("driver Attach of the network", "ms").took(m.attach)
	r.series("driver Create (with New)", "ms").took(m.create)
	r.series("driver Start (with Start)", "ms").took(m.start)
	return b.stopMachine(ctx, m)
}

// settled waits until deleted sandboxes are gone from the machine too, so that their removal isn't measured with the next.
func (s *server) settled(ctx context.Context) error {
	for {
		left, err := os.ReadDir(s.dir + "/node/run")
		if err != nil || len(left) == 0 {
			return err
		}
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

func measureExec(ctx context.Context, n int, srv *server, b *bare, r *report) error {
	sb, err := srv.client.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{})
	if err != nil {
		return err
	}
	m, err := b.startMachine(ctx)
	if err != nil {
		return err
	}
	for range n {
		start := time.Now()
		if err := srv.run(ctx, sb.ID, "/bin/true"); err != nil {
			return err
		}
		r.series("exec /bin/true", "ms").since(start)
		start = time.Now()
		if err := b.runtime.Execute(ctx, m.id, "/bin/true"); err != nil {
			return err
		}
		r.series("bare urpc exec /bin/true", "ms").since(start)
		start = time.Now()
		if err := m.guest.Ping(ctx); err != nil {
			return err
		}
		r.series("agent round trip", "ms").since(start)
		start = time.Now()
		if err := exec.CommandContext(ctx, "/bin/true").Run(); err != nil {
			return err
		}
		r.series("native fork and exec /bin/true", "ms").since(start)
		start = time.Now()
		if _, err := srv.client.Files(sb.ID).Stat(ctx, "/bin/true"); err != nil {
			return err
		}
		r.series("file stat through the API", "ms").since(start)
	}
	return errors.Join(b.stopMachine(ctx, m), srv.client.Sandboxes().Delete(ctx, sb.ID))
}

// idleWatch is how long idle sandboxes are watched for the processor time they use.
const idleWatch = 30 * time.Second

func measureIdle(ctx context.Context, n int, _ *server, b *bare, r *report) error {
	machines := make([]*bareMachine, 10)
	before := make([]float64, len(machines))
	for i := range machines {
		m, err := b.startMachine(ctx)
		if err != nil {
			return err
		}
		machines[i] = m
	}
	if err := pause(ctx, 5*time.Second); err != nil {
		return err
	}
	for i, m := range machines {
		stats, err := b.runtime.Stats(ctx, m.id)
		if err != nil {
			return err
		}
		before[i] = stats.CPUSeconds
	}
	if err := pause(ctx, idleWatch); err != nil {
		return err
	}
	for i, m := range machines {
		stats, err := b.runtime.Stats(ctx, m.id)
		if err != nil {
			return err
		}
		memory, err := proportionalMemory(m.id)
		if err != nil {
			return err
		}
		r.series("idle memory of a sandbox", "MiB").add(float64(memory) / mib)
		r.series("idle memory of sentry and gofer alone", "MiB").add(float64(stats.PSSBytes) / mib)
		r.series("idle processor time of a sandbox", "percent").add((stats.CPUSeconds - before[i]) / idleWatch.Seconds() * 100)
	}
	var errs []error
	for _, m := range machines {
		errs = append(errs, b.stopMachine(ctx, m))
	}
	return errors.Join(errs...)
}

// measureMany makes 60 sandboxes, 10 at a time; every one must answer and go. What fails is counted, not hidden in an error.
func measureMany(ctx context.Context, _ int, srv *server, _ *bare, r *report) error {
	const total, atOnce = 60, 10
	all, each := r.series("60 sandboxes, 10 at a time, all answered", "ms"), r.series("create → first command, 10 at a time", "ms")
	ids := make([]string, total)
	var mu sync.Mutex
	var failed []error
	start := time.Now()
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range total {
		group.Go(func() error {
			began := time.Now()
			sb, err := srv.client.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{})
			if err == nil {
				ids[i], err = sb.ID, srv.run(ctx, sb.ID, "/bin/true")
			}
			took := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, err)
			} else {
				each.took(took)
			}
			return nil
		})
	}
	_ = group.Wait() // it counts, and fails nowhere
	all.since(start)
	for _, id := range ids {
		if id == "" {
			continue
		}
		if err := srv.client.Sandboxes().Delete(ctx, id); err != nil {
			failed = append(failed, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r.goal("60 sandboxes, 10 at a time: failures", float64(len(failed)), 0, "of 60")
	if len(failed) > 0 {
		fmt.Fprintln(os.Stderr, "failures, 10 at a time:", errors.Join(failed...))
	}
	if err := srv.settled(ctx); err != nil {
		return err
	}
	left := slices.DeleteFunc(harness.Processes(srv.dir), func(p harness.Process) bool { return p.PID == srv.cmd.Process.Pid })
	r.goal("processes left when all are deleted", float64(len(left)), 0, "")
	return nil
}
