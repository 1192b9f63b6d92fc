package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// checkPlatform looks at processor and kernel. Guest paths are opened with openat2, which came with Linux 5.6.
func checkPlatform(_ context.Context, h host, _ Options) Check {
	const name = "kernel"
	found := fmt.Sprintf("Linux %s on %s", h.release, h.arch)
	switch {
	case h.arch != "amd64" && h.arch != "arm64":
		return Check{name, Fail, found, "the sandbox's kernel runs on amd64 and arm64 only", "use another machine"}
	case !h.kernelAtLeast(5, 6):
		return Check{
			name, Fail, found, "files of a sandbox can't be opened safely from outside before Linux 5.6",
			"install a newer kernel; Debian 12 and Ubuntu 22.04 have one",
		}
	}
	return good(name, "%s", found)
}

// capabilities are those of root that the server and its drivers use.
func capabilities() map[string]uint {
	return map[string]uint{
		"CAP_CHOWN": unix.CAP_CHOWN, "CAP_DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "CAP_FOWNER": unix.CAP_FOWNER,
		"CAP_KILL": unix.CAP_KILL, "CAP_SETGID": unix.CAP_SETGID, "CAP_SETUID": unix.CAP_SETUID,
		"CAP_SETPCAP": unix.CAP_SETPCAP, "CAP_NET_ADMIN": unix.CAP_NET_ADMIN, "CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN,
		"CAP_SYS_CHROOT": unix.CAP_SYS_CHROOT, "CAP_SYS_PTRACE": unix.CAP_SYS_PTRACE,
	}
}

// checkRoot looks at the user and its capabilities: a container's root often lacks some.
func checkRoot(_ context.Context, h host, _ Options) Check {
	const name = "root"
	if h.euid != 0 {
		return Check{
			name, Fail, fmt.Sprintf("user id %d", h.euid), "only root can make namespaces, mounts and cgroups for sandboxes; several checks below can't tell without it",
			"sudo shoal doctor",
		}
	}
	text, _ := h.field("proc/self/status", "CapEff")
	have, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return Check{name, Fail, "capabilities can't be read from /proc/self/status", "nothing can be said about this process's rights", "mount -t proc proc /proc"}
	}
	var missing []string
	for capability, bit := range capabilities() {
		if have&(1<<bit) == 0 {
			missing = append(missing, capability)
		}
	}
	if len(missing) > 0 {
		return Check{
			name, Fail, "root without " + strings.Join(sorted(missing), ", "), "sandboxes can't be isolated or can't start",
			"run the server outside the container, or give the container these capabilities (docker run --privileged)",
		}
	}
	return good(name, "root with every capability it needs")
}

// The kernel gives its first namespaces these numbers for ever (include/linux/proc_ns.h).
const (
	firstPIDNamespace  = "pid:[4026531836]"
	firstUserNamespace = "user:[4026531837]"
)

// checkContainer looks whether this is itself a container. Marker files only say of which kind: a virtual machine made from
// a container's image has them too.
func checkContainer(_ context.Context, h host, _ Options) Check {
	const (
		name = "container"
		cost = "a restart of the container ends every sandbox, and its limits and masked files may get in the way"
		fix  = "run the server on the host itself; else use a privileged container with an init (docker run --privileged --init)"
	)
	if user, ok := h.link("proc/self/ns/user"); ok && user != firstUserNamespace {
		return Check{
			name, Warn, "inside a user namespace (" + h.containerKind() + ")",
			"root here is not the machine's root: ids for sandboxes, mounts and btrfs may be refused", fix,
		}
	}
	if pid, ok := h.link("proc/self/ns/pid"); ok && pid != firstPIDNamespace {
		return Check{name, Warn, "inside a container (" + h.containerKind() + ")", cost, fix}
	}
	return good(name, "not inside one")
}

// containerKind names the program that made the container we are in.
func (h host) containerKind() string {
	switch {
	case h.exists(".dockerenv"):
		return "Docker"
	case h.exists("run/.containerenv"):
		return "Podman"
	}
	if text, ok := h.read("run/systemd/container"); ok {
		return text
	}
	text, _ := h.read("proc/1/environ")
	for variable := range strings.SplitSeq(text, "\x00") {
		if kind, ok := strings.CutPrefix(variable, "container="); ok {
			return kind
		}
	}
	return "unknown kind"
}
