package doctor

import (
	"context"
	"path/filepath"
	"slices"

	"shoal/internal/blockdev"
)

// checkWeights tells whether sandboxes can be weighed against each other: for processor time, and at the disk. For the disk it
// looks at the pool, if that is mounted, and else at the devices below the data directory.
func checkWeights(_ context.Context, h host, opts Options) Check {
	const name = "weights"
	version, controllers := h.cgroups()
	if !slices.Contains(controllers, "cpu") {
		return Check{
			name, Warn, "cpu_weight does not work here, and io_weight is not looked at: there are no control groups for processor time",
			"requests with a weight are refused", "see cgroups",
		}
	}
	const cost = "sandboxes have the same share of the disk whatever is asked for, and requests with io_weight are refused"
	devices, err := blockdev.Under(h.root, filepath.Join(opts.DataDir, "pool/mnt"))
	if err != nil || len(devices) == 0 {
		return Check{
			name, Warn, "cpu_weight works; io_weight does not: " + opts.DataDir + " lies on no block device", cost,
			"put the data directory on a local disk, if weights at the disk are wanted",
		}
	}
	if file := h.ioWeights(version, controllers, devices); file != "" {
		return good(name, "cpu_weight works, and io_weight by %s at %s", file, blockdev.Names(devices))
	}
	last := devices[len(devices)-1]
	fix := "if weights at the disk are wanted: echo bfq >/sys/block/" + last.Name + "/queue/scheduler (a udev rule keeps it over a reboot)"
	if version == "cgroup v2" {
		fix += ", or echo '" + last.Number + " enable=1' >/sys/fs/cgroup/io.cost.qos"
	}
	return Check{
		name, Warn, "cpu_weight works; io_weight does not, with " + version + " and " + blockdev.Names(devices), cost, fix + "; then start the server again",
	}
}

// ioWeights returns what weighs sandboxes at the disk; empty if nothing does.
func (h host) ioWeights(version string, controllers []string, devices []blockdev.Device) string {
	bfq := slices.ContainsFunc(devices, func(d blockdev.Device) bool { return d.Scheduler == "bfq" })
	if version == "cgroup v1" {
		if bfq && slices.Contains(controllers, "blkio") {
			return "the scheduler BFQ"
		}
		return ""
	}
	if !slices.Contains(controllers, "io") {
		return ""
	}
	qos, _ := h.read("sys/fs/cgroup/io.cost.qos")
	if slices.ContainsFunc(devices, func(d blockdev.Device) bool { return d.CostModel(qos) }) {
		return "the cost model"
	}
	if bfq {
		return "the scheduler BFQ"
	}
	return ""
}
