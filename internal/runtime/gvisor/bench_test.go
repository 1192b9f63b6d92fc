package gvisor_test

import (
	"slices"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/runtime/runtimetest"
)

// BenchmarkLife measures the steps of a sandbox's life, each as a median and a minimum in milliseconds.
func BenchmarkLife(b *testing.B) {
	h := newHost(b)
	b.Cleanup(h.sweep)
	d := h.openFor(b)
	b.Cleanup(func() { d.Close() })
	names := []string{"create", "start", "answer", "kill"}
	took := map[string][]time.Duration{}
	for b.Loop() {
		id := core.SandboxID(core.NewID())
		spec := h.spec(id)
		begin := time.Now()
		step := func(name string, err error) {
			if err != nil {
				b.Fatalf("%s: %v", name, err)
			}
			took[name] = append(took[name], time.Since(begin))
			begin = time.Now()
		}
		step("create", d.Create(b.Context(), spec))
		step("start", d.Start(b.Context(), id))
		_, err := runtimetest.Dial(b, d, id).Ask("echo x")
		step("answer", err)
		step("kill", d.Kill(b.Context(), id))
	}
	for _, name := range names {
		list := took[name]
		slices.Sort(list)
		b.ReportMetric(float64(list[len(list)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(list[0].Microseconds())/1000, name+"-min-ms")
	}
}
