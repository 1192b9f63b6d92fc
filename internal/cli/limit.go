package cli

import (
	"errors"
	"math"
	"strconv"

	"github.com/spf13/pflag"

	shoal "shoal/sdk/go"
)

// count is a flag that is a whole number above zero.
type count int64

// String returns the value as it is typed.
func (n *count) String() string {
	if *n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*n), 10)
}

// Type names the value in the help.
func (n *count) Type() string { return "number" }

// Set reads a number.
func (n *count) Set(s string) error {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < 1 || v > math.MaxInt32 {
		return errors.New("a whole number above 0 is needed")
	}
	*n = count(v)
	return nil
}

// value is what the API takes; nil if the flag wasn't given.
func (n *count) value() *int64 {
	if *n == 0 {
		return nil
	}
	return new(int64(*n))
}

// limitFlags are the limits that are counts.
type limitFlags struct{ pids, openFiles, cpuWeight, ioWeight count }

func (l *limitFlags) add(f *pflag.FlagSet) {
	f.Var(&l.pids, "pids", "limit of processes and threads together (default: the server's, by its memory unless configured)")
	f.Var(&l.openFiles, "open-files", "limit of open files of each process; root inside can raise it (default: the server's)")
	f.Var(&l.cpuWeight, "cpu-weight", "its share of processor time when sandboxes together want more than there is (default: the server's, 100 unless configured)")
	f.Var(&l.ioWeight, "io-weight", "its share of the disk's bandwidth when sandboxes together want more than there is (default: the server's, 100 unless configured)")
}

// resizeFlags say which limits of a sandbox that runs are changed.
type resizeFlags struct {
	vcpus  float64
	memory byteSize
	disk   diskLimit
	limits limitFlags
}

func (r *resizeFlags) add(f *pflag.FlagSet) {
	f.Float64Var(&r.vcpus, "vcpus", 0, "limit of processor time in `VCPUS` from now on, such as 0.5 or 2")
	f.Var(&r.memory, "memory", "limit of memory from now on, such as 512M or 4G; not below what it uses")
	f.Var(&r.disk, "disk", "limit of what it writes to its disk from now on, such as 4G; not below what it keeps")
	f.Var(&r.limits.pids, "pids", "limit of processes and threads together from now on")
	f.Var(&r.limits.openFiles, "open-files", "limit of open files of each process that is started from now on")
	f.Var(&r.limits.cpuWeight, "cpu-weight", "its share of processor time from now on, when sandboxes together want more than there is")
	f.Var(&r.limits.ioWeight, "io-weight", "its share of the disk's bandwidth from now on, when sandboxes together want more than there is")
}

// update adds the limits to a request.
func (r *resizeFlags) update(f *pflag.FlagSet, req *shoal.UpdateSandboxRequest) error {
	if f.Changed("vcpus") {
		if !(r.vcpus > 0) { // also refuses NaN
			return errors.New("--vcpus must be above 0")
		}
		req.VCPUs = &r.vcpus
	}
	req.MemoryBytes, req.DiskBytes = r.memory.bytes(), r.disk.bytes()
	req.Pids, req.OpenFiles = r.limits.pids.value(), r.limits.openFiles.value()
	req.CPUWeight, req.IOWeight = r.limits.cpuWeight.value(), r.limits.ioWeight.value()
	return nil
}
