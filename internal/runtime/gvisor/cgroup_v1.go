package gvisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// cgroups1 is a host with one hierarchy per controller. A v2 hierarchy mounted beside them has no controllers and is left
// alone.
type cgroups1 struct {
	root string
	// path is the driver's group in each hierarchy.
	path string
	// controllers are those that the host has, of the ones used here. The first decides what runs in a group.
	controllers []string
	io          ioWeights
}

// openCgroups1 makes the driver's group in each hierarchy that it uses.
func openCgroups1(root, path string) (cgroupTree, error) {
	c := &cgroups1{root: root, path: path}
	for _, name := range []string{"memory", "cpu", "cpuacct"} {
		if _, err := os.Stat(filepath.Join(root, name, "cgroup.procs")); err != nil {
			continue
		}
		if err := os.MkdirAll(filepath.Join(root, name, path), 0o755); err != nil {
			return nil, fmt.Errorf("make %s cgroup: %w", name, err)
		}
		c.controllers = append(c.controllers, name)
	}
	if len(c.controllers) == 0 {
		return nil, fmt.Errorf("no control groups at %s: mount them, sandboxes can be neither limited nor found without", root)
	}
	return c, nil
}

func (c *cgroups1) dir(controller, name string) string {
	return filepath.Join(c.root, controller, c.path, name)
}

func (c *cgroups1) has(name string) bool {
	return slices.ContainsFunc(c.controllers, func(controller string) bool { return hasFile(c.dir(controller, name), "") })
}

func (c *cgroups1) uses(controller string) bool { return slices.Contains(c.controllers, controller) }

func (c *cgroups1) limitsCPU() bool {
	return c.uses("cpu") && hasFile(c.dir("cpu", ""), "cpu.cfs_quota_us")
}

func (c *cgroups1) limitsMemory() bool { return c.uses("memory") }

func (c *cgroups1) create(name string, memoryBytes int64) error {
	for _, controller := range c.controllers {
		// Hierarchies may be one and the same (cpu,cpuacct): then the second finds the first's folder.
		if err := os.MkdirAll(c.dir(controller, name), 0o755); err != nil {
			return errors.Join(fmt.Errorf("make %s cgroup: %w", controller, err), c.remove(name))
		}
	}
	if err := c.limitMemory(name, memoryBytes); err != nil {
		return errors.Join(err, c.remove(name))
	}
	return nil
}

func (c *cgroups1) limitMemory(name string, limit int64) error {
	if limit <= 0 || !c.limitsMemory() {
		return nil
	}
	dir, value := c.dir("memory", name), strconv.FormatInt(limit, 10)
	files := []string{"memory.limit_in_bytes"}
	// Where the kernel accounts swap, memory and swap together may not exceed the limit either: theirs is never below that of memory.
	if hasFile(dir, "memory.memsw.limit_in_bytes") {
		files = append(files, "memory.memsw.limit_in_bytes")
		if old, err := readNumber(dir, "memory.limit_in_bytes"); err == nil && limit > old {
			slices.Reverse(files)
		}
	}
	for _, file := range files {
		if err := writeControl(dir, file, value); err != nil {
			return err
		}
	}
	return nil
}

func (c *cgroups1) weighsCPU() bool { return c.uses("cpu") && hasFile(c.dir("cpu", ""), "cpu.shares") }

func (c *cgroups1) weighCPU(name string, weight int) error {
	if weight <= 0 || !c.weighsCPU() {
		return nil
	}
	return writeControl(c.dir("cpu", name), "cpu.shares", strconv.Itoa(max(2, weight*ordinaryShares/ordinaryWeight)))
}

func (c *cgroups1) limitCPU(name string, vcpus float64) error {
	if vcpus <= 0 || !c.limitsCPU() {
		return nil
	}
	quota := strconv.FormatInt(cpuQuota(vcpus), 10)
	return limitSlices(c.dir("cpu", name), "cpu.cfs_burst_us", []setting{
		{"cpu.cfs_period_us", strconv.Itoa(cpuPeriod)}, {"cpu.cfs_quota_us", quota}, {"cpu.cfs_burst_us", quota},
	})
}

// birthplace has none: there are several groups to be in.
func (c *cgroups1) birthplace(string) (*os.File, error) { return nil, nil } //nolint:nilnil // Nil is an answer here.

