package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	shoal "shoal/sdk/go"
)

// burstSize is how many sandboxes are made at once.
const burstSize = 100

// stepBurst is the name of the step. It needs the template base, for Node.js.
const stepBurst = "burst"

// measureBurst makes 100 sandboxes at once and runs Node.js in each as soon as it is there; then it looks how much more the server's heap
// holds for them. Every one must answer.
func measureBurst(ctx context.Context, _ int, srv *server, _ *bare, r *report) error {
	before, err := srv.liveHeap(ctx)
	if err != nil {
		return err
	}
	name := "100 at once: create → node -v answered"
	each := r.series(name, "ms")
	var mu sync.Mutex
	var ids []string
	var failed []error
	var all sync.WaitGroup
	start := time.Now()
	for range burstSize {
		all.Go(func() {
			sb, err := srv.client.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{Template: "base", MemoryBytes: new(int64(128 * mib))})
			if err == nil {
				err = srv.run(ctx, sb.ID, "node", "-v")
			}
			took := time.Since(start)
			mu.Lock()
			defer mu.Unlock()
			if sb.ID != "" {
				ids = append(ids, sb.ID)
			}
			if err != nil {
				failed = append(failed, err)
				return
			}
			each.took(took)
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	r.goal("100 at once: failures", float64(len(failed)), 0, "of 100")
	if len(failed) > 0 {
		fmt.Fprintln(os.Stderr, "failures, 100 at once:", errors.Join(failed...))
	}
	after, err := srv.liveHeap(ctx)
	if err != nil {
		return err
	}
	r.goal("server's live heap for a sandbox", (after-before)/float64(max(len(ids), 1))/1024, 64, "KiB")
	for _, id := range ids {
		if err := srv.client.Sandboxes().Delete(ctx, id); err != nil {
			return err
		}
	}
	return srv.settled(ctx)
}

// liveHeap is what the server's heap holds, without garbage: half of the size at which the collector runs next. It makes the collector
// run a few times by asking for what costs memory.
func (s *server) liveHeap(ctx context.Context) (float64, error) {
	const runs = 3
	first, err := s.metric(ctx, "go_gc_duration_seconds_count")
	if err != nil {
		return 0, err
	}
	for {
		now, err := s.metric(ctx, "go_gc_duration_seconds_count")
		if err != nil {
			return 0, err
		}
		if now >= first+runs {
			break
		}
	}
	next, err := s.metric(ctx, "go_memstats_next_gc_bytes")
	return next / 2, err
}

// metric reads one of the server's own metrics.
func (s *server) metric(ctx context.Context, name string) (float64, error) {
	text, err := s.client.ServerMetrics(ctx)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if value, ok := strings.CutPrefix(string(line), name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("the server has no metric %s", name)
}
