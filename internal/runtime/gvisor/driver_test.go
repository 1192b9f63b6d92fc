package gvisor_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	contract "shoal/internal/runtime"
	"shoal/internal/runtime/runtimetest"
)

// TestContract holds the driver to the suite that all runtimes pass, with real sandboxes.
func TestContract(t *testing.T) {
	h := newHost(t)
	t.Cleanup(h.sweep)
	runtimetest.Run(t, func(tb testing.TB) contract.Driver { tb.Helper(); return h.openFor(tb) }, runtimetest.Options{
		Spec: func(_ testing.TB, id core.SandboxID, incarnation int64) contract.Spec {
			spec := h.spec(id)
			spec.Incarnation = incarnation
			return spec
		},
		Crash: func(tb testing.TB, d contract.Driver, id core.SandboxID) {
			tb.Helper()
			st, err := d.Status(tb.Context(), id)
			if err != nil || st.PID <= 1 {
				tb.Fatalf("Status: %+v, %v", st, err)
			}
			if err := unix.Kill(st.PID, unix.SIGKILL); err != nil {
				tb.Fatalf("kill sentry: %v", err)
			}
		},
		BreakSpec: func(spec contract.Spec) contract.Spec {
			spec.RootFS = spec.RunDir
			return spec
		},
	})
}
