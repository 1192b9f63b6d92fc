package store_test

import (
	"encoding/json"
	"strings"
	"testing"

	"shoal/internal/core"
	"shoal/internal/store"
)

// TestSizeIsThatOfJSON: a page that is bounded by size makes a reply that is bounded.
func TestSizeIsThatOfJSON(t *testing.T) {
	for name, text := range map[string]string{
		"plain": strings.Repeat("x", 1000), "control": strings.Repeat("\x00\x1f", 500), "newlines": strings.Repeat("\n", 1000),
		"quotes": strings.Repeat(`"\`, 500), "wide": strings.Repeat("ü", 500), "none": "",
	} {
		encoded, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for what, size := range map[string]int{
			"cmd":    store.ExecSize(core.Exec{Spec: core.ExecSpec{Cmd: []string{text}}}),
			"shell":  store.ExecSize(core.Exec{Spec: core.ExecSpec{Shell: text}}),
			"env":    store.SandboxSize(core.Sandbox{Env: map[string]string{text: ""}}),
			"labels": store.SandboxSize(core.Sandbox{Labels: map[string]string{"k": text}}),
			"config": store.TemplateSize(core.Template{Config: core.TemplateConfig{Env: map[string]string{"A": text}}}),
			"event":  store.EventSize(core.Event{Data: map[string]string{"reason": text}}),
		} {
			if size < len(encoded) {
				t.Errorf("%s as %s: counted %d of %d bytes", name, what, size, len(encoded))
			}
		}
	}
	if n := store.ExecSize(core.Exec{Spec: core.ExecSpec{Cmd: make([]string, 4096)}}); n < 4096*16 {
		t.Errorf("4096 empty arguments are %d bytes", n)
	}
}
