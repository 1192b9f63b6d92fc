package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestThisHost runs every check on the machine itself and looks that it left nothing behind.
func TestThisHost(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("SHOAL_REQUIRE_ROOT") == "1" {
			t.Fatal("needs root: it makes namespaces and packet rules")
		}
		t.Skip("needs root: it makes namespaces and packet rules")
	}
	trace := func() [3]string {
		var out [3]string
		out[0], _ = os.Readlink("/proc/self/ns/net")
		out[1], _ = os.Readlink("/proc/self/ns/mnt")
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		out[2] = string(mounts)
		return out
	}
	before := trace()
	dir := filepath.Join(t.TempDir(), "not", "there")
	checks := Run(t.Context(), Options{DataDir: dir, OwnerUID: 1_900_000_000})
	for _, c := range checks {
		t.Logf("%-4s %-15s %s | %s | %s", c.Status, c.Name, c.Found, c.Cost, c.Fix)
		if c.Status != OK && (c.Cost == "" || c.Fix == "") {
			t.Errorf("%+v doesn't say what it costs and how to mend it", c)
		}
		if (c.Name == "namespaces" || c.Name == "nftables") && c.Status == Fail {
			t.Errorf("%s fails where other tests use it: %s", c.Name, c.Found)
		}
	}
	if trace() != before {
		t.Error("a namespace or mount was left behind")
	}
	if _, err := os.Stat(filepath.Dir(dir)); !os.IsNotExist(err) {
		t.Errorf("the data directory was made: %v", err)
	}
	if nft, err := exec.LookPath("nft"); err == nil {
		out, err := exec.CommandContext(t.Context(), nft, "list", "tables").CombinedOutput()
		if err == nil && strings.Contains(string(out), "shoal-doctor") {
			t.Errorf("rules were left in the host's own namespace: %s", out)
		}
	}
}
