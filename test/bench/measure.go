package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"shoal/internal/guest/embedded"
	shoal "shoal/sdk/go"
)

const mib = 1 << 20

// measureAll runs every measurement, the server's and the bare ones in turns.
func measureAll(ctx context.Context, n int, srv *server, b *bare, r *report) error {
	for _, step := range []struct {
		name string
		run  func(context.Context, int, *server, *bare, *report) error
	}{
		{"create", measureCreate},
		{"exec", measureExec},
		{"idle", measureIdle},
		{"many", measureMany},
	} {
		fmt.Fprintln(os.Stderr, "measuring", step.name)
		if err := step.run(ctx, n, srv, b, r); err != nil {
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

// compare holds the medians against the promises.
func (r *report) compare() {
	p50 := func(name string) float64 { return r.series(name, "").P50 }
	r.goal("create → first command ÷ (New + Start + guest ready)", p50("create → first command")/p50("bare New + Start + guest ready"), 1.3, "×")
	r.goal("agent round trip", p50("agent round trip"), 2, "ms")
	r.goal("exec of /bin/true above the bare urpc exec", p50("exec /bin/true")-p50("bare urpc exec /bin/true"), 5, "ms")
	r.goal("delete acknowledged", p50("delete acknowledged"), 15, "ms")
	r.goal("idle sandbox with agent", p50("idle memory of a sandbox"), 34, "MiB")
	r.goal("idle processor time", p50("idle processor time of a sandbox"), 0.1, "%")
}

func measureCreate(ctx context.Context, n int, srv *server, b *bare, r *report) error {
	for range n {
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
		if err := srv.settled(ctx); err != nil {
			return err
		}
		m, err := b.startMachine(ctx)
		if err != nil {
			return err
		}
		r.series("bare New", "ms").took(m.create)
		r.series("bare Start", "ms").took(m.start)
		r.series("bare guest ready", "ms").took(m.ready)
		r.series("bare New + Start + guest ready", "ms").took(m.create + m.start + m.ready)
		if err := b.stopMachine(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// settled waits until deleted sandboxes are gone from the machine too, so that their removal isn't measured with the next.
func (s *server) settled(ctx context.Context) error {
	for {
		left, err := os.ReadDir(s.dir + "/node/run")
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
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
	time.Sleep(5 * time.Second)
	for i, m := range machines {
		stats, err := b.runtime.Stats(ctx, m.id)
		if err != nil {
			return err
		}
		before[i] = stats.CPUSeconds
	}
	time.Sleep(idleWatch)
	for i, m := range machines {
		stats, err := b.runtime.Stats(ctx, m.id)
		if err != nil {
			return err
		}
		r.series("idle memory of a sandbox", "MiB").add(float64(stats.PSSBytes) / mib)
		r.series("idle processor time of a sandbox", "percent").add((stats.CPUSeconds - before[i]) / idleWatch.Seconds() * 100)
	}
	var errs []error
	for _, m := range machines {
		errs = append(errs, b.stopMachine(ctx, m))
	}
	return errors.Join(errs...)
}

// measureMany makes 60 sandboxes, 10 at a time; every one must answer and go.
func measureMany(ctx context.Context, _ int, srv *server, _ *bare, r *report) error {
	const total, atOnce = 60, 10
	places := make(chan struct{}, atOnce)
	ids := make([]string, total)
	errs := make([]error, total)
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := time.Now()
	for i := range total {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			began := time.Now()
			sb, err := srv.client.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{})
			if err == nil {
				ids[i], err = sb.ID, srv.run(ctx, sb.ID, "/bin/true")
			}
			errs[i] = err
			mu.Lock()
			defer mu.Unlock()
			r.series("create → first command, 10 at a time", "ms").since(began)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.series("60 sandboxes, 10 at a time, all answered", "ms").since(start)
	for _, id := range ids {
		if err := srv.client.Sandboxes().Delete(ctx, id); err != nil {
			return err
		}
	}
	return srv.settled(ctx)
}
