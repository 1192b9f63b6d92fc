package node_test

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shoal/internal/core"
	diskfake "shoal/internal/disk/fake"
	"shoal/internal/node"
	"shoal/internal/runtime"
	runtimefake "shoal/internal/runtime/fake"
)

// probeStep is how far apart the looks at a suspect are.
const probeStep = 10 * time.Second

// stopAgents makes every agent silent, as kill -STOP 1 does: connections are made and nobody serves them. The returned function lets
// them go on.
func (h *host) stopAgents(t *testing.T) (resume func()) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	stopped := make(chan struct{})
	h.stopped = stopped
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.stopped = nil
		close(stopped)
	}
}

// callInVain makes a call that gets no answer, and others as long as none has come so far that the agent is suspected: one whose time is
// over before it has waited for the agent says nothing of it. A connection that was served before the stop still is: none is left.
func (s *server) callInVain(t *testing.T, id core.SandboxID) {
	t.Helper()
	g, err := s.Guest(id)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for again := true; again; again = node.Suspected(s.Node) == 0 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err := g.Ping(ctx)
		cancel()
		if !core.IsCode(err, core.CodeTimeout) {
			t.Fatalf("ping: %v, want timeout", err)
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody suspects an agent that answers nothing")
		}
	}
}

// startSilent opens a server whose one sandbox, adopted by it, does not answer.
func startSilent(t *testing.T) (s *server, spec core.NodeSpec, resume func()) {
	t.Helper()
	s = start(t)
	spec = s.create(t)
	s = s.restart() // without the connections of the create
	s.sweep(t, known(spec.Sandbox))
	return s, spec, s.host.stopAgents(t)
}

// TestSilence: a sandbox whose agent has not said anything for a minute has failed, and its files are kept until a delete.
func TestSilence(t *testing.T) {
	s, spec, _ := startSilent(t)
	s.callInVain(t, spec.Sandbox)
	for range 5 {
		s.host.clock.advance(t, probeStep)
	}
	if !s.running(spec.Sandbox) {
		t.Fatal("ended before a minute had passed")
	}
	s.host.clock.advance(t, probeStep)
	e := s.exit(t)
	if e.Sandbox != spec.Sandbox || e.Incarnation != spec.Incarnation || !strings.Contains(e.Reason, "stopped answering") {
		t.Errorf("exit %+v", e)
	}
	if got, want := s.trace(t), (trace{trees: string(spec.Sandbox), journal: string(spec.Sandbox)}); got != want {
		t.Errorf("left %+v, want %+v", got, want)
	}
	if _, err := s.Guest(spec.Sandbox); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("guest: %v, want unavailable", err)
	}
	if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.wantNothing(t)
	if left := s.exitsLeft(); len(left) != 0 {
		t.Errorf("told again: %v", left)
	}
}

// running reports whether the node still counts the sandbox among the living.
func (s *server) running(id core.SandboxID) bool {
	_, err := s.Guest(id)
	return err == nil
}

// TestSilenceEnds: an answer at any time clears the suspicion, and the next silence is a new one.
func TestSilenceEnds(t *testing.T) {
	s, spec, resume := startSilent(t)
	for range 2 {
		s.callInVain(t, spec.Sandbox)
		for range 5 {
			s.host.clock.advance(t, probeStep)
		}
		resume() // the pings that wait are answered now
		s.awaitCalm(t)
		if !s.reachable(t, spec.Sandbox) {
			t.Fatal("not reachable after the silence")
		}
		s = s.restart()
		s.sweep(t, known(spec.Sandbox))
		resume = s.host.stopAgents(t)
	}
	resume()
	if left := s.exitsLeft(); len(left) != 0 {
		t.Errorf("ended: %v", left)
	}
}

// awaitCalm waits until nobody is suspected: the one who waits for the next look at a suspect is gone, or stays for ever.
func (s *server) awaitCalm(t *testing.T) {
	t.Helper()
	deadline := time.After(patience)
	for node.Suspected(s.Node) > 0 {
		select {
		case <-deadline:
			t.Fatal("a suspicion is not cleared")
		case <-time.After(time.Millisecond):
		}
	}
}

// TestSlowIsNotSilent: what has a reason to be slow is given five minutes; what this node could not do itself does not count.
func TestSlowIsNotSilent(t *testing.T) {
	cpu := 0.0
	for name, busy := range map[string]func(*runtime.Stats){
		"computes":              func(st *runtime.Stats) { cpu += 5; st.CPUSeconds = cpu },
		"short of memory":       func(st *runtime.Stats) { st.MemoryBytes, st.MemoryLimitBytes = 62*mib, 64*mib },
		"its kernel is silent":  func(st *runtime.Stats) { st.Processes = -1 },
		"computes a little bit": func(st *runtime.Stats) { cpu += 0.25; st.CPUSeconds = cpu },
		"uses what it may":      func(st *runtime.Stats) { cpu += 0.1; st.CPUSeconds = cpu },
	} {
		t.Run(name, func(t *testing.T) {
			s, spec, _ := startSilent(t)
			if name == "uses what it may" {
				if err := s.Reserve(t.Context(), spec.Sandbox, core.Resources{VCPUs: 0.01, MemoryBytes: mib}); err != nil {
					t.Fatal(err)
				}
			}
			s.host.world.SetStats(func(_ core.SandboxID, st *runtime.Stats) { busy(st) })
			s.callInVain(t, spec.Sandbox)
			for range 29 {
				s.host.clock.advance(t, probeStep)
			}
			if !s.running(spec.Sandbox) {
				t.Fatal("ended before five minutes had passed")
			}
			s.host.clock.advance(t, probeStep)
			if e := s.exit(t); e.Sandbox != spec.Sandbox {
				t.Errorf("exit %+v", e)
			}
		})
	}
}

