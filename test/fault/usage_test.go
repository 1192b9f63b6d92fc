package fault_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// allEvents reads every event from the first on, and fails the test unless each is there once.
func (e env) allEvents(t *testing.T) (list []shoal.Event) {
	t.Helper()
	for after := int64(0); ; {
		page, err := e.Client.Events().List(ctx(t), shoal.EventsOptions{Limit: 1000, After: after})
		if err != nil {
			t.Fatal(err)
		}
		if page.NextAfter == after {
			return list
		}
		for _, ev := range page.Events {
			if ev.Seq != int64(len(list))+1 {
				t.Fatalf("after event %d comes %d", len(list), ev.Seq)
			}
			list = append(list, ev)
		}
		after = page.NextAfter
	}
}

// spent is what the events say that a sandbox used.
type spent struct {
	millis       int64
	vcpu, memory float64
	// open is the last event from which on it was awake, and sure that a machine ended before somebody's eyes.
	open *shoal.Event
	sure bool
}

// until adds what was used from the last event to this moment.
func (s *spent) until(at time.Time) {
	if s.open == nil {
		return
	}
	ms := at.UnixMilli() - s.open.At.UnixMilli()
	vcpus, _ := strconv.ParseFloat(s.open.Data["vcpus"], 64)
	memory, _ := strconv.ParseFloat(s.open.Data["memory_bytes"], 64)
	s.millis, s.vcpu, s.memory, s.open = s.millis+ms, s.vcpu+vcpus*float64(ms)/1000, s.memory+memory*float64(ms)/1000/(1<<30), nil
}

// testUsage adds up what the events of all those faults say, and compares it with what is told as usage.
func testUsage(t *testing.T, e env) {
	want := map[string]*spent{}
	for _, ev := range e.allEvents(t) {
		s := want[ev.SandboxID]
		if s == nil {
			s = &spent{sure: true}
			want[ev.SandboxID] = s
		}
		switch ev.Type {
		case "sandbox.running", "sandbox.restored", "sandbox.resized":
			if ev.Data["vcpus"] != "" { // or what could not be begun has left it running as before
				s.until(ev.At)
				s.open = &ev
			}
		case "sandbox.stopped", "sandbox.failed", "sandbox.deleted":
			if until, err := time.Parse(time.RFC3339Nano, ev.Data["awake_until"]); err == nil {
				ev.At = until
			}
			s.until(ev.At)
		}
	}
	compared := 0
	for u, err := range e.Client.Usage().List(ctx(t), shoal.UsageOptions{By: []string{"sandbox"}}) {
		if err != nil {
			t.Fatal(err)
		}
		s := want[u.SandboxID]
		delete(want, u.SandboxID)
		if s == nil || s.open != nil {
			continue // it is of another run, or goes on
		}
		compared++
		if math.Round(u.AwakeSeconds*1000) != float64(s.millis) || math.Abs(u.VcpuSeconds-s.vcpu) > 1e-3 || math.Abs(u.MemoryGibSeconds-s.memory) > 1e-3 {
			t.Errorf("%s used %+v, and its events say %d ms, %g vcpu s, %g GiB s", u.SandboxID, u, s.millis, s.vcpu, s.memory)
		}
	}
	for id, s := range want {
		if s.millis != 0 {
			t.Errorf("%s was awake for %d ms and used nothing", id, s.millis)
		}
	}
	if compared < 3 {
		t.Errorf("only %d sandboxes have used anything", compared)
	}
}

// testFollowKilled follows events while the server is killed and comes back, some times.
func testFollowKilled(t *testing.T, e env) {
	first := e.allEvents(t)
	last := int64(len(first))
	followed := last
	for range 3 {
		client := e.Client
		seen := make(chan int64, 1000)
		stop, cancel := context.WithCancel(ctx(t))
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ev, err := range client.Events().Follow(stop, shoal.EventsOptions{After: followed}) {
				if err != nil {
					return // the server was killed, or we have seen enough
				}
				seen <- ev.Seq
			}
		}()
		for range 2 {
			sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{})
			if err == nil {
				err = e.Client.Sandboxes().Delete(ctx(t), sb.ID)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		e.Kill()
		e.Restart(harness.Options{})
		last = int64(len(e.allEvents(t)))
		cancel()
		<-done
		close(seen)
		for seq := range seen {
			if seq != followed+1 {
				t.Fatalf("after event %d the stream has %d", followed, seq)
			}
			followed = seq
		}
	}
	// What the streams have not brought, the next one does.
	harness.Eventually(t, 30*time.Second, "the last event comes", func() error {
		stop, cancel := context.WithTimeout(ctx(t), time.Second)
		defer cancel()
		for ev, err := range e.Client.Events().Follow(stop, shoal.EventsOptions{After: followed}) {
			if err != nil {
				break
			}
			if ev.Seq != followed+1 {
				t.Fatalf("after event %d the stream has %d", followed, ev.Seq)
			}
			followed = ev.Seq
		}
		if followed < last {
			return fmt.Errorf("it stands at %d of %d", followed, last)
		}
		return nil
	})
}
