package runtimetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"shoal/internal/core"
)

// moments are when a race strikes, from "at once" to "most likely too late".
func moments() []time.Duration {
	return []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 15 * time.Millisecond, 30 * time.Millisecond, 60 * time.Millisecond}
}

// after runs f at a moment and waits for it to have run before the test goes on.
func after(at time.Duration, f func()) (wait func()) {
	var group sync.WaitGroup
	group.Add(1)
	time.AfterFunc(at, func() { defer group.Done(); f() })
	return group.Wait
}

func (s *suite) cancelDuringCreate(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	for _, at := range moments() {
		spec := s.opts.Spec(t, core.SandboxID(core.NewID()), 1)
		s.killAtEnd(t, spec.ID)
		ctx, cancel := context.WithCancel(t.Context())
		wait := after(at, cancel)
		err := d.Create(ctx, spec)
		wait()
		if err == nil {
			s.kill(t, d, spec.ID) // It was faster.
			continue
		}
		wantCode(t, "Create canceled after "+at.String(), err, core.CodeCanceled)
		s.wantGone(t, d, spec.ID)
	}
}

func (s *suite) cancelDuringStart(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	for _, at := range moments() {
		spec := s.created(t, d)
		ctx, cancel := context.WithCancel(t.Context())
		wait := after(at, cancel)
		err := d.Start(ctx, spec.ID)
		wait()
		if err != nil {
			wantCode(t, "Start canceled after "+at.String(), err, core.CodeCanceled)
		} else if st, err := d.Status(t.Context(), spec.ID); err != nil || !st.Running {
			t.Errorf("Start was faster than cancel, but the sandbox does not run: %+v, %v", st, err)
		}
		s.kill(t, d, spec.ID)
	}
}

func (s *suite) killDuringCreate(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	for _, at := range moments() {
		spec := s.opts.Spec(t, core.SandboxID(core.NewID()), 1)
		s.killAtEnd(t, spec.ID)
		begun := make(chan struct{})
		wait := after(at, func() {
			<-begun
			if err := d.Kill(context.Background(), spec.ID); err != nil {
				t.Errorf("Kill after %s: %v", at, err)
			}
		})
		close(begun)
		err := d.Create(t.Context(), spec)
		wait()
		if err != nil {
			wantCode(t, "Create killed after "+at.String(), err, core.CodeCanceled, core.CodeUnavailable)
			s.wantGone(t, d, spec.ID)
			continue
		}
		// Create may have begun after Kill had found nothing, or ended before it.
		s.kill(t, d, spec.ID)
	}
}

func (s *suite) killDuringStart(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	for _, at := range moments() {
		spec := s.created(t, d)
		wait := after(at, func() {
			if err := d.Kill(context.Background(), spec.ID); err != nil {
				t.Errorf("Kill after %s: %v", at, err)
			}
		})
		err := d.Start(t.Context(), spec.ID)
		wait()
		if err != nil {
			wantCode(t, "Start killed after "+at.String(), err, core.CodeCanceled, core.CodeUnavailable, core.CodeNotFound)
		}
		s.wantGone(t, d, spec.ID)
	}
}

func (s *suite) killTwice(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	spec, _ := s.started(t, d)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if err := d.Kill(t.Context(), spec.ID); err != nil {
				t.Errorf("Kill: %v", err)
			}
		})
	}
	group.Wait()
	s.wantGone(t, d, spec.ID)
}
