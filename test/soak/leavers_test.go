package soak_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// TestLeavers has many clients begin creates and execs and go away at random moments. What each does is drawn from a seed that is printed, and can be
// given as SHOAL_TEST_SEED. Afterwards there is no sandbox, reservation, process, file or group left of any.
func TestLeavers(t *testing.T) {
	clients, rounds := 24, 2
	if os.Getenv("SHOAL_TEST_FULL") != "" {
		clients, rounds = 200, 5
	}
	seed := rand.Uint64()
	if text := os.Getenv("SHOAL_TEST_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SHOAL_TEST_SEED=%d", seed)
	e := env{harness.Start(t, harness.Options{Env: []string{
		"SHOAL_QUOTA_CREATES_PER_MINUTE=0", "SHOAL_QUOTA_REQUESTS_PER_SECOND=100000", "SHOAL_QUOTA_CALLS=10000",
	}})}
	var all sync.WaitGroup
	var mu sync.Mutex
	stayed, left := 0, 0
	for i := range clients {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i))) // a test that can be repeated
			for range rounds {
				ended, err := leaver(e.Client, rng)
				if err != nil {
					t.Errorf("client %d: %v", i, err)
				}
				mu.Lock()
				if ended {
					stayed++
				} else {
					left++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d rounds came to their end, %d were left", stayed, left)
	if left == 0 {
		t.Error("nobody went away: that tries nothing")
	}
	// Whoever made a sandbox and could still speak has deleted it. The rest is undone by the server, by itself.
	harness.Eventually(t, 2*time.Minute, "what was left is undone", func() error {
		if list := e.Sandboxes(t); len(list) > 0 {
			return fmt.Errorf("%d sandboxes, the first %s is %s", len(list), list[0].ID, list[0].State)
		}
		text, err := e.Client.ServerMetrics(ctx(t))
		for _, none := range []string{"shoal_node_sandboxes 0\n", "shoal_node_memory_reserved_bytes 0\n"} {
			if err == nil && !strings.Contains(string(text), "\n"+none) {
				err = fmt.Errorf("the metrics don't say %q", none)
			}
		}
		if err == nil {
			err = e.noGroups()
		}
		return err
	})
	e.deleteAll(t) // there is none: it waits for processes, files, trees and links
	if log := e.Log(1_000_000); strings.Contains(log, "panic: ") {
		t.Error("the server panicked")
	}
}

// noGroups returns an error while a sandbox has a control group.
func (e env) noGroups() error {
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		groups, err := filepath.Glob(filepath.Join(root, e.Cgroup(), "*", strings.Repeat("?", 22)))
		if err != nil || len(groups) > 0 {
			return fmt.Errorf("groups: %v %w", groups, err)
		}
	}
	return nil
}

// leaver creates a sandbox, runs something in it and deletes it, and goes away in the middle of the create, of the exec or not at all. What it knows
// of it deletes; a create that it has left must come to nothing by itself: what was made before the server could know that, while the answer was
// under way, ends with its ttl.
func leaver(client *shoal.Client, rng *rand.Rand) (ended bool, err error) {
	own := *client
	own.MaxRetries = -1
	patience := func(most time.Duration) (context.Context, context.CancelFunc) {
		limit := harness.CallLimit
		if rng.IntN(3) > 0 {
			limit = time.Duration(rng.Int64N(int64(most)))
		}
		return context.WithTimeout(context.Background(), limit)
	}
	c, cancel := patience(2 * time.Second)
	sb, err := own.Sandboxes().Create(c, shoal.CreateSandboxRequest{MemoryBytes: new(int64(64 << 20)), TTLSeconds: new(int64(60))})
	gone := c.Err() != nil
	cancel()
	if err != nil {
		if code := shoal.ErrorCode(err); !gone && code != "exhausted" && code != "quota" {
			return false, fmt.Errorf("create: %w", err)
		}
		return false, nil
	}
	c, cancel = patience(time.Second)
	res, err := own.Execs(sb.ID).Run(c, shoal.ExecRequest{Shell: "sleep 0.3; echo done"})
	gone = c.Err() != nil
	cancel()
	switch {
	case err != nil && !gone:
		err = fmt.Errorf("exec: %w", err)
	case err == nil && string(res.StdoutBytes()) != "done\n":
		err = fmt.Errorf("exec: %s", harness.Describe(res))
	case err == nil:
		ended = true
	default:
		err = nil
	}
	c, cancel = context.WithTimeout(context.Background(), harness.CallLimit)
	defer cancel()
	if derr := client.Sandboxes().Delete(c, sb.ID); derr != nil && err == nil {
		err = fmt.Errorf("delete: %w", derr)
	}
	return ended, err
}
