package node_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"shoal/internal/core"
	runtimefake "shoal/internal/runtime/fake"
)

// limits returns what the host's kernel holds a sandbox to, and what its reservation is.
func (s *server) limits(t *testing.T, id core.SandboxID) (core.Resources, int64) {
	t.Helper()
	c, err := s.Capacity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range s.host.world.Specs() {
		if spec.ID == id {
			return spec.Resources, c.MemoryReservedBytes
		}
	}
	return core.Resources{}, c.MemoryReservedBytes
}

// wantLimits asserts both, and that a restart changes nothing of it.
func (s *server) wantLimits(t *testing.T, id core.SandboxID, want core.Resources) *server {
	t.Helper()
	for range 2 {
		if got, reserved := s.limits(t, id); got != want || reserved != want.MemoryBytes {
			t.Errorf("limits are %+v, reserved %d, want %+v", got, reserved, want)
		}
		s = s.restart()
	}
	return s
}

func TestResize(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	for _, want := range []core.Resources{{MemoryBytes: 512 * mib, VCPUs: 2}, {MemoryBytes: 64 * mib, VCPUs: 2}, {MemoryBytes: 64 * mib, VCPUs: 0.5}} {
		if err := s.Reserve(t.Context(), spec.Sandbox, core.Resources{MemoryBytes: max(want.MemoryBytes, 64*mib)}); err != nil {
			t.Fatal(err)
		}
		if err := s.Resize(t.Context(), spec.Sandbox, want, false); err != nil {
			t.Fatal(err)
		}
		s = s.wantLimits(t, spec.Sandbox, want)
	}
	if !s.reachable(t, spec.Sandbox) {
		t.Error("it is gone")
	}
	err := s.Resize(t.Context(), core.SandboxID(core.NewID()), core.Resources{MemoryBytes: 64 * mib}, false)
	if !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("resize of what is not there: %v", err)
	}
}

// TestResizeBelowUse: memory that is in use can't be taken away, unless it must.
func TestResizeBelowUse(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	s.host.memory.used.Store(40 * mib)
	want := core.Resources{MemoryBytes: 32 * mib, VCPUs: 1}
	err := s.Resize(t.Context(), spec.Sandbox, want, false)
	if !core.IsCode(err, core.CodeConflict) || !strings.Contains(err.Error(), "40 MiB") {
		t.Errorf("resize below use: %v", err)
	}
	s = s.wantLimits(t, spec.Sandbox, spec.Resources)
	if err := s.Resize(t.Context(), spec.Sandbox, want, true); err != nil {
		t.Error(err)
	}
	s.wantLimits(t, spec.Sandbox, want)
}

// TestResizeOfASilentAgent: what is the host's alone to limit needs no answer from inside.
func TestResizeOfASilentAgent(t *testing.T) {
	s := start(t)
	spec := s.create(t)
	s.host.mu.Lock()
	s.host.stopped = make(chan struct{})
	s.host.mu.Unlock()
	s = s.restart()
	want := spec.Resources
	want.VCPUs = 2
	if err := s.Resize(t.Context(), spec.Sandbox, want, false); err != nil {
		t.Error(err)
	}
	if got, _ := s.limits(t, spec.Sandbox); got != want {
		t.Errorf("limits are %+v, want %+v", got, want)
	}
}

// TestResizeFails: on an error the limits of before hold, the guest agent's too.
func TestResizeFails(t *testing.T) {
	for _, memory := range []int64{32 * mib, 512 * mib} {
		s := start(t)
		spec := s.create(t)
		s.host.world.SetFault(runtimefake.MethodResize, func(_ context.Context, id core.SandboxID) error {
			s.host.world.SetFault(runtimefake.MethodResize, nil)
			return errors.New("the kernel says no")
		})
		if err := s.Reserve(t.Context(), spec.Sandbox, core.Resources{MemoryBytes: max(memory, 64*mib)}); err != nil {
			t.Fatal(err)
		}
		if err := s.Resize(t.Context(), spec.Sandbox, core.Resources{MemoryBytes: memory, VCPUs: 3}, false); err == nil {
			t.Error("the resize succeeded")
		}
		s = s.wantLimits(t, spec.Sandbox, spec.Resources)
		// The agent's limit is what it was: so much may be in use, and not more.
		s.host.memory.used.Store(63 * mib)
		if err := s.Resize(t.Context(), spec.Sandbox, spec.Resources, false); err != nil {
			t.Error(err)
		}
	}
}
