package gvisor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"shoal/internal/blockdev"
)

// movedCgroups are the driver's groups below its parent and below those that it had before: a sandbox stays in the groups that
// it was made in. The first tree is the one for new sandboxes.
type movedCgroups struct{ trees []cgroupTree }

// openAllCgroups opens the driver's groups below parent, and below each of the former parents that has any.
func openAllCgroups(root, parent string, former []string, name string) (cgroupTree, error) {
	tree, err := openCgroups(root, parent, name)
	if err != nil {
		return nil, err
	}
	m := movedCgroups{trees: []cgroupTree{tree}}
	for _, f := range former {
		if f == parent || !hasGroups(root, f, name) {
			continue
		}
		tree, err := openCgroups(root, f, name)
		if err != nil {
			return nil, err
		}
		m.trees = append(m.trees, tree)
	}
	if len(m.trees) == 1 {
		return tree, nil
	}
	return m, nil
}

// hasGroups reports whether a driver's group is below a parent, in any hierarchy.
func hasGroups(root, parent, name string) bool {
	if hasFile(filepath.Join(root, parent), name) {
		return true
	}
	hierarchies, err := os.ReadDir(root)
	return err == nil && slices.ContainsFunc(hierarchies, func(h os.DirEntry) bool {
		return hasFile(filepath.Join(root, h.Name(), parent), name)
	})
}

// of returns the tree that a sandbox's groups are in, the first if they are in none.
func (m movedCgroups) of(name string) cgroupTree {
	for _, t := range m.trees {
		if t.has(name) {
			return t
		}
	}
	return m.trees[0]
}

func (m movedCgroups) has(name string) bool { return m.of(name).has(name) }

func (m movedCgroups) limitsCPU() bool { return m.trees[0].limitsCPU() }

func (m movedCgroups) limitsMemory() bool { return m.trees[0].limitsMemory() }

func (m movedCgroups) create(name string, memoryBytes int64) error {
	return m.trees[0].create(name, memoryBytes)
}

func (m movedCgroups) limitCPU(name string, vcpus float64) error {
	return m.of(name).limitCPU(name, vcpus)
}

func (m movedCgroups) limitMemory(name string, bytes int64) error {
	return m.of(name).limitMemory(name, bytes)
}

func (m movedCgroups) weighsCPU() bool { return m.trees[0].weighsCPU() }

func (m movedCgroups) weighCPU(name string, weight int) error {
	return m.of(name).weighCPU(name, weight)
}

func (m movedCgroups) weighsIO() ioWeights { return m.trees[0].weighsIO() }

func (m movedCgroups) useDevices(devices []blockdev.Device) error {
	var errs []error
	for _, t := range m.trees {
		errs = append(errs, t.useDevices(devices))
	}
	return errors.Join(errs...)
}

func (m movedCgroups) weighIO(name string, weight int) error { return m.of(name).weighIO(name, weight) }

func (m movedCgroups) birthplace(name string) (*os.File, error) { return m.of(name).birthplace(name) }

func (m movedCgroups) entries(name string) []string { return m.of(name).entries(name) }

func (m movedCgroups) processes(name string) ([]int, error) {
	return m.each(func(t cgroupTree) ([]int, error) { return t.processes(name) })
}

func (m movedCgroups) killAll(name string) ([]int, error) {
	return m.each(func(t cgroupTree) ([]int, error) { return t.killAll(name) })
}

// each joins what all trees say: what was made half way may be in more than one.
func (m movedCgroups) each(ask func(cgroupTree) ([]int, error)) ([]int, error) {
	var all []int
	var errs []error
	for _, t := range m.trees {
		pids, err := ask(t)
		all, errs = append(all, pids...), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// remove removes them wherever they are.
func (m movedCgroups) remove(name string) error {
	var errs []error
	for _, t := range m.trees {
		errs = append(errs, t.remove(name))
	}
	return errors.Join(errs...)
}

func (m movedCgroups) names() ([]string, error) {
	var all []string
	for _, t := range m.trees {
		names, err := t.names()
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func (m movedCgroups) uninstall() error {
	var errs []error
	for _, t := range m.trees {
		errs = append(errs, t.uninstall())
	}
	return errors.Join(errs...)
}

func (m movedCgroups) usage(name string) (cgroupUsage, error) { return m.of(name).usage(name) }

func (m movedCgroups) outOfMemory(name string) shortage { return m.of(name).outOfMemory(name) }

func (m movedCgroups) watchMemory(name string) (*os.File, error) { return m.of(name).watchMemory(name) }
