package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// checkSeccomp looks for the filters that bound what a sandbox's kernel process may ask of the host's.
func checkSeccomp(_ context.Context, h host, _ Options) Check {
	const (
		name = "seccomp"
		fix  = "use a kernel with CONFIG_SECCOMP_FILTER; every distribution's kernel has it"
	)
	if _, ok := h.field("proc/self/status", "Seccomp"); !ok {
		return Check{name, Fail, "the kernel has no seccomp", "no sandbox can start: it would run without its second wall", fix}
	}
	text, ok := h.read("proc/sys/kernel/seccomp/actions_avail")
	if !ok {
		return good(name, "filters are there; which actions is not told")
	}
	actions := strings.Fields(text)
	for _, action := range []string{"trap", "errno", "kill_process"} {
		if !slices.Contains(actions, action) {
			return Check{name, Fail, "filters without the action " + action, "no sandbox can start", fix}
		}
	}
	return good(name, "filters with %s", list(actions))
}

// checkPtrace looks at what Yama allows: guest processes are driven by a parent that traces its children.
func checkPtrace(_ context.Context, h host, _ Options) Check {
	const (
		name = "ptrace"
		fix  = "sysctl -w kernel.yama.ptrace_scope=1, and the same in /etc/sysctl.d/60-shoal.conf"
	)
	scope, ok := h.number("proc/sys/kernel/yama/ptrace_scope")
	switch {
	case !ok:
		return good(name, "not restricted")
	case scope >= 3:
		return Check{
			name, Fail, "kernel.yama.ptrace_scope is 3: nobody may trace", "no sandbox can start",
			fix + "; 3 can't be lowered again before a reboot",
		}
	case scope == 2:
		return Check{name, Warn, "kernel.yama.ptrace_scope is 2: only root may trace", "sandboxes, which don't run as the host's root, may not start", fix}
	}
	return good(name, "kernel.yama.ptrace_scope is %d", scope)
}

// hardFiles returns the hard limit of open files.
func hardFiles() (uint64, error) {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return limit.Max, err
}

// checkFiles looks at how many files the server may open: several for each sandbox and each stream.
func checkFiles(_ context.Context, h host, _ Options) Check {
	const (
		name = "open files"
		fix  = "LimitNOFILE=1048576 in the server's systemd unit, or `ulimit -Hn 1048576` before it starts"
	)
	n, err := h.files()
	if err != nil {
		return Check{name, Warn, "the limit can't be read: " + err.Error(), "unknown", fix}
	}
	found := fmt.Sprintf("hard limit %d", n)
	switch {
	case n < 4096:
		return Check{name, Fail, found, "the server runs out of files with a few dozen sandboxes", fix}
	case n < 65536:
		return Check{name, Warn, found, "the server runs out of files with some hundred sandboxes or a few thousand connections", fix}
	}
	return good(name, "%s", found)
}

// checkReaper looks whether process 1 collects orphans. Sandboxes outlive the server and become its children.
func checkReaper(_ context.Context, h host, _ Options) Check {
	const name = "process 1"
	comm, ok := h.read("proc/1/comm")
	if !ok {
		return Check{name, Warn, "/proc/1 can't be read", "unknown whether ended sandboxes' processes are collected", "run under systemd, or in a container with an init"}
	}
	zombies := h.orphanZombies()
	found := fmt.Sprintf("%s, %d uncollected processes", comm, zombies)
	inits := []string{
		"systemd", "init", "tini", "dumb-init", "catatonit", "docker-init", "s6-svscan", "runit", "runsvdir", "openrc-init", "procd",
		"busybox", "podman-init",
	}
	if zombies == 0 && slices.Contains(inits, comm) {
		return good(name, "%s, which collects orphans", comm)
	}
	// A real init has some for a moment; one that doesn't collect has ever more.
	if zombies < 5 && slices.Contains(inits, comm) {
		return good(name, "%s", found)
	}
	if !slices.Contains(inits, comm) {
		found = fmt.Sprintf("%s, not known to collect orphans; %d uncollected processes now", comm, zombies)
	}
	cost := "if it collects none, ended sandboxes' processes pile up as zombies until no process can be started"
	return Check{name, Warn, found, cost, "run under systemd, or in a container with an init (docker run --init)"}
}

// orphanZombies counts the processes that have ended and that process 1 should have collected.
func (h host) orphanZombies() int {
	n := 0
	paths, _ := filepath.Glob(filepath.Join(h.root, "proc/[0-9]*/stat"))
	for _, path := range paths {
		rel, err := filepath.Rel(h.root, path)
		if err != nil {
			continue
		}
		text, _ := h.read(rel)
		// The name, in parentheses, may hold anything, so count from its end: state, parent.
		i := strings.LastIndexByte(text, ')')
		if fields := strings.Fields(text[i+1:]); len(fields) > 1 && fields[0] == "Z" && fields[1] == "1" {
			n++
		}
	}
	return n
}
