package gvisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroups2 is a host with the unified hierarchy.
type cgroups2 struct {
	root string
	// path is the driver's group.
	path string
	// controllers are those of ours that could be enabled for the groups below path.
	controllers []string
	io          ioWeights
}

// openCgroups2 makes the driver's group and enables the controllers down to it.
//
// The default parent is a group of our own at the top, beside the service manager's slices: its units can be stopped
// without touching it. A host where only a delegated subtree may be written needs CgroupParent.
func openCgroups2(root, path string) (cgroupTree, error) {
	dir := filepath.Join(root, path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	c := &cgroups2{root: root, path: path}
	for _, controller := range []string{"memory", "cpu"} {
		ok, err := enableController(root, path, controller)
		if err != nil {
			return nil, err
		}
		if ok {
			c.controllers = append(c.controllers, controller)
		}
	}
	return c, nil
}

// enableController makes a controller available to the groups below path. It reports false if the host does not have it,
// or does not give it to us.
func enableController(root, path, controller string) (bool, error) {
	dir := root
	for _, element := range append([]string{""}, strings.Split(path, "/")...) {
		dir = filepath.Join(dir, element)
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err != nil {
			return false, fmt.Errorf("read controllers: %w", err)
		}
		if !slices.Contains(strings.Fields(string(text)), controller) {
			return false, nil
		}
		text, err = os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		if err != nil {
			return false, fmt.Errorf("read enabled controllers: %w", err)
		}
		if slices.Contains(strings.Fields(string(text)), controller) {
			continue
		}
		err = writeControl(dir, "cgroup.subtree_control", "+"+controller)
		if errors.Is(err, fs.ErrPermission) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("enable controller in %s: %w", dir, err)
		}
	}
	return true, nil
}

func (c *cgroups2) dir(name string) string { return filepath.Join(c.root, c.path, name) }

func (c *cgroups2) has(name string) bool { return hasFile(c.dir(name), "") }

func (c *cgroups2) limitsCPU() bool { return slices.Contains(c.controllers, "cpu") }

func (c *cgroups2) limitsMemory() bool { return slices.Contains(c.controllers, "memory") }

func (c *cgroups2) create(name string, memoryBytes int64) error {
	if err := os.MkdirAll(c.dir(name), 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	if err := c.limitMemory(name, memoryBytes); err != nil {
		return errors.Join(err, c.remove(name))
	}
	return nil
}

func (c *cgroups2) limitMemory(name string, limit int64) error {
	if limit <= 0 || !c.limitsMemory() {
		return nil
	}
	dir := c.dir(name)
	// Set below what is in use, memory.max would not be refused: the kernel would kill.
	if used, err := readNumber(dir, "memory.current"); err == nil && used-readKeyed(dir, "memory.stat", "file") > limit {
		return fmt.Errorf("set memory.max to %d, with %d in use: %w", limit, used, unix.EBUSY)
	}
	if err := writeControl(dir, "memory.max", strconv.FormatInt(limit, 10)); err != nil {
		return err
	}
	for _, extra := range []struct{ file, value string }{
		// Swap would let a sandbox use more than its memory, slowly. A kernel without swap accounting has no such file.
		{"memory.swap.max", "0"},
		// Half a sandbox is of no use: sentry, gofer and stubs die together.
		{"memory.oom.group", "1"},
	} {
		if !hasFile(dir, extra.file) {
			continue
		}
		if err := writeControl(dir, extra.file, extra.value); err != nil {
			return err
		}
	}
	return nil
}

func (c *cgroups2) limitCPU(name string, vcpus float64) error {
	if vcpus <= 0 || !c.limitsCPU() {
		return nil
	}
	quota := strconv.FormatInt(cpuQuota(vcpus), 10)
	return limitSlices(c.dir(name), "cpu.max.burst", []setting{
		{"cpu.max", fmt.Sprintf("%s %d", quota, cpuPeriod)}, {"cpu.max.burst", quota},
	})
}

func (c *cgroups2) weighsCPU() bool { return c.limitsCPU() }

func (c *cgroups2) weighCPU(name string, weight int) error {
	if weight <= 0 || !c.weighsCPU() {
		return nil
	}
	return writeControl(c.dir(name), "cpu.weight", strconv.Itoa(min(weight, 10_000)))
}

func (c *cgroups2) birthplace(name string) (*os.File, error) {
	dir, err := os.Open(c.dir(name))
	if err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	return dir, nil
}

func (c *cgroups2) entries(name string) []string {
	return []string{filepath.Join(c.dir(name), "cgroup.procs")}
}

func (c *cgroups2) processes(name string) ([]int, error) {
	return readPIDs(filepath.Join(c.dir(name), "cgroup.procs"))
}

func (c *cgroups2) killAll(name string) ([]int, error) {
	pids, err := c.processes(name)
	if err != nil {
		return nil, err
	}
	// One write kills all, also what is being forked just now (Linux 5.14).
	if err := writeControl(c.dir(name), "cgroup.kill", "1"); err == nil {
		return pids, nil
	}
	return pids, killPIDs(pids)
}

func (c *cgroups2) remove(name string) error { return removeGroup(c.dir(name)) }

func (c *cgroups2) uninstall() error { return uninstallGroup(c.root, c.path) }

func (c *cgroups2) names() ([]string, error) { return subGroups(c.dir("")) }

func (c *cgroups2) usage(name string) (cgroupUsage, error) {
	dir := c.dir(name)
	if _, err := os.Stat(dir); err != nil {
		return cgroupUsage{}, fmt.Errorf("read cgroup: %w", err)
	}
	u := cgroupUsage{cpuSeconds: float64(readKeyed(dir, "cpu.stat", "usage_usec")) / 1e6}
	if c.limitsMemory() {
		used, err := readNumber(dir, "memory.current")
		if err != nil {
			return u, err
		}
		u.memoryBytes = max(0, used-readKeyed(dir, "memory.stat", "inactive_file"))
		if u.limitBytes, err = readNumber(dir, "memory.max"); err != nil {
			return u, err
		}
	}
	return u, nil
}

// watchMemory has nothing to watch: see memory.oom.group.
func (c *cgroups2) watchMemory(string) (*os.File, error) { return nil, nil } //nolint:nilnil // Nil is an answer here.

func (c *cgroups2) outOfMemory(name string) shortage {
	dir := c.dir(name)
	switch {
	case readKeyed(dir, "memory.events", "oom_kill") == 0:
		return noShortage
	case readKeyed(dir, "memory.events", "oom") > 0: // counts where the limit that was met is
		return ownShortage
	}
	return hostShortage
}
