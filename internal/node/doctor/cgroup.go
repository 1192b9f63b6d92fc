package doctor

import (
	"context"
	"slices"
	"strings"

	"shoal/internal/mountinfo"
)

// checkCgroups finds the controllers that hold sandboxes to their memory and processor time, in either version of cgroups.
func checkCgroups(_ context.Context, h host, _ Options) Check {
	const name = "cgroups"
	version, controllers := h.cgroups()
	if version == "" {
		return Check{name, Fail, "no cgroup filesystem is mounted", "sandboxes can't be held to their limits", "mount -t cgroup2 none /sys/fs/cgroup"}
	}
	memory, cpu := slices.Contains(controllers, "memory"), slices.Contains(controllers, "cpu")
	found := version + " with " + list(controllers)
	switch {
	case !memory:
		return Check{
			name, Fail, found, "no memory limit can be enforced: one sandbox could take the machine down",
			"add cgroup_enable=memory to the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub) and reboot",
		}
	case !cpu:
		return Check{
			name, Warn, found, "no processor limit can be enforced: one sandbox can slow all others",
			"use a kernel with CONFIG_CGROUP_SCHED, or, in a container, pass the cpu controller on",
		}
	}
	return good(name, "%s", found)
}

// cgroups returns which version holds the controllers, and which these are. On a hybrid host v1 has them.
func (h host) cgroups() (version string, controllers []string) {
	text, _ := h.read("proc/self/mountinfo")
	mounts, _ := mountinfo.Parse(strings.NewReader(text))
	v2 := ""
	for _, m := range mounts {
		switch m.Type {
		case "cgroup2":
			// The shortest path is the hierarchy's root; others are binds of parts of it.
			if v2 == "" || len(m.Point) < len(v2) {
				v2 = m.Point
			}
		case "cgroup":
			for _, option := range m.Options {
				if slices.Contains([]string{"memory", "cpu", "pids", "cpuset", "freezer", "blkio"}, option) && !slices.Contains(controllers, option) {
					controllers = append(controllers, option)
				}
			}
		}
	}
	if len(controllers) > 0 {
		return "cgroup v1", sorted(controllers)
	}
	if v2 == "" {
		return "", nil
	}
	text, _ = h.read(v2 + "/cgroup.controllers")
	return "cgroup v2", sorted(strings.Fields(text))
}

// list writes words as a list.
func list(words []string) string {
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

// sorted sorts words where they are.
func sorted(words []string) []string {
	slices.Sort(words)
	return words
}
