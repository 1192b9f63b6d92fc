package gvisor

import (
	"testing"

	"shoal/internal/core"
)

// TestClaimDuringKill has a Kill that found nothing be under way while the sandbox is created: it is canceled, as the contract
// says, and not taken for one that exists.
func TestClaimDuringKill(t *testing.T) {
	d := &Driver{cfg: Config{StateDir: t.TempDir()}, cgroups: &cgroups2{root: t.TempDir(), path: "shoal/test"}, boxes: map[core.SandboxID]*box{}}
	id := core.SandboxID(core.NewID())
	b, err := d.boxForKill(id)
	if err != nil {
		t.Fatal(err)
	}
	b.kill()
	if _, err := d.claim(record{ID: id}); core.CodeOf(err) != core.CodeCanceled {
		t.Errorf("claim during a kill: %v", err)
	}
	d.forget(b)
	if _, err := d.claim(record{ID: id}); err != nil {
		t.Errorf("claim after a kill: %v", err)
	}
	if _, err := d.claim(record{ID: id}); core.CodeOf(err) != core.CodeExists {
		t.Errorf("second claim: %v", err)
	}
}
