package runtimetest

import (
	"context"
	"testing"

	"shoal/internal/core"
	"shoal/internal/runtime"
)

// withParts moves what a Spec's Parts return out of its fields.
func withParts(spec runtime.Spec, before func(context.Context) error) runtime.Spec {
	root, netNS := spec.RootFS, spec.NetNS
	spec.RootFS, spec.NetNS = "", ""
	spec.Parts = func(ctx context.Context) (string, string, error) { return root, netNS, before(ctx) }
	return spec
}

func (s *suite) parts(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	calls := 0
	spec := withParts(s.opts.Spec(t, core.SandboxID(core.NewID()), 1), func(context.Context) error { calls++; return nil })
	s.killAtEnd(t, spec.ID)
	if err := d.Create(t.Context(), spec); err != nil || calls != 1 {
		t.Fatalf("Create: %v, with %d calls of Parts", err, calls)
	}
	if err := d.Start(t.Context(), spec.ID); err != nil {
		t.Fatalf("Start: %v", err)
	}
	if got := Dial(t, d, spec.ID).Must(t, "echo here"); got != "here" {
		t.Errorf("the agent says %q", got)
	}
}

func (s *suite) badParts(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	spec := withParts(s.opts.Spec(t, core.SandboxID(core.NewID()), 1), func(context.Context) error {
		return core.Errorf(core.CodeExhausted, "no room for a tree")
	})
	wantCode(t, "Create", d.Create(t.Context(), spec), core.CodeExhausted)
	s.wantGone(t, d, spec.ID)
	spec = s.opts.Spec(t, core.SandboxID(core.NewID()), 1)
	spec.Parts = func(context.Context) (string, string, error) { return "relative", spec.NetNS, nil }
	wantCode(t, "Create", d.Create(t.Context(), spec), core.CodeInvalid)
	s.wantGone(t, d, spec.ID)
}

func (s *suite) killDuringParts(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	waiting := make(chan struct{})
	spec := withParts(s.opts.Spec(t, core.SandboxID(core.NewID()), 1), func(ctx context.Context) error {
		close(waiting)
		<-ctx.Done()
		return ctx.Err()
	})
	created := make(chan error, 1)
	go func() { created <- d.Create(t.Context(), spec) }()
	<-waiting
	if err := d.Kill(t.Context(), spec.ID); err != nil {
		t.Errorf("Kill: %v", err)
	}
	wantCode(t, "Create", <-created, core.CodeCanceled)
	s.wantGone(t, d, spec.ID)
}
