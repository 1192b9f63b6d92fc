package core_test

import (
	"strings"
	"testing"

	"shoal/internal/core"
)

// TestRegistryHost: one registry has one name, and what is none is refused.
func TestRegistryHost(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ghcr.io": "ghcr.io", "GHCR.io": "ghcr.io", "localhost": "localhost", "localhost:5000": "localhost:5000", "registry:5000": "registry:5000",
		"127.0.0.1:5000": "127.0.0.1:5000", "[::1]:5000": "[::1]:5000", "[2001:db8::1]": "[2001:db8::1]", "docker.io": "docker.io",
		"index.docker.io": "docker.io", "registry-1.docker.io": "docker.io", "a.b-c.example": "a.b-c.example",
	} {
		if got, err := core.RegistryHost(text); got != want || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "alpine", "https://ghcr.io", "ghcr.io/owner", "ghcr.io:", "ghcr.io:0", "ghcr.io:65536", "ghcr.io:080", "ghcr.io:x", "user@ghcr.io",
		"ghcr..io", ".io", "-a.io", "[::1%eth0]:5", "[1.2.3.4]:5", "::1", "a b.io", "gh\x00cr.io", strings.Repeat("a.", 130) + "io", "ghcr.io:5:6",
	} {
		if got, err := core.RegistryHost(text); !core.IsCode(err, core.CodeInvalid) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
