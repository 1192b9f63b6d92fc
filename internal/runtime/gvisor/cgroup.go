package gvisor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"shoal/internal/blockdev"
	"shoal/internal/core"
)

// DefaultCgroupRoot is where every distribution mounts control groups.
const DefaultCgroupRoot = "/sys/fs/cgroup"

// cgroupTree is the driver's own part of the host's control groups: one group per sandbox below a parent that no other
// driver shares. Names are sandbox ids. There is no limit of processes on purpose: a sentry that can't make a thread dies, and
// the whole sandbox with it; processes are limited inside.
type cgroupTree interface {
	groupLimits
	// has reports whether a sandbox has any group.
	has(name string) bool
	// create makes a sandbox's groups with a limit of memory, zero for none. On any error nothing is left.
	create(name string, memoryBytes int64) error
	// birthplace returns the group that a child can be born in, which the caller closes; nil where it can only be moved later.
	birthplace(name string) (*os.File, error)
	// entries are the files through which a process enters the sandbox's groups by its id being written to them.
	entries(name string) []string
	// processes are the ids of what runs in the groups; none if there is no such group.
	processes(name string) ([]int, error)
	// killAll kills what runs in the groups, in one step where the kernel can, and returns the ids it has seen.
	killAll(name string) ([]int, error)
	// remove deletes the groups, which must be empty of processes; EBUSY says that the kernel still holds some.
	remove(name string) error
	// names lists the sandboxes that have any group.
	names() ([]string, error)
	// uninstall removes the driver's own group, which must be empty, and the parent if nobody else uses it.
	uninstall() error
	usage(name string) (cgroupUsage, error)
	// outOfMemory reports whether the kernel has killed in the groups for want of memory, and whose it was.
	outOfMemory(name string) shortage
	// watchMemory returns an event descriptor that is readable when the groups, or any above them, have run out of memory; nil
	// where the kernel then kills all of the groups by itself, or counts no memory.
	watchMemory(name string) (*os.File, error)
}

// groupLimits are the limits of a tree's groups, as far as the host has what it takes.
type groupLimits interface {
	limitsCPU() bool
	limitsMemory() bool
	weighsCPU() bool
	// weighsIO says how the groups' traffic with the disk can be weighed; useDevices finds out, for trees that lie on these.
	weighsIO() ioWeights
	useDevices(devices []blockdev.Device) error
	// weighIO sets the groups' share of what the disk can do beside others; zero changes nothing.
	weighIO(name string, weight int) error
	// limitCPU limits the groups' processor time, zero for not at all. It comes after create and apart from it: what builds a
	// sandbox is our own work and should not be slowed down by the tenant's limit. Where the kernel can (Linux 5.14), what was
	// left of one period may be used in the next: a short command of a sandbox that has been idle is not cut into slices.
	limitCPU(name string, vcpus float64) error
	// limitMemory changes the limit of memory. It fails with EBUSY if more is in use, as far as the kernel can't take it back.
	limitMemory(name string, bytes int64) error
	// weighCPU sets the groups' share of processor time beside others, 100 for an ordinary one; zero changes nothing.
	weighCPU(name string, weight int) error
}

// shortage says whose memory was used up when the kernel killed.
type shortage int

// The shortages.
const (
	noShortage shortage = iota
	// ownShortage is that the sandbox has met its own limit.
	ownShortage
	// hostShortage is that a limit above it, or the host's memory, was met.
	hostShortage
)

// cgroupUsage is what the kernel counts.
type cgroupUsage struct {
	cpuSeconds  float64
	memoryBytes int64
	limitBytes  int64
}

// The hard limit lies above the tenant's, so that what watches inside can act first: a sandbox that hits it is killed
// whole. The fixed part is for sentry and gofer themselves, some 25 MiB, and for what processes take while the guest agent
// comes to kill them: 10 MiB for one process, over 100 MiB for several that fight for the processor.
const (
	hardHeadroomShare = 10
	hardHeadroomLeast = 128 << 20
)

