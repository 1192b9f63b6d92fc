package control_test

import (
	"testing"

	"shoal/internal/core"
)

// BenchmarkCreateAndDelete is what a sandbox's life costs beside the node's work, with records that are flushed to the disk.
func BenchmarkCreateAndDelete(b *testing.B) {
	w := newWorld(b).start().ready()
	for b.Loop() {
		sb, err := w.svc.CreateSandbox(b.Context(), alice, core.SandboxSpec{Labels: map[string]string{"app": "web"}})
		if err == nil {
			err = w.svc.DeleteSandbox(b.Context(), alice, string(sb.ID))
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
