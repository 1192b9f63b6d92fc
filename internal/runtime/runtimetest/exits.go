package runtimetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/runtime"
)

func (s *suite) exitByCrash(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	spec, _ := s.started(t, d)
	s.opts.Crash(t, d, spec.ID)
	if e := nextExit(t, d); e.ID != spec.ID || e.Incarnation != 1 || e.Reason == "" {
		t.Errorf("Exit: %+v", e)
	}
	if st, err := d.Status(t.Context(), spec.ID); err != nil || st.Running {
		t.Errorf("Status after a crash: %+v, %v", st, err)
	}
	_, err := d.DialGuest(t.Context(), spec.ID)
	wantCode(t, "DialGuest after a crash", err, core.CodeUnavailable)
	_, err = d.Stats(t.Context(), spec.ID)
	wantCode(t, "Stats after a crash", err, core.CodeUnavailable)
	s.kill(t, d, spec.ID)
}

func (s *suite) exitOfAgent(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	spec, agent := s.started(t, d)
	if got, err := agent.askWithin(3*time.Second, "exit 7"); err == nil {
		t.Errorf("an agent that ends answers %q", got)
	}
	if e := nextExit(t, d); e.ID != spec.ID || e.Incarnation != 1 || e.Reason == "" {
		t.Errorf("Exit: %+v", e)
	}
	s.kill(t, d, spec.ID)
}

func (s *suite) noExitAfterKill(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	killed, _ := s.started(t, d)
	crashed, _ := s.started(t, d)
	s.kill(t, d, killed.ID)
	s.opts.Crash(t, d, crashed.ID)
	if e := nextExit(t, d); e.ID != crashed.ID {
		t.Errorf("first Exit is %+v, want the crashed sandbox's", e)
	}
}

func (s *suite) againAfterCrash(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	spec, _ := s.started(t, d)
	s.opts.Crash(t, d, spec.ID)
	nextExit(t, d)
	s.kill(t, d, spec.ID)
	next := s.opts.Spec(t, spec.ID, 2)
	if err := d.Create(t.Context(), next); err != nil {
		t.Fatalf("Create of the next incarnation: %v", err)
	}
	if err := d.Start(t.Context(), spec.ID); err != nil {
		t.Fatalf("Start of the next incarnation: %v", err)
	}
	if got := Dial(t, d, spec.ID).Must(t, "echo again"); got != "again" {
		t.Errorf("echo: %q", got)
	}
	if st, err := d.Status(t.Context(), spec.ID); err != nil || st.Incarnation != 2 {
		t.Errorf("Status: %+v, %v", st, err)
	}
}

// reopened closes a driver and opens the next on the same state.
func (s *suite) reopened(t *testing.T, d runtime.Driver) runtime.Driver {
	t.Helper()
	if !d.Capabilities().Survives {
		t.Skip("the driver says that its sandboxes don't survive it")
	}
	if err := d.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return s.opened(t)
}

func (s *suite) adopt(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	spec, agent := s.started(t, d)
	d = s.reopened(t, d)
	list, err := d.List(t.Context())
	if err != nil || !slices.ContainsFunc(list, func(st runtime.Status) bool { return st.ID == spec.ID && st.Running && st.Incarnation == 1 }) {
		t.Fatalf("List after reopening: %+v, %v", list, err)
	}
	wantCode(t, "Adopt of another incarnation", d.Adopt(t.Context(), spec.ID, 2), core.CodeUnavailable)
	if err := d.Adopt(t.Context(), spec.ID, 1); err != nil {
		t.Fatalf("Adopt: %v", err)
	}
	if got := agent.Must(t, "echo old connection"); got != "old connection" {
		t.Errorf("echo on a connection from before: %q", got)
	}
	if got := Dial(t, d, spec.ID).Must(t, "echo new connection"); got != "new connection" {
		t.Errorf("echo on a new connection: %q", got)
	}
	if _, err := d.Stats(t.Context(), spec.ID); err != nil {
		t.Errorf("Stats: %v", err)
	}
	s.opts.Crash(t, d, spec.ID)
	if e := nextExit(t, d); e.ID != spec.ID || e.Incarnation != 1 {
		t.Errorf("Exit of an adopted sandbox: %+v", e)
	}
	s.kill(t, d, spec.ID)
}

func (s *suite) adoptDead(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	crashed, _ := s.started(t, d)
	idle := s.created(t, d)
	s.opts.Crash(t, d, crashed.ID)
	nextExit(t, d)
	d = s.reopened(t, d)
	wantCode(t, "Adopt of a crashed sandbox", d.Adopt(t.Context(), crashed.ID, 1), core.CodeUnavailable)
	wantCode(t, "Adopt of a sandbox that was never started", d.Adopt(t.Context(), idle.ID, 1), core.CodeUnavailable)
	for _, id := range []core.SandboxID{crashed.ID, idle.ID} {
		list, err := d.List(t.Context())
		if err != nil || !slices.ContainsFunc(list, func(st runtime.Status) bool { return st.ID == id }) {
			t.Errorf("List has no trace of %s: %+v, %v", id, list, err)
		}
		s.kill(t, d, id)
	}
}

func (s *suite) close(t *testing.T) {
	t.Helper()
	d := s.open(t)
	for range 2 {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if e, ok := <-d.Exits(); ok {
		t.Errorf("an exit after Close: %+v", e)
	}
}

func (s *suite) memoryLimit(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	if !d.Capabilities().MemoryLimit {
		t.Skip("the driver says that it does not limit memory here")
	}
	spec, agent := s.started(t, d)
	if got := agent.Must(t, "alloc %d", spec.Resources.MemoryBytes>>21); got != "ok" {
		t.Fatalf("half of the limit: %q", got)
	}
	got, err := agent.askWithin(3*time.Second, "alloc %d", spec.Resources.MemoryBytes>>19)
	if err == nil && got == "ok" {
		t.Fatal("four times the limit was given")
	}
	if e := nextExit(t, d); e.ID != spec.ID || e.Reason == "" {
		t.Errorf("Exit: %+v", e)
	}
	s.kill(t, d, spec.ID)
}

func (s *suite) cpuLimit(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	if !d.Capabilities().CPULimit {
		t.Skip("the driver says that it does not limit processor time here")
	}
	spec := s.opts.Spec(t, core.SandboxID(core.NewID()), 1)
	spec.Resources.VCPUs = 0.25
	if err := d.Create(t.Context(), spec); err != nil {
		t.Fatalf("Create: %v", err)
	}
	s.killAtEnd(t, spec.ID)
	if err := d.Start(t.Context(), spec.ID); err != nil {
		t.Fatalf("Start: %v", err)
	}
	agent := Dial(t, d, spec.ID)
	before, err := d.Stats(t.Context(), spec.ID)
	if err != nil {
		t.Fatalf("Stats: %v", err)
	}
	var rounds int
	if _, err := fmt.Sscan(agent.Must(t, "spin 1000"), &rounds); err != nil || rounds <= 0 {
		t.Errorf("spin: %d, %v", rounds, err)
	}
	later, err := d.Stats(t.Context(), spec.ID)
	if err != nil {
		t.Fatalf("Stats: %v", err)
	}
	share := (later.CPUSeconds - before.CPUSeconds) / later.At.Sub(before.At).Seconds()
	if share <= 0.01 || share > 0.4 {
		t.Errorf("with a quarter of a processor the sandbox used %.2f of one", share)
	}
}
