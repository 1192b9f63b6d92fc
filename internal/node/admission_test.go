package node_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"shoal/internal/core"
	"shoal/internal/disk"
	diskfake "shoal/internal/disk/fake"
	"shoal/internal/node"
)

func wantExhausted(t *testing.T, err error) {
	t.Helper()
	var e *core.Error
	if !errors.As(err, &e) || e.Code != core.CodeExhausted || e.RetryAfter <= 0 {
		t.Errorf("%v, want exhausted with a time to try again", err)
	}
}

func TestReserve(t *testing.T) {
	h := newHost(t)
	h.limits = node.Limits{MemoryBytes: 100 * mib, MaxSandboxes: 2, MinDiskFreeBytes: 10 * mib}
	s := h.open()
	a, b, c := core.SandboxID(core.NewID()), core.SandboxID(core.NewID()), core.SandboxID(core.NewID())
	of := func(m int64) core.Resources { return core.Resources{MemoryBytes: m * mib} }
	s.disk.SetSpace(disk.Space{TotalBytes: 100 * mib, FreeBytes: 10*mib - 1})
	wantExhausted(t, s.Reserve(t.Context(), a, of(1)))
	s.wantNothing(t)
	s.disk.SetSpace(disk.Space{TotalBytes: 100 * mib, FreeBytes: 10 * mib})
	wantExhausted(t, s.Reserve(t.Context(), a, of(101)))
	if err := s.Reserve(t.Context(), a, of(60)); err != nil {
		t.Fatal(err)
	}
	wantExhausted(t, s.Reserve(t.Context(), b, of(41)))
	if got := s.trace(t); got != (trace{reserved: 1, memory: 60 * mib}) {
		t.Errorf("after a refusal: %+v", got)
	}
	// A second reservation replaces the first; refused, it leaves it.
	wantExhausted(t, s.Reserve(t.Context(), a, of(101)))
	if err := s.Reserve(t.Context(), a, of(50)); err != nil {
		t.Fatal(err)
	}
	if err := s.Reserve(t.Context(), b, of(50)); err != nil {
		t.Fatal(err)
	}
	wantExhausted(t, s.Reserve(t.Context(), c, of(0)))
	s.Release(a)
	s.Release(a)
	if err := s.Reserve(t.Context(), c, of(50)); err != nil {
		t.Error(err)
	}
	s.Release(b)
	s.Release(c)
	s.wantNothing(t)
}

// TestReserveAll: all or none, and who is refused learns how many would fit.
func TestReserveAll(t *testing.T) {
	h := newHost(t)
	h.limits = node.Limits{MemoryBytes: 100 * mib, MaxSandboxes: 4, MinDiskFreeBytes: 10 * mib}
	s := h.open()
	each := core.Resources{MemoryBytes: 30 * mib}
	ids := func(n int) (list []core.SandboxID) {
		for range n {
			list = append(list, core.SandboxID(core.NewID()))
		}
		return list
	}
	s.disk.SetSpace(disk.Space{TotalBytes: 100 * mib, FreeBytes: 10*mib - 1})
	wantExhausted(t, s.ReserveAll(t.Context(), ids(1), each))
	s.disk.SetSpace(disk.Space{TotalBytes: 100 * mib, FreeBytes: 10 * mib})
	for _, c := range []struct {
		n    int
		each int64
		fit  string
	}{{4, 30, ": 3 of them"}, {5, 1, ": 4 of them"}, {2, 101, ": 0 of them"}} {
		err := s.ReserveAll(t.Context(), ids(c.n), core.Resources{MemoryBytes: c.each * mib})
		wantExhausted(t, err)
		if !strings.Contains(err.Error(), c.fit) {
			t.Errorf("%d of %d MiB: %v, want it to say %q", c.n, c.each, err, c.fit)
		}
	}
	s.wantNothing(t)
	three := ids(3)
	if err := s.ReserveAll(t.Context(), three, each); err != nil {
		t.Fatal(err)
	}
	if got := s.trace(t); got != (trace{reserved: 3, memory: 90 * mib}) {
		t.Errorf("afterwards: %+v", got)
	}
	for _, id := range three {
		s.Release(id)
	}
	s.wantNothing(t)
}

func TestReserveIsAtomic(t *testing.T) {
	h := newHost(t)
	h.limits = node.Limits{MemoryBytes: 7 * 64 * mib, MaxSandboxes: 100}
	s := h.open()
	var mu sync.Mutex
	var wg sync.WaitGroup
	won := 0
	for range 50 {
		wg.Go(func() {
			if s.Reserve(t.Context(), core.SandboxID(core.NewID()), core.Resources{MemoryBytes: 64 * mib}) == nil {
				mu.Lock()
				won++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if c, err := s.Capacity(t.Context()); won != 7 || err != nil || c.Sandboxes != 7 || c.MemoryReservedBytes != c.MemoryBytes {
		t.Errorf("%d won, capacity %+v, %v", won, c, err)
	}
}

// TestReserveCanceled: a caller that has gone away is promised nothing, and the disk is not asked for it any more.
func TestReserveCanceled(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.disk.SetHook(func(ctx context.Context, c diskfake.Call) error {
		if c.Op == diskfake.OpSpace {
			cancel()
			<-ctx.Done()
		}
		return ctx.Err()
	})
	if err := s.Reserve(ctx, core.SandboxID(core.NewID()), core.Resources{MemoryBytes: mib}); !core.IsCode(err, core.CodeCanceled) {
		t.Errorf("reserve: %v, want canceled", err)
	}
	s.disk.SetHook(nil)
	if c, err := s.Capacity(t.Context()); err != nil || c.Sandboxes != 0 {
		t.Errorf("promised: %+v, %v", c, err)
	}
}
