package gvisor_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	contract "shoal/internal/runtime"
	"shoal/internal/runtime/runtimetest"
)

func TestLifeOfASandbox(t *testing.T) {
	h := newHost(t)
	d := h.open()
	t.Cleanup(h.sweep)
	ctx := context.Background()
	id := core.SandboxID(core.NewID())
	begin := time.Now()
	if err := d.Create(ctx, h.spec(id)); err != nil {
		t.Fatalf("Create: %v", err)
	}
	created := time.Since(begin)
	begin = time.Now()
	if err := d.Start(ctx, id); err != nil {
		t.Fatalf("Start: %v", err)
	}
	started := time.Since(begin)
	s := runtimetest.Dial(t, d, id)
	if got := s.Must(t, "echo hello"); got != "hello" {
		t.Errorf("echo: %q", got)
	}
	t.Log(s.Must(t, "stat /"), s.Must(t, "read /etc/secret"), s.Must(t, "cpus"), s.Must(t, "read /proc/meminfo"), s.Must(t, "write /tmp/x y"))
	st, err := d.Status(ctx, id)
	t.Logf("%+v %v", st, err)
	stats, err := d.Stats(ctx, id)
	t.Logf("%+v %v", stats, err)
	begin = time.Now()
	if err := d.Kill(ctx, id); err != nil {
		t.Fatalf("Kill: %v", err)
	}
	t.Logf("create %v start %v kill %v", created, started, time.Since(begin))
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestContract(t *testing.T) {
	h := newHost(t)
	t.Cleanup(h.sweep)
	runtimetest.Run(t, func(t testing.TB) contract.Driver { return h.openFor(t) }, runtimetest.Options{
		Spec: func(_ testing.TB, id core.SandboxID, incarnation int64) contract.Spec {
			spec := h.spec(id)
			spec.Incarnation = incarnation
			return spec
		},
		Crash: func(t testing.TB, d contract.Driver, id core.SandboxID) {
			st, err := d.Status(t.Context(), id)
			if err != nil || st.PID <= 1 {
				t.Fatalf("Status: %+v, %v", st, err)
			}
			if err := unix.Kill(st.PID, unix.SIGKILL); err != nil {
				t.Fatalf("kill sentry: %v", err)
			}
		},
		BreakSpec: func(spec contract.Spec) contract.Spec {
			spec.RootFS = spec.RunDir
			return spec
		},
	})
}
