package gvisor_test

import (
	"testing"

	"shoal/internal/core"
	"shoal/internal/runtime/runtimetest"
)

func TestExecute(t *testing.T) {
	h := newHost(t)
	t.Cleanup(h.sweep)
	d := h.open()
	t.Cleanup(func() { d.Close() })
	id := core.SandboxID(core.NewID())
	if err := d.Execute(t.Context(), id, "/run/shoal/agent", "echo"); !core.IsCode(err, core.CodeNotFound) {
		t.Errorf("Execute before Create: %v, want not_found", err)
	}
	if err := d.Create(t.Context(), h.spec(id)); err != nil {
		t.Fatalf("Create: %v", err)
	}
	if err := d.Execute(t.Context(), id, "/run/shoal/agent", "echo"); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("Execute before Start: %v, want unavailable", err)
	}
	if err := d.Start(t.Context(), id); err != nil {
		t.Fatalf("Start: %v", err)
	}
	agent := runtimetest.Dial(t, d, id)
	if err := d.Execute(t.Context(), id, "/run/shoal/agent", "write", "/tmp/mark", "was", "here"); err != nil {
		t.Errorf("Execute: %v", err)
	}
	if got := agent.Must(t, "read /tmp/mark"); got != `"was here"` {
		t.Errorf("what the program left: %s", got)
	}
	for name, argv := range map[string][]string{
		"a program that fails":       {"/run/shoal/agent", "read", "/no/such/file"},
		"a program that isn't there": {"/no/such/program"},
	} {
		if err := d.Execute(t.Context(), id, argv...); !core.IsCode(err, core.CodeUnavailable) {
			t.Errorf("Execute of %s: %v, want unavailable", name, err)
		}
	}
}
