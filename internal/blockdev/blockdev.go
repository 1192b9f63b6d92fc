// Package blockdev finds the block devices that files lie on and tells how each shares itself out: the reader of a sandbox's
// files and doctor ask it whether weights of disk traffic mean anything here.
//
// It knows nothing of what the files are for. Start with Under.
package blockdev

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shoal/internal/mountinfo"
)

// Device is one block device, a whole one, never a partition.
type Device struct {
	// Name is its name in /sys/block, Number is major:minor.
	Name, Number string
	// Scheduler is the I/O scheduler that is in force, such as bfq or none; empty where there is no choice.
	Scheduler string
}

// maxDepth bounds the devices on devices that are followed.
const maxDepth = 8

// Under returns the devices that the files in dir go through, the topmost first: a loop device comes before that of its
// image, a mapped device before those it is made of. None is returned where no block device is, as with tmpfs or NFS. root is
// where the machine's files are, "/" but in tests; dir need not exist.
func Under(root, dir string) ([]Device, error) {
	f, err := os.Open(filepath.Join(root, mountinfo.Self))
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer func() { _ = f.Close() }()
	mounts, err := mountinfo.Parse(f)
	if err != nil {
		return nil, err
	}
	s := stack{root: root, mounts: mounts}
	s.files(dir, 0)
	return s.devices, nil
}

// stack is what is found so far.
type stack struct {
	root    string
	mounts  []mountinfo.Mount
	devices []Device
}

// files adds the devices below the files at path.
func (s *stack) files(path string, depth int) {
	var on *mountinfo.Mount
	for i, m := range s.mounts {
		below := path == m.Point || m.Point == "/" || strings.HasPrefix(path, m.Point+"/")
		if below && (on == nil || len(m.Point) >= len(on.Point)) {
			on = &s.mounts[i]
		}
	}
	if on == nil {
		return
	}
	// A btrfs has a number of its own, which no device has: it goes by its source. For others the source may be an alias.
	for _, sys := range []string{filepath.Join("sys/dev/block", on.Number), s.byName(on.Source)} {
		if dir, err := filepath.EvalSymlinks(filepath.Join(s.root, sys)); sys != "" && err == nil {
			s.device(dir, depth)
			return
		}
	}
}

// byName is the directory in sysfs of a device that is named by its file.
func (s *stack) byName(source string) string {
	if !strings.HasPrefix(source, "/dev/") {
		return ""
	}
	if target, err := filepath.EvalSymlinks(filepath.Join(s.root, source)); err == nil {
		source = target
	}
	return filepath.Join("sys/class/block", filepath.Base(source))
}

// device adds the device whose directory in sysfs is dir, and those below it.
func (s *stack) device(dir string, depth int) {
	if depth > maxDepth {
		return
	}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		dir = filepath.Dir(dir)
	}
	d := Device{Name: filepath.Base(dir), Number: text(dir, "dev"), Scheduler: inForce(text(dir, "queue/scheduler"))}
	if slices.Contains(s.devices, d) {
		return
	}
	s.devices = append(s.devices, d)
	if image := text(dir, "loop/backing_file"); image != "" {
		s.files(image, depth+1)
	}
	below, _ := filepath.Glob(filepath.Join(dir, "slaves/*")) // the pattern is a good one
	for _, b := range below {
		if b, err := filepath.EvalSymlinks(b); err == nil {
			s.device(b, depth+1)
		}
	}
}

// text reads a file of sysfs; empty if it is not there.
func text(dir, file string) string {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// inForce is the word in brackets of a list of choices.
func inForce(choices string) string {
	_, rest, _ := strings.Cut(choices, "[")
	word, _, _ := strings.Cut(rest, "]")
	return word
}

// CostModel reports whether cgroup v2 shares a device out by io.weight, which the kernel's cost model does where it is
// switched on: qos is the text of the root group's io.cost.qos.
func (d Device) CostModel(qos string) bool {
	for line := range strings.Lines(qos) {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == d.Number && slices.Contains(fields[1:], "enable=1") {
			return true
		}
	}
	return false
}

// Names writes devices as a list with their schedulers.
func Names(devices []Device) string {
	var list []string
	for _, d := range devices {
		text := d.Name
		if d.Scheduler != "" {
			text += " (" + d.Scheduler + ")"
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}
