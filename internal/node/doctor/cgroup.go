package doctor

import (
	"context"
	"slices"
	"strings"
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
	mounts, _ := h.read("proc/self/mountinfo")
	v2 := ""
	for line := range strings.SplitSeq(mounts, "\n") {
		before, after, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		switch kind[0] {
		case "cgroup2":
			// The shortest path is the hierarchy's root; others are binds of parts of it.
			if v2 == "" || len(fields[4]) < len(v2) {
				v2 = fields[4]
			}
		case "cgroup":
			for option := range strings.SplitSeq(kind[2], ",") {
				if slices.Contains([]string{"memory", "cpu", "pids", "cpuset", "freezer"}, option) && !slices.Contains(controllers, option) {
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
	text, _ := h.read(v2 + "/cgroup.controllers")
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
