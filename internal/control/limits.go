package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"shoal/internal/config"
	"shoal/internal/core"
)

// Limits are the defaults and ceilings of what a caller may ask for.
type Limits struct {
	// DefaultTTL is the ttl of an ephemeral sandbox whose caller names neither a ttl nor an idle rule, MaxTTL the greatest ttl that it
	// may ask for.
	DefaultTTL, MaxTTL time.Duration
	// Default holds the resources of a caller who names none; Max their ceilings. A zero Max.DiskBytes means no ceiling.
	Default, Max core.Resources
	// DefaultTemplate is the template of a caller who names none.
	DefaultTemplate string
	// DiskQuota says that the node enforces DiskBytes; DiskQuotaReason says why not.
	DiskQuota       bool
	DiskQuotaReason string
	// Quota is what a tenant may have whose own quota says nothing of it.
	Quota core.Quota
	// CPUWeight says that the node can weigh sandboxes against each other.
	CPUWeight bool
	// IOWeightReason says why the node can't weigh their traffic with the disk; empty where it can, up to Max.IOWeight.
	IOWeightReason string
}

// The bounds of what a caller may attach to a sandbox, so that a record stays small.
const (
	maxLabels       = 64
	maxLabelBytes   = 256
	maxLabelValue   = 4 << 10
	maxLabelsBytes  = 32 << 10
	maxEnv          = 256
	maxEnvBytes     = 128 << 10
	minMemoryBytes  = 64 << 20
	minVCPUs        = 0.1
	minDiskBytes    = 16 << 20
	maxDiskBytes    = 1 << 50
	minPids         = 16
	minOpenFiles    = 1024
	maxEnvNameBytes = 256
)

// Limits tells the defaults and ceilings of what a caller may ask for, as they were for its tenant when it was let in.
func (s *Service) Limits(p Principal) Limits { return s.limits.within(p.Quota) }

// apply fills in the defaults and checks every bound. ttl is zero for a sandbox that has none.
func (l Limits) apply(spec core.SandboxSpec, now time.Time) (_ core.SandboxSpec, ttl time.Duration, err error) {
	if spec.Name != "" {
		if err := core.CheckName("name", spec.Name); err != nil {
			return spec, 0, err
		}
	}
	if spec.Template == "" && spec.From == "" {
		spec.Template = l.DefaultTemplate
	}
	if spec, ttl, err = l.lifecycle(spec, now); err != nil {
		return spec, 0, err
	}
	if spec.Resources, err = l.resources(spec.Resources); err != nil {
		return spec, 0, err
	}
	if err := checkEnv("env", spec.Env); err != nil {
		return spec, 0, err
	}
	return spec, ttl, checkLabels(spec.Labels)
}

func (l Limits) resources(r core.Resources) (core.Resources, error) {
	if r.VCPUs == 0 {
		r.VCPUs = l.Default.VCPUs
	}
	if r.MemoryBytes == 0 {
		r.MemoryBytes = l.Default.MemoryBytes
	}
	if r.DiskBytes == 0 && l.DiskQuota {
		r.DiskBytes = l.Default.DiskBytes
	}
	if r.Pids == 0 {
		r.Pids = cmp.Or(l.Default.Pids, pidsFor(r.MemoryBytes, l.Max.Pids))
	}
	r.OpenFiles = cmp.Or(r.OpenFiles, l.Default.OpenFiles)
	if r.CPUWeight == 0 && l.CPUWeight {
		r.CPUWeight = l.Default.CPUWeight
	}
	if r.IOWeight == 0 && l.IOWeightReason == "" {
		r.IOWeight = l.Default.IOWeight
	}
	return r, l.check(r)
}

// pidsFor is how many processes a sandbox with so much memory may have, of a caller who named no number: each costs the sandbox's
// kernel about one MiB beside what it uses itself.
func pidsFor(memory int64, most int) int {
	const each, least, usual = 3 << 19, 64, 1024
	return min(int(min(max(memory/each, least), usual)), most)
}

