package gvisor

import (
	"fmt"
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/runsc/version"
)

// ModuleVersion is the version of gvisor.dev/gvisor that this driver was written and judged against. A test holds it
// against the build.
const ModuleVersion = "v0.0.0-20260905035102-160fafc42237"

// PatchLevel counts our changes to gVisor and to the flags and spec that we give it, as far as a memory image depends on
// them. The precompiled filters don't count: they are the same filters.
const PatchLevel = "shoal.1"

// Version is what our gVisor calls itself. It goes into every memory image, and a restore by any other is refused.
const Version = ModuleVersion + "+" + PatchLevel

// libraryVersion is gVisor's own variable. Its build system sets it with a linker flag, and as a library it would be the
// same "VERSION_MISSING" in every build, so that the check at restore would always pass. Setting it here works in any
// build, so that nobody can forget the flag.
//
//go:linkname libraryVersion gvisor.dev/gvisor/runsc/version.version
var libraryVersion string

// nameVersion gives the library our version, unless the linker gave it one.
func nameVersion() {
	if libraryVersion == "VERSION_MISSING" {
		libraryVersion = Version
	}
}

// checkVersion fails unless memory images will carry our version.
func checkVersion() error {
	nameVersion()
	if got := version.Version(); got != Version {
		return fmt.Errorf("gVisor calls itself %q, not %q: build without a -X flag for it, or with that very value", got, Version)
	}
	return nil
}
