package fault_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"shoal/internal/failpoint"
	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// burst is how many sandboxes are created at once.
const burst = 100

// testBurst: of a burst of 100 creates, with faults at every step of some of them, each makes a whole sandbox or nothing; and the same
// with the server killed in the middle, after which the same call makes the rest.
func testBurst(t *testing.T, e env) {
	t.Run("faults", func(t *testing.T) { testBurstFaults(t, e) })
	t.Run("kill", func(t *testing.T) { testBurstKilled(t, e) })
}

// small is a sandbox of which a hundred find room.
func small() shoal.CreateSandboxRequest {
	return shoal.CreateSandboxRequest{MemoryBytes: new(int64(96 << 20))}
}

func testBurstFaults(t *testing.T, e env) {
	var armed []string
	for _, point := range failpoint.Names() {
		if strings.Contains(point, ".create.") && !strings.HasSuffix(point, ".committed") {
			armed = append(armed, fmt.Sprintf("%s=%d*error", point, 10+5*len(armed)))
		}
	}
	e.Stop()
	e.Restart(harness.Options{Failpoints: strings.Join(armed, ";")})
	var mu sync.Mutex
	made, failed := map[string]bool{}, 0
	var all sync.WaitGroup
	for range burst {
		all.Go(func() {
			sb, err := e.Client.Sandboxes().Create(ctx(t), small())
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				made[sb.ID] = true
			case shoal.ErrorCode(err) != shoal.CodeInternal:
				t.Errorf("a create fails in another way: %v", err)
			default:
				failed++
			}
		})
	}
	all.Wait()
	if failed != len(armed) || len(made) != burst-failed {
		t.Errorf("%d were made and %d failed at %d faults", len(made), failed, len(armed))
	}
	e.exactly(t, made)
}

func testBurstKilled(t *testing.T, e env) {
	n := 30
	if os.Getenv("SHOAL_TEST_FULL") != "" {
		n = burst
	}
	e.arm(failpoint.ControlCreateNodeDone, fmt.Sprintf("%d*kill", n/2))
	create := func() (map[string]bool, error) {
		made := map[string]bool{}
		for r, err := range e.Client.Sandboxes().WithKey("burst").CreateMany(ctx(t), shoal.CreateSandboxesRequest{Count: n, Sandbox: small()}) {
			if err != nil {
				return made, err
			}
			if r.Err != nil {
				t.Errorf("number %d: %v", r.Index, r.Err)
			}
			made[r.Sandbox.ID] = true
		}
		return made, nil
	}
	before, err := create()
	if shoal.ErrorCode(err) != shoal.CodeUnavailable {
		t.Errorf("the call that was cut off gave %v", err)
	}
	e.settle("kill")
	for _, sb := range e.Sandboxes(t) {
		e.answers(t, sb)
	}
	made, err := create()
	if err != nil || len(made) != n {
		t.Errorf("%d are made: %v", len(made), err)
	}
	for id := range before {
		if !made[id] {
			t.Errorf("sandbox %s was told of and is not there any more", id)
		}
	}
	e.exactly(t, made)
}

// exactly asserts that there are these sandboxes and no others, that each answers, and that they leave nothing behind.
func (e env) exactly(t *testing.T, want map[string]bool) {
	t.Helper()
	list := e.Sandboxes(t)
	if len(list) != len(want) {
		t.Errorf("%d are listed, want %d", len(list), len(want))
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for _, sb := range list {
		if !want[sb.ID] {
			t.Errorf("sandbox %s is there, and nobody was told", sb.ID)
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			e.answers(t, sb)
			if err := e.Client.Sandboxes().Delete(context.WithoutCancel(ctx(t)), sb.ID); err != nil {
				t.Errorf("delete: %v", err)
			}
		})
	}
	all.Wait()
	e.empty(t)
}
