package e2e_test

import (
	"fmt"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// testIdle leaves one sandbox alone, keeps another in use by an open stream while the server is killed and started again, and
// looks when each is deleted and by whom.
func testIdle(t *testing.T, e env) {
	idle := int64(4)
	alone := e.Sandbox(t, shoal.CreateSandboxRequest{Name: "alone", IdleSeconds: &idle})
	used := e.Sandbox(t, shoal.CreateSandboxRequest{Name: "used", IdleSeconds: &idle})
	stream, err := e.Client.Execs(used.ID).Stream(ctx(t), shoal.ExecRequest{Shell: "sleep 600"})
	if err != nil {
		t.Fatal(err)
	}
	e.wantIdleEnd(t, alone, alone.ActiveAt, idle)
	if got, err := e.Client.Sandboxes().Get(ctx(t), used.ID); err != nil || time.Since(got.ActiveAt) > 2*time.Second {
		t.Fatalf("a sandbox in use was last used at %v: %v", got.ActiveAt, err)
	}
	e.Kill()
	killed := time.Now()
	_ = stream.Close()
	e.Restart(harness.Options{})
	e.wantIdleEnd(t, used, killed, idle)
}

// wantIdleEnd waits until a sandbox is deleted by its idle rule, which is not before it was unused for so long.
func (e env) wantIdleEnd(t *testing.T, sb shoal.Sandbox, active time.Time, idle int64) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, "the idle rule deletes "+sb.Name, func() error {
		_, err := e.Client.Sandboxes().Get(ctx(t), sb.ID)
		if shoal.ErrorCode(err) != "not_found" {
			return fmt.Errorf("get says %w", err)
		}
		return nil
	})
	events, err := e.Client.Events().List(ctx(t), shoal.EventsOptions{Sandbox: sb.ID, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events.Events {
		if ev.Type != "sandbox.deleted" {
			continue
		}
		if ev.Actor.Kind != "system" || ev.Actor.ID != "idle" || ev.At.Sub(active) < time.Duration(idle)*time.Second {
			t.Errorf("%s was deleted by %+v %v after its last use", sb.Name, ev.Actor, ev.At.Sub(active))
		}
		e.nothingLeft(t, sb.ID)
		return
	}
	t.Errorf("no event tells of the end of %s", sb.Name)
}

// testTags starts many execs of one sandbox at once, and finds them by their tag.
func testTags(t *testing.T, e env) {
	const n = 100
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Name: "tagged"})
	execs := e.Client.Execs(sb.ID)
	start := time.Now()
	errs := make(chan error, n)
	for i := range n {
		go func() {
			_, err := execs.Start(ctx(t), shoal.ExecRequest{Shell: "sleep 600", Tag: fmt.Sprintf("half %d", i%2)})
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d execs were started in %v", n, time.Since(start))
	found := 0
	for x, err := range execs.Select(ctx(t), shoal.ListExecsOptions{Tag: "half 1", Running: true}) {
		if err != nil || x.Tag != "half 1" || x.PID == 0 || !x.Running {
			t.Fatalf("found %+v, %v", x, err)
		}
		found++
	}
	if found != n/2 {
		t.Errorf("%d of %d were found", found, n/2)
	}
}
