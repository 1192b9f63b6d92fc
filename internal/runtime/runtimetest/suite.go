// Package runtimetest is the contract of internal/runtime as tests that every driver passes.
//
// It knows no driver. A driver's test calls Run with a way to open it and Options that say how to make what a sandbox needs.
// The guest agent in these tests speaks lines: one in, one out. Every driver's agent knows "echo WORDS" and "exit N"; where a
// driver says that it enforces limits, also "alloc MIB", which touches memory and keeps it, and "spin MS", which counts how
// many rounds of work it could do in that time.
package runtimetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/runtime"
)

// Options are what the suite needs of a driver's test.
type Options struct {
	// Spec makes all that a start of a sandbox needs, a fresh network among it.
	Spec func(tb testing.TB, id core.SandboxID, incarnation int64) runtime.Spec
	// Crash ends a running sandbox as a fault would, behind the driver's back.
	Crash func(tb testing.TB, d runtime.Driver, id core.SandboxID)
	// BreakSpec makes a spec that Create must fail on half way.
	BreakSpec func(spec runtime.Spec) runtime.Spec
}

// Run holds a driver to the contract. Each call of open returns a driver on the same state as the one before, which is
// closed by then; what a test leaves behind is the caller's to find.
func Run(t *testing.T, open func(tb testing.TB) runtime.Driver, opts Options) {
	t.Helper()
	s := &suite{open: open, opts: opts}
	for _, c := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"life", s.life},
		{"unknown sandbox", s.unknown},
		{"dial before start", s.dialBeforeStart},
		{"duplicate", s.duplicate},
		{"bad spec", s.badSpec},
		{"failed create leaves nothing", s.failedCreate},
		{"cancel during create", s.cancelDuringCreate},
		{"cancel during start", s.cancelDuringStart},
		{"kill during create", s.killDuringCreate},
		{"kill during start", s.killDuringStart},
		{"kill twice at once", s.killTwice},
		{"many at once", s.manyAtOnce},
		{"exit by crash", s.exitByCrash},
		{"exit of the guest agent", s.exitOfAgent},
		{"no exit after kill", s.noExitAfterKill},
		{"again after a crash", s.againAfterCrash},
		{"adopt", s.adopt},
		{"adopt what does not run", s.adoptDead},
		{"close", s.close},
		{"freeze", s.freeze},
		{"freeze what does not run", s.freezeDead},
		{"kill what is frozen", s.killFrozen},
		{"adopt what is frozen", s.adoptFrozen},
		{"parts made beside", s.parts},
		{"parts that can't be made", s.badParts},
		{"kill while parts are made", s.killDuringParts},
		{"memory limit", s.memoryLimit},
		{"cpu limit", s.cpuLimit},
		{"resize", s.resize},
		{"resize what does not run", s.resizeDead},
		{"resize and kill", s.resizeAndKill},
		{"resized memory", s.resizedMemory},
		{"resized cpu", s.resizedCPU},
	} {
		t.Run(c.name, c.run)
	}
}

// suite is one run.
type suite struct {
	open func(tb testing.TB) runtime.Driver
	opts Options
}

// opened opens a driver that is closed at the end of the test.
func (s *suite) opened(t *testing.T) runtime.Driver {
	t.Helper()
	d := s.open(t)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

// created makes a sandbox that is killed at the end of the test.
func (s *suite) created(t *testing.T, d runtime.Driver) runtime.Spec {
	t.Helper()
	spec := s.opts.Spec(t, core.SandboxID(core.NewID()), 1)
	if err := d.Create(t.Context(), spec); err != nil {
		t.Fatalf("Create: %v", err)
	}
	s.killAtEnd(t, spec.ID)
	return spec
}

// killAtEnd kills a sandbox with a driver of its own, whatever became of the test's.
func (s *suite) killAtEnd(t *testing.T, id core.SandboxID) {
	t.Helper()
	t.Cleanup(func() {
		d := s.open(t)
		if err := d.Kill(context.Background(), id); err != nil {
			t.Errorf("Kill at the end: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("Close at the end: %v", err)
		}
	})
}

// started makes a sandbox whose agent answers.
func (s *suite) started(t *testing.T, d runtime.Driver) (runtime.Spec, *Session) {
	t.Helper()
	spec := s.created(t, d)
	if err := d.Start(t.Context(), spec.ID); err != nil {
		t.Fatalf("Start: %v", err)
	}
	return spec, Dial(t, d, spec.ID)
}

// kill kills and checks that nothing is left.
func (s *suite) kill(t *testing.T, d runtime.Driver, id core.SandboxID) {
	t.Helper()
	if err := d.Kill(t.Context(), id); err != nil {
		t.Fatalf("Kill: %v", err)
	}
	s.wantGone(t, d, id)
}

// wantGone checks that a driver knows nothing of a sandbox.
func (s *suite) wantGone(t *testing.T, d runtime.Driver, id core.SandboxID) {
	t.Helper()
	if _, err := d.Status(t.Context(), id); !core.IsCode(err, core.CodeNotFound) {
		t.Errorf("Status of a sandbox that is gone: %v, want not_found", err)
	}
	list, err := d.List(t.Context())
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	if slices.ContainsFunc(list, func(st runtime.Status) bool { return st.ID == id }) {
		t.Errorf("List still has %s", id)
	}
}

// wantCode checks an error's code.
func wantCode(t *testing.T, what string, err error, codes ...core.Code) {
	t.Helper()
	if err == nil || !slices.Contains(codes, core.CodeOf(err)) {
		t.Errorf("%s: got %v, want a code of %v", what, err, codes)
	}
}

// exitTimeout bounds the wait for an exit.
const exitTimeout = 10 * time.Second

// nextExit waits for the next exit.
func nextExit(t *testing.T, d runtime.Driver) runtime.Exit {
	t.Helper()
	select {
	case e, ok := <-d.Exits():
		if !ok {
			t.Fatal("Exits was closed")
		}
		return e
	case <-time.After(exitTimeout):
		t.Fatal("no exit was reported")
	}
	return runtime.Exit{}
}
