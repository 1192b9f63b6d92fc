package gvisor_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestThawAfterACrash: a server that was killed just before it held a sandbox, or just after it had let it go, leaves a record that says
// that it is held, perhaps. Letting it go once too often would end it.
func TestThawAfterACrash(t *testing.T) {
	h := newHost(t)
	t.Cleanup(h.sweep)
	d := h.open()
	id, agent := h.started(t, d)
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(h.cfg.StateDir, string(id)+".json")
		text, err := os.ReadFile(path)
		if err != nil || bytes.Contains(text, []byte(`"held"`)) {
			t.Fatalf("the record is %s, %v", text, err)
		}
		if err := os.WriteFile(path, bytes.Replace(text, []byte("{"), []byte(`{"held":true,`), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		d = h.open()
		if err := d.Adopt(t.Context(), id, 1); err != nil {
			t.Fatal(err)
		}
		if err := d.Thaw(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if got := agent.Must(t, "echo alive"); got != "alive" {
			t.Fatalf("it says %q", got)
		}
		if err := d.Freeze(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := d.Thaw(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if got := agent.Must(t, "echo alive"); got != "alive" {
			t.Fatalf("it says %q", got)
		}
	}
}
