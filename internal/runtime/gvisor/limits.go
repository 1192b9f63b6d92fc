package gvisor

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"shoal/internal/core"
)

// bundlePattern is the name of a bundle directory: it carries what a guest should see of its limits.
//
// gVisor takes these figures from a cgroup that it made itself. Ours is made by us, and the spec must be the same for all
// sandboxes, so they travel in the one argument that is free: the bundle's path. The sentry's face puts them where gVisor
// would have.
var bundlePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^bundle-m([0-9]+)-c([0-9]+)$`) })

// leastCPUs is how many processors a guest sees at least, whatever its share of time is, as in gVisor's own rule: the sentry
// has as many threads for Go code, and with one of them the end of one process holds up the start of the next (measured: a
// process right after another takes 35 ms with one, 16 with two).
const leastCPUs = 2

// bundleName returns the bundle directory's name for a sandbox's limits. The guest sees whole processors.
func bundleName(r core.Resources) string {
	cpus := max(leastCPUs, int(math.Ceil(r.VCPUs)))
	return fmt.Sprintf("bundle-m%d-c%d", max(0, r.MemoryBytes), cpus)
}

// applyBundleLimits rewrites a sentry's arguments: memory and number of processors as in the bundle's name. What gVisor calls
// the host's memory decides how much a tmpfs may hold: half of it.
// Arguments without such a bundle are returned as they are.
func applyBundleLimits(args []string) []string {
	boot := slices.Index(args, "boot")
	if boot < 0 {
		return args
	}
	var memory string
	var cpus int
	for _, a := range args[boot:] {
		bundle, ok := strings.CutPrefix(a, "--bundle=")
		if !ok {
			continue
		}
		if m := bundlePattern().FindStringSubmatch(filepath.Base(bundle)); m != nil {
			memory = m[1]
			cpus, _ = strconv.Atoi(m[2])
		}
	}
	if memory == "" {
		return args
	}
	out := slices.Clone(args)
	for _, flag := range []string{"--total-memory", "--total-host-memory"} {
		i := slices.Index(out, flag) + 1
		if i == 0 || i == len(out) || memory == "0" {
			continue
		}
		host, err := strconv.ParseUint(out[i], 10, 64)
		if own, ownErr := strconv.ParseUint(memory, 10, 64); err == nil && ownErr == nil && own < host {
			out[i] = memory
		}
	}
	if cpus > 0 && !slices.ContainsFunc(out, isCPUNum) {
		out = slices.Insert(out, boot+1, "--cpu-num="+strconv.Itoa(min(cpus, hostCPUs())))
	}
	return out
}

// isCPUNum reports whether an argument already sets the number of processors.
func isCPUNum(a string) bool {
	return a == "--cpu-num" || strings.HasPrefix(a, "--cpu-num=") || strings.HasPrefix(a, "-cpu-num")
}