// TestSilenceAfterWork: once it has stopped computing, the minute begins.
func TestSilenceAfterWork(t *testing.T) {
	s, spec, _ := startSilent(t)
	looks := 0
	s.host.world.SetStats(func(_ core.SandboxID, st *runtime.Stats) {
		looks = min(looks+1, 4) // the first before the first step
		st.CPUSeconds = float64(looks)
	})
	s.callInVain(t, spec.Sandbox)
	for range 3 + 5 {
		s.host.clock.advance(t, probeStep)
	}
	if !s.running(spec.Sandbox) {
		t.Fatal("ended less than a minute after it worked")
	}
	s.host.clock.advance(t, probeStep)
	s.exit(t)
}

// TestNodeStoodStill: time in which this node slept is no silence.
func TestNodeStoodStill(t *testing.T) {
	s, spec, resume := startSilent(t)
	defer resume()
	s.callInVain(t, spec.Sandbox)
	for range 5 {
		s.host.clock.advance(t, probeStep)
	}
	s.host.clock.advance(t, time.Hour-time.Minute)
	s.host.clock.advance(t, probeStep)
	if !s.running(spec.Sandbox) {
		t.Fatal("ended after the host slept")
	}
}

// TestHeldIsNotSilent: while this node holds a sandbox for a checkpoint it can't answer. The minute begins when it is let go.
func TestHeldIsNotSilent(t *testing.T) {
	s, spec, _ := startSilent(t)
	s.callInVain(t, spec.Sandbox)
	held, goOn, made := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	letGo := sync.OnceFunc(func() { close(goOn) })
	defer letGo()
	s.disk.SetHook(func(_ context.Context, c diskfake.Call) error {
		if c.Op == diskfake.OpClone {
			close(held)
			<-goOn
		}
		return nil
	})
	go func() {
		_, err := s.Checkpoint(context.Background(), saved, spec.Sandbox)
		made <- err
	}()
	<-held
	for range 40 {
		s.host.clock.advance(t, probeStep)
	}
	if !s.running(spec.Sandbox) {
		t.Error("ended while it was held")
	}
	letGo()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	for range 6 {
		s.host.clock.advance(t, probeStep)
	}
	if !s.running(spec.Sandbox) {
		t.Fatal("ended before a minute had passed since it was held")
	}
	s.host.clock.advance(t, probeStep)
	s.exit(t)
}

// TestUnreachableIsNotSilent: nobody is ended because this node can't ask, whatever is broken on it. Only a connection that is not
// answered in time is the sandbox's silence.
func TestUnreachableIsNotSilent(t *testing.T) {
	const listens = "nothing listens on that port in the sandbox"
	for _, tc := range []struct {
		name string
		err  error
		ends bool
	}{
		{"too many open files", core.Wrap(core.CodeExhausted, syscall.EMFILE, "the node is out of resources"), false},
		{"no route", core.Wrap(core.CodeUnavailable, syscall.EHOSTUNREACH, listens), false},
		{"no network", core.Wrap(core.CodeUnavailable, syscall.ENETUNREACH, listens), false},
		{"refused", core.Wrap(core.CodeUnavailable, syscall.ECONNREFUSED, listens), false},
		{"anything else", core.Wrap(core.CodeUnavailable, syscall.EADDRNOTAVAIL, "the guest agent does not answer"), false},
		{"not one of ours", syscall.ENODEV, false},
		{"no slot", core.Errorf(core.CodeNotFound, "the sandbox has no network"), false},
		{"in vain", core.Wrap(core.CodeTimeout, context.DeadlineExceeded, "can't connect to the sandbox in time"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, spec, _ := startSilent(t)
			s.callInVain(t, spec.Sandbox)
			s.host.world.SetFault(runtimefake.MethodDial, func(context.Context, core.SandboxID) error { return tc.err })
			steps := 40
			if tc.ends {
				steps = 6
			}
			for range steps {
				s.host.clock.advance(t, probeStep)
			}
			if tc.ends {
				s.exit(t)
			} else if !s.running(spec.Sandbox) {
				t.Fatal("ended for a fault of the node")
			}
		})
	}
}

// TestUnsuspected: nobody is asked while calls are answered, and a delete ends a suspicion.
func TestUnsuspected(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	if !s.reachable(t, spec.Sandbox) || node.Suspected(s.Node) != 0 {
		t.Fatalf("%d are suspected after an answer", node.Suspected(s.Node))
	}
	if n := s.host.clock.waits(probeStep); n != 0 {
		t.Errorf("%d wait for the next look at a sandbox that answers", n)
	}
	s, spec, _ = startSilent(t)
	for range 3 {
		s.callInVain(t, spec.Sandbox)
	}
	s.host.clock.advance(t, probeStep)
	if n := node.Suspected(s.Node); n != 1 {
		t.Errorf("%d are suspected, want 1", n)
	}
	s.host.clock.await(t, probeStep) // else it is gone at its look of before already, and nobody waits for another
	if err := s.Delete(t.Context(), spec.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.host.clock.advance(t, probeStep)
	s.awaitCalm(t)
	s.wantNothing(t)
	if left := s.exitsLeft(); len(left) != 0 {
		t.Errorf("told of: %v", left)
	}
}
