package gvisor

import (
	"os"
	"slices"

	"gvisor.dev/gvisor/runsc/cli/maincli"
)

// The names (argv[0]) under which our program is another one. gVisor gives the first two to what it starts.
const (
	nameSentry  = "runsc-sandbox"
	nameGofer   = "runsc-gofer"
	nameRunsc   = "runsc"
	nameCreator = "shoal-creator"
	// selfPath is the name that gVisor's short-lived unmount helper has.
	selfPath = "/proc/self/exe"
)

// IsFace reports whether a program started with these arguments is one of the driver's processes, not the program that a
// person or service manager started. A face is known by argv[0], and the helpers' also by their subcommand, since the
// kernel's "/proc/self/exe" is a name that others use too.
func IsFace(args []string) bool {
	if len(args) == 0 {
		return false
	}
	switch args[0] {
	case nameSentry:
		return slices.Contains(args, "boot")
	case nameGofer:
		return slices.Contains(args, "gofer")
	case selfPath:
		return len(args) > 1 && args[1] == "umount"
	case nameRunsc, nameCreator:
		return true
	}
	return false
}

// RunFace becomes the face that os.Args asks for and never returns, or returns at once if they ask for none. main must
// call it before anything else: a sentry must not parse flags, open files or start goroutines of ours.
//
// Under the name "runsc" the program is gVisor's own command line, for looking at a sandbox by hand:
//
//	exec -a runsc shoal --root DATA/runtime list
func RunFace() {
	if !IsFace(os.Args) {
		return
	}
	nameVersion()
	if os.Args[0] == nameCreator {
		os.Exit(creatorMain()) //nolint:forbidigo // RunFace is main for its faces.
	}
	if os.Args[0] == nameSentry {
		os.Args = applyBundleLimits(os.Args)
		registerFilters()
	}
	maincli.Main()
	os.Exit(128) //nolint:forbidigo // As above: gVisor has ended without saying so.
}
