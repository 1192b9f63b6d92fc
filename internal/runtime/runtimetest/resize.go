package runtimetest

import (
	"context"
	"testing"
	"time"

	"shoal/internal/core"
)

func (s *suite) resize(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	spec, agent := s.started(t, d)
	for _, r := range []core.Resources{
		{VCPUs: 2, MemoryBytes: 2 * spec.Resources.MemoryBytes}, {VCPUs: 0.5}, {MemoryBytes: spec.Resources.MemoryBytes}, {CPUWeight: 50}, {IOWeight: 50},
	} {
		if err := d.Resize(t.Context(), spec.ID, r); err != nil {
			t.Errorf("Resize to %+v: %v", r, err)
		}
		want := spec.Resources.MemoryBytes
		if r.VCPUs != 0 {
			want *= 2 // the second leaves it
		}
		if st, err := d.Stats(t.Context(), spec.ID); err != nil || d.Capabilities().MemoryLimit && st.MemoryLimitBytes != want {
			t.Errorf("after %+v the limit is %d, want %d: %v", r, st.MemoryLimitBytes, want, err)
		}
	}
	if got := agent.Must(t, "echo well"); got != "well" {
		t.Errorf("the sandbox says %q", got)
	}
	wantCode(t, "Resize to nonsense", d.Resize(t.Context(), spec.ID, core.Resources{MemoryBytes: -1}), core.CodeInvalid)
}

func (s *suite) resizeDead(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	r := core.Resources{VCPUs: 1}
	wantCode(t, "Resize of what is not there", d.Resize(t.Context(), core.SandboxID(core.NewID()), r), core.CodeNotFound)
	spec := s.created(t, d)
	wantCode(t, "Resize of what was not started", d.Resize(t.Context(), spec.ID, r), core.CodeUnavailable)
	started, _ := s.started(t, d)
	s.opts.Crash(t, d, started.ID)
	nextExit(t, d)
	wantCode(t, "Resize of what has ended", d.Resize(t.Context(), started.ID, r), core.CodeUnavailable)
}

// resizeAndKill changes limits for as long as the sandbox lives.
func (s *suite) resizeAndKill(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	spec, _ := s.started(t, d)
	begun, done := make(chan struct{}), make(chan error)
	go func() {
		for i := 0; ; i++ {
			err := d.Resize(context.Background(), spec.ID, core.Resources{VCPUs: float64(1 + i%2), MemoryBytes: spec.Resources.MemoryBytes << (i % 2)})
			if i == 0 {
				close(begun)
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	<-begun
	if err := d.Kill(t.Context(), spec.ID); err != nil {
		t.Errorf("Kill: %v", err)
	}
	select {
	case err := <-done:
		wantCode(t, "Resize of what was killed", err, core.CodeCanceled, core.CodeUnavailable, core.CodeNotFound)
	case <-time.After(exitTimeout):
		t.Fatal("Resize goes on after Kill")
	}
	s.wantGone(t, d, spec.ID)
}

// resizedMemory has more than before fit, refuses to take away what is in use, and holds what is less.
func (s *suite) resizedMemory(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	if !d.Capabilities().MemoryLimit {
		t.Skip("the driver says that it does not limit memory here")
	}
	const mib = 1 << 20
	spec := s.opts.Spec(t, core.SandboxID(core.NewID()), 1)
	spec.Resources.MemoryBytes = 64 * mib
	if err := d.Create(t.Context(), spec); err != nil {
		t.Fatalf("Create: %v", err)
	}
	s.killAtEnd(t, spec.ID)
	if err := d.Start(t.Context(), spec.ID); err != nil {
		t.Fatalf("Start: %v", err)
	}
	agent := Dial(t, d, spec.ID)
	if err := d.Resize(t.Context(), spec.ID, core.Resources{MemoryBytes: 512 * mib}); err != nil {
		t.Fatalf("Resize up: %v", err)
	}
	if got := agent.Must(t, "alloc 300"); got != "ok" {
		t.Fatalf("300 MiB of 512: %q", got)
	}
	wantCode(t, "Resize far below what is in use", d.Resize(t.Context(), spec.ID, core.Resources{MemoryBytes: 64 * mib}), core.CodeConflict)
	if got := agent.Must(t, "echo alive"); got != "alive" {
		t.Errorf("after it the sandbox says %q", got)
	}
	if err := d.Resize(t.Context(), spec.ID, core.Resources{MemoryBytes: 320 * mib}); err != nil {
		t.Fatalf("Resize down: %v", err)
	}
	if got, err := agent.askWithin(3*time.Second, "alloc 700"); err == nil && got == "ok" {
		t.Error("a GiB was given where 320 MiB are")
	}
	if e := nextExit(t, d); e.ID != spec.ID || e.Reason == "" {
		t.Errorf("Exit: %+v", e)
	}
}

// resizedCPU takes processor time away, and the next driver on the same state knows of it.
func (s *suite) resizedCPU(t *testing.T) {
	t.Helper()
	first := s.open(t)
	if !first.Capabilities().CPULimit {
		_ = first.Close()
		t.Skip("the driver says that it does not limit processor time here")
	}
	spec, agent := s.started(t, first)
	if err := first.Resize(t.Context(), spec.ID, core.Resources{VCPUs: 0.25}); err != nil {
		t.Fatalf("Resize: %v", err)
	}
	share := func() float64 {
		d := s.open(t)
		defer func() { _ = d.Close() }()
		if err := d.Adopt(t.Context(), spec.ID, 1); err != nil {
			t.Fatalf("Adopt: %v", err)
		}
		before, err := d.Stats(t.Context(), spec.ID)
		if err != nil {
			t.Fatalf("Stats: %v", err)
		}
		agent.Must(t, "spin 1000")
		later, err := d.Stats(t.Context(), spec.ID)
		if err != nil {
			t.Fatalf("Stats: %v", err)
		}
		return (later.CPUSeconds - before.CPUSeconds) / later.At.Sub(before.At).Seconds()
	}
	if err := first.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if got := share(); got <= 0.01 || got > 0.4 {
		t.Errorf("with a quarter of a processor the sandbox used %.2f of one", got)
	}
}
