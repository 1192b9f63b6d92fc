package gvisor_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
	contract "shoal/internal/runtime"
	"shoal/internal/runtime/gvisor"
	"shoal/internal/runtime/runtimetest"
)

// TestContract holds the driver to the suite that all runtimes pass, with real sandboxes.
func TestContract(t *testing.T) {
	runContract(t, newHost(t))
}

// TestContractOnUnifiedHierarchy does it on cgroup v2 where the host has it beside v1, without the controllers. Where it has v2
// alone, TestContract has done it.
func TestContractOnUnifiedHierarchy(t *testing.T) {
	h := newHost(t)
	h.cfg.CgroupRoot = gvisor.DefaultCgroupRoot + "/unified"
	var st unix.Statfs_t
	if err := unix.Statfs(h.cfg.CgroupRoot, &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
		t.Skipf("no cgroup v2 at %s", h.cfg.CgroupRoot)
	}
	runContract(t, h)
}

func runContract(t *testing.T, h *host) {
	t.Helper()
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
