package gvisor

import (
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	"gvisor.dev/gvisor/runsc/boot/filter"
)

// precompiledPrograms is where gVisor looks for filters compiled ahead. Its own build fills it with generated code that the
// Go module does not carry.
//
//go:linkname precompiledPrograms gvisor.dev/gvisor/runsc/boot/filter.precompiledPrograms
var precompiledPrograms map[string]precompiledseccomp.Program

// registerFilters gives the sentry its filters compiled ahead. They are the very same filters: a test compiles them again
// and compares. A filter whose key no longer fits is not found, and gVisor compiles it as it would have.
func registerFilters() {
	// The library fills its table once, with nothing. Let it do so first.
	_ = filter.ListPrecompiled()
	for _, p := range compiledFilters() {
		precompiledPrograms[p.Name] = p
	}
}