func (c *cgroups1) entries(name string) []string {
	var files []string
	for _, controller := range c.controllers {
		files = append(files, filepath.Join(c.dir(controller, name), "cgroup.procs"))
	}
	return files
}

func (c *cgroups1) processes(name string) ([]int, error) {
	// A process enters one hierarchy after the other: look at all, to miss none that was stopped half way.
	var all []int
	for _, controller := range c.controllers {
		pids, err := readPIDs(filepath.Join(c.dir(controller, name), "cgroup.procs"))
		if err != nil {
			return nil, err
		}
		all = append(all, pids...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func (c *cgroups1) killAll(name string) ([]int, error) {
	pids, err := c.processes(name)
	if err != nil {
		return nil, err
	}
	return pids, killPIDs(pids)
}

// hierarchies are those in which a group of ours can be: where traffic was weighed and is no more, of one that isn't used.
func (c *cgroups1) hierarchies() []string {
	if c.uses(ioController1) || !hasFile(filepath.Join(c.root, ioController1), "cgroup.procs") {
		return c.controllers
	}
	return append(slices.Clone(c.controllers), ioController1)
}

func (c *cgroups1) remove(name string) error {
	var errs []error
	for _, controller := range c.hierarchies() {
		errs = append(errs, removeGroup(c.dir(controller, name)))
	}
	return errors.Join(errs...)
}

func (c *cgroups1) uninstall() error {
	var errs []error
	for _, controller := range c.hierarchies() {
		errs = append(errs, uninstallGroup(filepath.Join(c.root, controller), c.path))
	}
	return errors.Join(errs...)
}

func (c *cgroups1) names() ([]string, error) {
	var all []string
	for _, controller := range c.hierarchies() {
		names, err := subGroups(c.dir(controller, ""))
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func (c *cgroups1) usage(name string) (cgroupUsage, error) {
	var u cgroupUsage
	if c.uses("memory") {
		dir := c.dir("memory", name)
		used, err := readNumber(dir, "memory.usage_in_bytes")
		if err != nil {
			return u, err
		}
		// Files that nobody has looked at lately are given back under pressure: they are not what a sandbox needs.
		u.memoryBytes = max(0, used-readKeyed(dir, "memory.stat", "total_inactive_file"))
		if u.limitBytes, err = readNumber(dir, "memory.limit_in_bytes"); err != nil {
			return u, err
		}
		if u.limitBytes >= 1<<62 {
			u.limitBytes = 0
		}
	}
	if c.uses("cpuacct") {
		nanos, err := readNumber(c.dir("cpuacct", name), "cpuacct.usage")
		if err != nil {
			return u, err
		}
		u.cpuSeconds = float64(nanos) / 1e9
	}
	return u, nil
}

// watchMemory has the kernel signal an event descriptor: for the group's own limit, any limit above it, and the group's end.
// The group's two files are needed at registration only.
func (c *cgroups1) watchMemory(name string) (*os.File, error) {
	if !c.uses("memory") {
		return nil, nil //nolint:nilnil // Nil is an answer here.
	}
	dir := c.dir("memory", name)
	control, err := os.Open(filepath.Join(dir, "memory.oom_control"))
	if err != nil {
		return nil, fmt.Errorf("watch memory: %w", err)
	}
	defer func() { _ = control.Close() }()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch memory: %w", err)
	}
	event := os.NewFile(uintptr(fd), "memory event")
	if err := writeControl(dir, "cgroup.event_control", fmt.Sprintf("%d %d", fd, control.Fd())); err != nil {
		return nil, errors.Join(err, event.Close())
	}
	return event, nil
}

// outOfMemory takes a group that has been at its limit for one that ran out by itself: the kernel doesn't tell.
func (c *cgroups1) outOfMemory(name string) shortage {
	if !c.uses("memory") {
		return noShortage
	}
	dir := c.dir("memory", name)
	if readKeyed(dir, "memory.oom_control", "oom_kill") == 0 {
		return noShortage
	}
	most, mostErr := readNumber(dir, "memory.max_usage_in_bytes")
	limit, limitErr := readNumber(dir, "memory.limit_in_bytes")
	// The kernel charges in batches of pages: what did not fit any more is less than a MiB.
	if mostErr == nil && limitErr == nil && most >= limit-1<<20 {
		return ownShortage
	}
	return hostShortage
}
