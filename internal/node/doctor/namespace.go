package doctor

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// idCount is how many ids a sandbox has.
const idCount = 65536

// checkNamespaces makes one process with every namespace that a sandbox has.
func checkNamespaces(ctx context.Context, h host, opts Options) Check {
	const name = "namespaces"
	limit, known := h.number("proc/sys/user/max_user_namespaces")
	if known && limit < 2 {
		return Check{
			name, Fail, fmt.Sprintf("user.max_user_namespaces is %d", limit), "no sandbox can start: each has a user namespace",
			"sysctl -w user.max_user_namespaces=65536",
		}
	}
	if err := h.namespaces(ctx, opts.OwnerUID); err != nil {
		if h.euid != 0 {
			return Check{name, Warn, "can't be tried without root", "unknown", "sudo shoal doctor"}
		}
		return Check{
			name, Fail, "a process with namespaces of its own can't be made: " + err.Error(), "no sandbox can start",
			"use a kernel with CONFIG_USER_NS, CONFIG_PID_NS and CONFIG_NET_NS; in a container, allow clone and mount (docker run --privileged)",
		}
	}
	if known && limit < 4096 {
		return Check{
			name, Warn, fmt.Sprintf("work; user.max_user_namespaces is %d", limit), fmt.Sprintf("no more than about %d sandboxes can run at a time", limit/2),
			"sysctl -w user.max_user_namespaces=65536",
		}
	}
	found := "user, pid, mount, network, ipc and uts namespaces work"
	for _, switched := range []struct{ path, value string }{
		{"kernel/unprivileged_userns_clone", "0"}, {"kernel/apparmor_restrict_unprivileged_userns", "1"},
	} {
		if text, _ := h.read("proc/sys/" + switched.path); text == switched.value {
			found += "; " + strings.ReplaceAll(switched.path, "/", ".") + " is " + text + ", which holds ordinary users only and may stay"
		}
	}
	return good(name, "%s", found)
}

// tryNamespaces runs a program that ends at once in namespaces like a sandbox's.
func tryNamespaces(ctx context.Context, ownerUID int) error {
	path, err := exec.LookPath("true")
	if err != nil {
		return fmt.Errorf("find a program to try it with: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path)
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: ownerUID, Size: idCount}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings: ids, GidMappings: ids, Credential: &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: true},
	}
	return cmd.Run()
}

// checkOwners looks whether the ids that sandboxes are mapped to belong to somebody.
func checkOwners(_ context.Context, h host, opts Options) Check {
	const name = "owner ids"
	first, last := opts.OwnerUID, opts.OwnerUID+idCount-1
	found := fmt.Sprintf("sandboxes own files as ids %d to %d", first, last)
	var users []string
	for _, file := range []string{"etc/passwd", "etc/subuid", "etc/subgid"} {
		users = append(users, h.idUsers(file, first, last)...)
	}
	if first < idCount {
		return Check{name, Fail, found, "these are ids of the host's own users", "set runtime.owner_uid to 1000000 or another unused range"}
	}
	if len(users) > 0 {
		return Check{
			name, Warn, found + "; also given to " + list(users), "what runs there could read files of sandboxes, if it could reach them",
			"set runtime.owner_uid to a range that /etc/passwd, /etc/subuid and /etc/subgid don't mention",
		}
	}
	return good(name, "%s, which nobody else has", found)
}

// idUsers returns who has ids between first and last in a file of users or of subordinate ids.
func (h host) idUsers(file string, first, last int) []string {
	f, err := os.Open(filepath.Join(h.root, file))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	var out []string
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		fields := strings.Split(scanner.Text(), ":")
		if len(fields) < 3 {
			continue
		}
		from, to := fields[2], "1"
		if file != "etc/passwd" {
			from, to = fields[1], fields[2]
		}
		start, err := strconv.Atoi(from)
		count, countErr := strconv.Atoi(to)
		if err == nil && countErr == nil && start <= last && start+count-1 >= first {
			out = append(out, fields[0]+" (/"+file+")")
		}
	}
	return out
}
