package guest

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "A-1.b": true, "box": true, strings.Repeat("x", 64): true,
		"": false, "-a": false, "a-": false, ".": false, "a b": false, "a\x00b": false, "ä": false, "a_b": false, strings.Repeat("x", 65): false,
	} {
		if isHostname(name) != want {
			t.Errorf("host name %q: %v", name, !want)
		}
	}
	for id, want := range map[string]bool{
		"a": true, "0-9": true, "-": true, strings.Repeat("x", 64): true,
		"": false, "A": false, "a/b": false, "a\n": false, "..": false, strings.Repeat("x", 65): false,
	} {
		if isExecID(id) != want {
			t.Errorf("exec id %q: %v", id, !want)
		}
	}
}
