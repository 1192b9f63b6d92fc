package doctor

import (
	"context"
	"fmt"
)

// Status is how good a finding is.
type Status string

// The statuses.
const (
	// OK needs nothing.
	OK Status = "ok"
	// Warn works, with the cost that is named.
	Warn Status = "warn"
	// Fail keeps sandboxes from running here.
	Fail Status = "fail"
)

// Check is one finding.
type Check struct {
	// Name is short and stable, such as "cgroups".
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Found is what is there.
	Found string `json:"found"`
	// Cost is what that costs you, and Fix how to mend it: a command where there is one. Both are empty when Status is ok.
	Cost string `json:"cost,omitempty"`
	Fix  string `json:"fix,omitempty"`
}

// Options say what the checks are about.
type Options struct {
	// DataDir is where the server keeps, or will keep, everything. It need not exist.
	DataDir string
	// OwnerUID is the first of the 65536 host ids that sandboxes are mapped to.
	OwnerUID int
}

// Run makes every check, in the order in which a person would mend them. It takes well under a second. A check that ctx
// cuts off fails and says so.
func Run(ctx context.Context, opts Options) []Check { return run(ctx, thisHost(), opts) }

func run(ctx context.Context, h host, opts Options) []Check {
	checks := []func(context.Context, host, Options) Check{
		checkPlatform, checkRoot, checkContainer, checkCgroups, checkWeights, checkNamespaces, checkOwners, checkNftables,
		checkSeccomp, checkPtrace, checkDataDir, checkBtrfs, checkMkfs, checkLoop, checkQuotas, checkMemory,
		checkClock, checkFiles, checkSysctls, checkHugePages, checkReaper, checkPackages,
	}
	out := make([]Check, 0, len(checks))
	for _, check := range checks {
		out = append(out, check(ctx, h, opts))
	}
	return out
}

// Worst returns the worst status of all.
func Worst(checks []Check) Status {
	worst := OK
	for _, c := range checks {
		if c.Status == Fail || (c.Status == Warn && worst == OK) {
			worst = c.Status
		}
	}
	return worst
}

// good returns a finding that needs nothing.
func good(name, format string, args ...any) Check {
	return Check{Name: name, Status: OK, Found: fmt.Sprintf(format, args...)}
}
