package runtimetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/core"
)

func (s *suite) life(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	spec := s.created(t, d)
	st, err := d.Status(t.Context(), spec.ID)
	if err != nil || !st.Running || st.Incarnation != 1 || st.ID != spec.ID || st.Digest == "" {
		t.Errorf("Status after Create: %+v, %v", st, err)
	}
	if err := d.Start(t.Context(), spec.ID); err != nil {
		t.Fatalf("Start: %v", err)
	}
	first, second := Dial(t, d, spec.ID), Dial(t, d, spec.ID)
	for i, c := range []*Session{first, second, first} {
		want := fmt.Sprintf("hello %d", i)
		if got := c.Must(t, "echo %s", want); got != want {
			t.Errorf("echo: got %q, want %q", got, want)
		}
	}
	stats, err := d.Stats(t.Context(), spec.ID)
	if err != nil || stats.At.IsZero() || stats.MemoryBytes <= 0 || stats.Processes < 1 {
		t.Errorf("Stats: %+v, %v", stats, err)
	}
	if d.Capabilities().MemoryLimit && stats.MemoryLimitBytes != spec.Resources.MemoryBytes {
		t.Errorf("Stats: memory limit %d, want %d", stats.MemoryLimitBytes, spec.Resources.MemoryBytes)
	}
	s.kill(t, d, spec.ID)
	if _, err := first.askWithin(300*time.Millisecond, "echo still there"); err == nil {
		t.Error("the agent answers after Kill")
	}
	if err := d.Kill(t.Context(), spec.ID); err != nil {
		t.Errorf("second Kill: %v", err)
	}
}

func (s *suite) unknown(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	for _, id := range []core.SandboxID{core.SandboxID(core.NewID()), "", "../../etc"} {
		wantCode(t, "Start", d.Start(t.Context(), id), core.CodeNotFound)
		_, err := d.DialGuest(t.Context(), id)
		wantCode(t, "DialGuest", err, core.CodeNotFound)
		_, err = d.Stats(t.Context(), id)
		wantCode(t, "Stats", err, core.CodeNotFound)
		_, err = d.Status(t.Context(), id)
		wantCode(t, "Status", err, core.CodeNotFound)
		wantCode(t, "Adopt", d.Adopt(t.Context(), id, 1), core.CodeNotFound)
		if err := d.Kill(t.Context(), id); err != nil {
			t.Errorf("Kill of what is not there: %v", err)
		}
	}
}

func (s *suite) dialBeforeStart(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	spec := s.created(t, d)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := d.DialGuest(ctx, spec.ID)
	wantCode(t, "DialGuest before Start", err, core.CodeUnavailable)
	if ctx.Err() != nil {
		t.Error("DialGuest did not fail fast")
	}
}

func (s *suite) duplicate(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	spec, agent := s.started(t, d)
	again := s.opts.Spec(t, core.SandboxID(core.NewID()), 2)
	again.ID = spec.ID
	wantCode(t, "Create of what exists", d.Create(t.Context(), again), core.CodeExists)
	if got := agent.Must(t, "echo untouched"); got != "untouched" {
		t.Errorf("the first sandbox answers %q", got)
	}
	if st, err := d.Status(t.Context(), spec.ID); err != nil || st.Incarnation != 1 || !st.Running {
		t.Errorf("Status of the first: %+v, %v", st, err)
	}
}

func (s *suite) badSpec(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	good := s.opts.Spec(t, core.SandboxID(core.NewID()), 1)
	for name, change := range map[string]func(){
		"id":       func() { good.ID = "../x" },
		"root_fs":  func() { good.RootFS = "relative" },
		"hostname": func() { good.Hostname = strings.Repeat("x", 65) },
		"net_ns":   func() { good.NetNS = "" },
		"memory":   func() { good.Resources.MemoryBytes = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			saved := good
			change()
			bad := good
			good = saved
			wantCode(t, "Create", d.Create(t.Context(), bad), core.CodeInvalid)
			s.wantGone(t, d, bad.ID)
		})
	}
}

func (s *suite) failedCreate(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	spec := s.opts.BreakSpec(s.opts.Spec(t, core.SandboxID(core.NewID()), 1))
	if err := d.Create(t.Context(), spec); err == nil {
		t.Error("Create of a broken spec succeeded")
	}
	s.wantGone(t, d, spec.ID)
}

func (s *suite) manyAtOnce(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	var group sync.WaitGroup
	for range 4 {
		spec := s.opts.Spec(t, core.SandboxID(core.NewID()), 1)
		s.killAtEnd(t, spec.ID)
		group.Go(func() {
			if err := d.Create(t.Context(), spec); err != nil {
				t.Errorf("Create: %v", err)
				return
			}
			if err := d.Start(t.Context(), spec.ID); err != nil {
				t.Errorf("Start: %v", err)
			}
			if st, err := d.Status(t.Context(), spec.ID); err != nil || !st.Running {
				t.Errorf("Status: %+v, %v", st, err)
			}
			if err := d.Kill(t.Context(), spec.ID); err != nil {
				t.Errorf("Kill: %v", err)
			}
		})
	}
	group.Wait()
}