// hardMemory turns a tenant's limit of memory into the kernel's; zero is no limit.
func hardMemory(tenant int64) int64 {
	if tenant <= 0 {
		return 0
	}
	return tenant + max(tenant/hardHeadroomShare, hardHeadroomLeast)
}

// cpuPeriod is the length in microseconds of the slices in which processor time is dealt out.
const cpuPeriod = 100_000

// cpuQuota is the processor time per period, at least the kernel's minimum of one millisecond.
func cpuQuota(vcpus float64) int64 { return max(1000, int64(vcpus*cpuPeriod)) }

// ordinaryWeight is the weight of an ordinary group in version 2 and in core.Resources, ordinaryShares the same in version 1.
const (
	ordinaryWeight = 100
	ordinaryShares = 1024
)

// treeName names this state directory's group, so that servers beside each other don't see each other's sandboxes.
func treeName(stateDir string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(stateDir)))
	return hex.EncodeToString(sum[:8])
}

// openCgroups finds out which version of control groups the host has and makes the driver's parent group.
func openCgroups(root, parent, name string) (cgroupTree, error) {
	parent = strings.Trim(filepath.Clean("/"+parent), "/")
	if parent == "" {
		return nil, fmt.Errorf("the parent cgroup may not be the root")
	}
	path := filepath.Join(parent, name)
	open := openCgroups1
	if hasFile(root, "cgroup.controllers") {
		open = openCgroups2
	}
	tree, err := open(root, path)
	if errors.Is(err, fs.ErrNotExist) {
		// Another server's uninstall has just removed the parent that both have used.
		return open(root, path)
	}
	return tree, err
}

// readPIDs reads a cgroup.procs file.
func readPIDs(path string) ([]int, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read processes: %w", err)
	}
	var pids []int
	for _, f := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, fmt.Errorf("read processes: %w", err)
		}
		// A process of another pid namespace shows as 0, which would be ourselves.
		if pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// killPIDs kills each process.
func killPIDs(pids []int) error {
	var errs []error
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("kill process %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}

// hasFile reports whether a group has a control file: kernels differ.
func hasFile(dir, file string) bool {
	_, err := os.Stat(filepath.Join(dir, file))
	return err == nil
}

// writeControl writes one control file.
func writeControl(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set %s: %w", file, err)
	}
	_, err = f.WriteString(value)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("set %s to %s: %w", file, value, err)
	}
	return nil
}

// setting is a control file and what to write to it.
type setting struct{ file, value string }

// limitSlices writes a limit of processor time, whose last control is the burst, if the kernel has one. That may never be above
// the quota, which may become less: so it goes first.
func limitSlices(dir, burst string, controls []setting) error {
	if hasFile(dir, burst) {
		controls = append([]setting{{burst, "0"}}, controls...)
	} else {
		controls = controls[:len(controls)-1]
	}
	for _, c := range controls {
		if err := writeControl(dir, c.file, c.value); err != nil {
			return err
		}
	}
	return nil
}

// readNumber reads a control file that holds one number; "max" is 0, no limit.
func readNumber(dir, file string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	value := strings.TrimSpace(string(text))
	if value == "max" {
		return 0, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", file, err)
	}
	return n, nil
}

// readKeyed reads one figure of a control file of "key value" lines; 0 if it is not there.
func readKeyed(dir, file, key string) int64 {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), " ")
		if k == key {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// subGroups lists the folders in a group that have a sandbox's name.
func subGroups(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list cgroups: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && core.IsID(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// uninstallGroup removes a driver's group and its parents up to root, as far as they are empty.
func uninstallGroup(root, path string) error {
	if err := removeGroup(filepath.Join(root, path)); err != nil {
		return err
	}
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		err := unix.Rmdir(filepath.Join(root, dir))
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOENT) {
			break // Another driver's, or somebody else's altogether.
		}
		if err != nil {
			return fmt.Errorf("remove parent cgroup: %w", err)
		}
	}
	return nil
}

// removeGroup deletes one group with those below it. Only ours and what a runtime made in it can be there.
func removeGroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list cgroup: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeGroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	return nil
}