// check holds limits to their bounds.
func (l Limits) check(r core.Resources) error {
	switch {
	case !(r.VCPUs >= minVCPUs && r.VCPUs <= l.Max.VCPUs): // also refuses NaN
		return core.Invalid("vcpus", "a sandbox has %g to %g vcpus here", minVCPUs, l.Max.VCPUs)
	case r.MemoryBytes < minMemoryBytes || r.MemoryBytes > l.Max.MemoryBytes:
		return core.Invalid("memory_bytes", "a sandbox has %s to %s of memory here", size(minMemoryBytes), size(l.Max.MemoryBytes))
	case r.DiskBytes != 0 && !l.DiskQuota:
		return unsupported("disk_bytes", "disk limits can't be enforced on this node: "+l.DiskQuotaReason)
	case r.DiskBytes != 0 && r.DiskBytes < minDiskBytes:
		return core.Invalid("disk_bytes", "a disk limit is at least %s", size(minDiskBytes))
	case r.DiskBytes > maxDiskBytes:
		return core.Invalid("disk_bytes", "a disk limit is at most %s", size(maxDiskBytes))
	case l.Max.DiskBytes != 0 && r.DiskBytes > l.Max.DiskBytes:
		return core.Invalid("disk_bytes", "a sandbox has at most %s of disk here", size(l.Max.DiskBytes))
	case r.Pids < minPids || r.Pids > l.Max.Pids:
		return core.Invalid("pids", "a sandbox has %d to %d processes and threads here", minPids, l.Max.Pids)
	case r.OpenFiles < minOpenFiles || r.OpenFiles > l.Max.OpenFiles:
		return core.Invalid("open_files", "a process has %d to %d open files here", minOpenFiles, l.Max.OpenFiles)
	case r.CPUWeight != 0 && !l.CPUWeight:
		return unsupported("cpu_weight", "this node has no control groups for processor time: it can't weigh sandboxes")
	case r.CPUWeight < 0 || r.CPUWeight > l.Max.CPUWeight:
		return core.Invalid("cpu_weight", "a weight is 1 to %d here", l.Max.CPUWeight)
	case r.IOWeight != 0 && l.IOWeightReason != "":
		return unsupported("io_weight", "traffic with the disk can't be weighed on this node: "+l.IOWeightReason)
	case r.IOWeight < 0 || r.IOWeight > l.Max.IOWeight:
		return core.Invalid("io_weight", "a weight is 1 to %d here", l.Max.IOWeight)
	}
	return nil
}

func unsupported(field, message string) error {
	return &core.Error{Code: core.CodeUnsupported, Field: field, Message: message}
}

// checkEnv checks an environment: names without = and NUL, values without NUL, bounded in number and size.
func checkEnv(field string, env map[string]string) error {
	if len(env) > maxEnv {
		return core.Invalid(field, "at most %d variables", maxEnv)
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(env)) {
		total += len(name) + len(env[name])
		if name == "" || len(name) > maxEnvNameBytes || strings.ContainsAny(name, "=\x00") {
			return core.Invalid(field, "%q can't be the name of a variable", clip(name))
		}
		if strings.ContainsRune(env[name], 0) {
			return core.Invalid(field, "the value of %s contains a NUL", name)
		}
	}
	if total > maxEnvBytes {
		return core.Invalid(field, "all variables together have at most %d bytes", maxEnvBytes)
	}
	return nil
}

func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return core.Invalid("labels", "at most %d labels", maxLabels)
	}
	total := 0
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		total += len(k) + len(labels[k])
		if k == "" || len(k) > maxLabelBytes || len(labels[k]) > maxLabelValue || strings.ContainsAny(k, "=,") {
			return core.Invalid("labels", "%q: a label has a key of 1 to %d bytes without = and comma, and a value of at most %d bytes",
				clip(k), maxLabelBytes, maxLabelValue)
		}
	}
	if total > maxLabelsBytes {
		return core.Invalid("labels", "all labels together have at most %d bytes", maxLabelsBytes)
	}
	return nil
}

// size writes a number of bytes as a person would.
func size(n int64) string { return config.Size(n).String() }

// clip shortens what a caller sent for use in a message.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:most], len(s))
}
