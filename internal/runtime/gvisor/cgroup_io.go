package gvisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"shoal/internal/blockdev"
)

// ioWeights says how a tree's groups can be weighed against each other at the disk. A weight needs two things of the host: a
// control file in the groups, and a device below the trees that heeds it. The kernel takes a weight also where no device does.
//
// Files of the tree are opened by the gofer or the sentry, and read and written by the sentry: both are in the sandbox's groups.
type ioWeights struct {
	// file is the control file, in the groups; most is its greatest weight. Both are empty where weights mean nothing.
	file string
	most int
	// lacks says what the host would need.
	lacks string
}

const (
	// ioController1 is the hierarchy of version 1 that knows of disks.
	ioController1 = "blkio"
	// bfqMost and costMost are the greatest weights of the scheduler BFQ and of the cost model. An ordinary one is 100 in both.
	bfqMost  = 1000
	costMost = 10_000
)

// weighTrees finds out whether groups can be weighed at the disk that trees lie on.
func weighTrees(c cgroupTree, trees string) error {
	if trees == "" {
		return nil
	}
	devices, err := blockdev.Under("/", trees)
	if err != nil {
		return fmt.Errorf("find the disk of trees: %w", err)
	}
	if err := c.useDevices(devices); err != nil {
		return fmt.Errorf("weigh traffic with the disk: %w", err)
	}
	return nil
}

// noDevice is what is lacking where the trees' devices heed no weight.
func noDevice(devices []blockdev.Device, remedy string) string {
	if len(devices) == 0 {
		return "the sandboxes' files lie on no block device"
	}
	return "none of the devices that the sandboxes' files lie on shares itself out by weight, " + blockdev.Names(devices) + ": " + remedy
}

// scheduled reports whether one of the devices has one of these schedulers.
func scheduled(devices []blockdev.Device, names ...string) bool {
	return slices.ContainsFunc(devices, func(d blockdev.Device) bool { return slices.Contains(names, d.Scheduler) })
}

func (c *cgroups1) weighsIO() ioWeights { return c.io }

// useDevices uses the files of BFQ, or of CFQ before Linux 5.0. Only where they mean something are sandboxes given groups there:
// to enter one takes time.
func (c *cgroups1) useDevices(devices []blockdev.Device) error {
	hierarchy := filepath.Join(c.root, ioController1)
	if !hasFile(hierarchy, "cgroup.procs") {
		c.io.lacks = "the host has no control groups for disks (the blkio controller)"
		return nil
	}
	if !scheduled(devices, "bfq", "cfq") {
		c.io.lacks = noDevice(devices, "switch one to the scheduler bfq and start the server again")
		return nil
	}
	group := c.dir(ioController1, "")
	if err := os.MkdirAll(group, 0o755); err != nil {
		return fmt.Errorf("make %s cgroup: %w", ioController1, err)
	}
	for _, file := range []string{"blkio.bfq.weight", "blkio.weight"} {
		if hasFile(group, file) {
			c.io = ioWeights{file: file, most: bfqMost}
			c.controllers = append(c.controllers, ioController1)
			return nil
		}
	}
	c.io.lacks = "the kernel's scheduler bfq knows no control groups (CONFIG_BFQ_GROUP_IOSCHED)"
	return nil
}

// weighIO also gives groups to a sandbox that was made when weights meant nothing, or before there were any.
func (c *cgroups1) weighIO(name string, weight int) error {
	if weight <= 0 || c.io.most == 0 {
		return nil
	}
	dir := c.dir(ioController1, name)
	if !hasFile(dir, "") {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make %s cgroup: %w", ioController1, err)
		}
		pids, err := c.processes(name)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if err := writeControl(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return writeControl(dir, c.io.file, strconv.Itoa(min(weight, c.io.most)))
}

func (c *cgroups2) weighsIO() ioWeights { return c.io }

// useDevices prefers the cost model, which knows all weights.
func (c *cgroups2) useDevices(devices []blockdev.Device) error {
	qos, err := os.ReadFile(filepath.Join(c.root, "io.cost.qos"))
	cost := err == nil && slices.ContainsFunc(devices, func(d blockdev.Device) bool { return d.CostModel(string(qos)) })
	if !cost && !scheduled(devices, "bfq") {
		c.io.lacks = noDevice(devices, "switch the cost model on in io.cost.qos, or one device to the scheduler bfq, and start the server again")
		return nil
	}
	ok, err := enableController(c.root, c.path, "io")
	if err != nil {
		return err
	}
	if !ok {
		c.io.lacks = "the host gives the io controller to none of the server's control groups: pass it on in cgroup.subtree_control"
		return nil
	}
	for _, w := range []struct {
		use bool
		ioWeights
	}{{cost, ioWeights{file: "io.weight", most: costMost}}, {scheduled(devices, "bfq"), ioWeights{file: "io.bfq.weight", most: bfqMost}}} {
		if w.use && hasFile(c.dir(""), w.file) {
			c.io = w.ioWeights
			return nil
		}
	}
	c.io.lacks = "the kernel has neither io.weight nor io.bfq.weight in its control groups (CONFIG_BLK_CGROUP_IOCOST, CONFIG_BFQ_GROUP_IOSCHED)"
	return nil
}

func (c *cgroups2) weighIO(name string, weight int) error {
	if weight <= 0 || c.io.most == 0 {
		return nil
	}
	return writeControl(c.dir(name), c.io.file, strconv.Itoa(min(weight, c.io.most)))
}
