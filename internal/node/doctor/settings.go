package doctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// checkMemory looks at how much memory there is to promise.
func checkMemory(_ context.Context, h host, _ Options) Check {
	const name = "memory"
	total, ok := h.kilobytes("MemTotal")
	available, _ := h.kilobytes("MemAvailable")
	if !ok {
		return Check{name, Warn, "/proc/meminfo can't be read", "unknown how many sandboxes fit", "mount -t proc proc /proc"}
	}
	found := fmt.Sprintf("%.1f GiB, of which %.1f are free", float64(total)/gib, float64(available)/gib)
	const fix = "use a machine with at least 4 GiB"
	switch {
	case total < gib/2:
		return Check{name, Fail, found, "not even one sandbox fits beside the server", fix}
	case total < 2*gib:
		return Check{name, Warn, found, "only one or two sandboxes fit at a time", fix}
	case available < gib/2:
		return Check{name, Warn, found, "hardly a sandbox fits while other programs use so much", "stop other programs, or use a bigger machine"}
	}
	return good(name, "%s", found)
}

// kilobytes reads a field of /proc/meminfo, in bytes.
func (h host) kilobytes(field string) (bytes int64, ok bool) {
	text, ok := h.field("proc/meminfo", field)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(text, " kB"), 10, 64)
	return n << 10, err == nil
}

// kernelClock asks the kernel about its clock.
func kernelClock() (synced bool, now int64, err error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, time.Now().Unix(), err
}

// checkClock looks whether the time can be trusted: ttls, certificates and package mirrors depend on it.
func checkClock(_ context.Context, h host, _ Options) Check {
	const (
		name = "clock"
		fix  = "timedatectl set-ntp true (or apt-get install systemd-timesyncd, or chrony)"
	)
	synced, now, err := h.clock()
	at := time.Unix(now, 0).UTC()
	found := at.Format("2006-01-02 15:04 UTC")
	switch {
	case at.Year() < 2025:
		return Check{name, Fail, found + ", which is in the past", "certificates and package mirrors are refused, and deadlines are wrong", fix}
	case errors.Is(err, unix.EPERM):
		return good(name, "%s; whether it is synchronised is not told here", found)
	case err != nil:
		return Check{name, Warn, found + "; whether it is synchronised can't be read: " + err.Error(), "deadlines may be early or late", fix}
	case !synced:
		return Check{name, Warn, found + ", not synchronised", "it drifts: deadlines may be early or late, and TLS may fail", fix}
	}
	return good(name, "%s, synchronised", found)
}

// sysctl is a kernel setting with the least value that many sandboxes need.
type sysctl struct {
	name  string
	least int64
	// set is what the fix sets it to.
	set  int64
	cost string
}

// sysctls are the settings that have a least value.
func sysctls() []sysctl {
	return []sysctl{
		{"kernel.pid_max", 65536, 4194304, "some hundred busy sandboxes use up all process ids"},
		{"kernel.threads-max", 65536, 1048576, "some hundred busy sandboxes use up all threads"},
		{"vm.max_map_count", 262144, 4194304, "a program that maps very many files or regions runs out of them, and its sandbox with it"},
		{"fs.file-max", 262144, 9223372036854775807, "the machine runs out of open files"},
		{"fs.nr_open", 65536, 1048576, "the server's limit of open files can't be raised"},
		{"user.max_pid_namespaces", 4096, 65536, "sandboxes beyond that number can't start"},
		{"user.max_mnt_namespaces", 4096, 65536, "sandboxes beyond that number can't start"},
		{"user.max_net_namespaces", 4096, 65536, "sandboxes beyond half that number can't start"},
	}
}

// checkSysctls compares kernel settings with what many sandboxes need.
func checkSysctls(_ context.Context, h host, _ Options) Check {
	const name = "sysctls"
	var low, costs, fixes []string
	for _, s := range sysctls() {
		value, ok := h.number("proc/sys/" + strings.ReplaceAll(s.name, ".", "/"))
		if !ok || value >= s.least {
			continue
		}
		low = append(low, fmt.Sprintf("%s is %d", s.name, value))
		costs = append(costs, s.cost)
		fixes = append(fixes, fmt.Sprintf("%s=%d", s.name, s.set))
	}
	if mode, _ := h.read("proc/sys/vm/overcommit_memory"); mode == "2" {
		low = append(low, "vm.overcommit_memory is 2")
		costs = append(costs, "sandboxes reserve more addresses than they use and may not start")
		fixes = append(fixes, "vm.overcommit_memory=0")
	}
	if len(low) == 0 {
		return good(name, "high enough")
	}
	return Check{name, Warn, strings.Join(low, ", "), strings.Join(costs, "; "), "sysctl -w " + strings.Join(fixes, " ") +
		", and the same lines in /etc/sysctl.d/60-shoal.conf"}
}

// checkHugePages tells how memory shared with a sandbox is backed. It never warns: no difference could be measured.
func checkHugePages(_ context.Context, h host, _ Options) Check {
	const name = "huge pages"
	text, ok := h.read("sys/kernel/mm/transparent_hugepage/shmem_enabled")
	if !ok {
		return good(name, "not supported by the kernel, and not needed")
	}
	_, rest, _ := strings.Cut(text, "[")
	chosen, _, _ := strings.Cut(rest, "]")
	return good(name, "shmem_enabled is %s; advise may help sandboxes with much memory, others won't notice", chosen)
}

// checkPackages looks for what makes the built-in templates.
func checkPackages(_ context.Context, h host, _ Options) Check {
	const name = "template tools"
	apt, err := h.lookPath("apt-get")
	if err != nil {
		return Check{
			name, Warn, "no apt", "the built-in templates can't be made here",
			"import an image in their place: `shoal template import NAME REF`, or use a Debian or Ubuntu host",
		}
	}
	if path, err := h.lookPath("mmdebstrap"); err == nil {
		return good(name, "%s, %s", apt, path)
	}
	if path, err := h.lookPath("debootstrap"); err == nil {
		return Check{name, Warn, apt + ", " + path, "the built-in templates take about twice as long to make", "apt-get install mmdebstrap"}
	}
	return Check{name, Warn, "neither mmdebstrap nor debootstrap", "the built-in templates can't be made", "apt-get install mmdebstrap"}
}
