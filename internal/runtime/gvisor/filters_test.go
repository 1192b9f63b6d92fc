package gvisor

import (
	goruntime "runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gvisor.dev/gvisor/pkg/seccomp"
	"gvisor.dev/gvisor/pkg/sentry/platform"
	"gvisor.dev/gvisor/runsc/boot/filter"
	"gvisor.dev/gvisor/runsc/boot/filter/config"
)

// TestFiltersAreTheLibrarysOwn compiles the filter as a sentry would without our table, and compares it word by word with what
// the sentry gets from the table.
func TestFiltersAreTheLibrarysOwn(t *testing.T) {
	if goruntime.GOARCH != "amd64" {
		t.Skip("filters are compiled ahead on amd64 only")
	}
	systrap, err := platform.Lookup("systrap")
	if err != nil {
		t.Fatal(err)
	}
	opt := config.Options{Platform: systrap.PrecompiledSeccompInfo()[0], HostFilesystem: true, ControllerFD: 17}
	registerFilters()
	ahead, ok := filter.GetPrecompiled(opt.ConfigKey())
	if !ok {
		t.Fatalf("no filter for %s: run the precompile command", opt.ConfigKey())
	}
	got, err := ahead.RenderInstructions(opt.Vars())
	if err != nil {
		t.Fatalf("render: %v", err)
	}
	rules, deny := config.Rules(opt)
	program := &seccomp.Program{
		RuleSets: []seccomp.RuleSet{{Rules: deny}, {Rules: rules, Action: seccomp.Allow}},
		Options:  config.SeccompOptions(opt),
	}
	want, _, err := program.Build()
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table is not the library's filter: run the precompile command:\n%.2000s", diff)
	}
}
