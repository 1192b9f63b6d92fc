package guest

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// groupsName is the cgroup below which each exec has one.
const groupsName = "shoal"

// ownName is the cgroup of the guest agent itself.
const ownName = "shoal-guest"

// cgroups makes groups that are cgroups (v2). A child is born in its own (clone3 with CLONE_INTO_CGROUP), nothing
// can leave it but by writing to the hierarchy, and cgroup.kill ends all of it at once.
type cgroups struct {
	// dir is the directory of all groups, held open: it works also where the hierarchy is no longer mounted.
	dir *os.File
}

// openCgroups makes the group of all execs below root and bounds its number of processes.
func openCgroups(root string, maxProcesses int) (*cgroups, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(root, &fs); err != nil {
		return nil, fmt.Errorf("look at cgroups: %w", err)
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil, fmt.Errorf("look at cgroups: %s is not cgroup v2", root)
	}
	// A group that gives controllers to those below may hold no process itself: ours moves out of the way first.
	if err := os.Mkdir(root+"/"+ownName, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make own cgroup: %w", err)
	}
	if err := os.WriteFile(root+"/"+ownName+"/cgroup.procs", []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return nil, fmt.Errorf("move into own cgroup: %w", err)
	}
	if err := os.WriteFile(root+"/cgroup.subtree_control", []byte("+pids +memory"), 0); err != nil {
		return nil, fmt.Errorf("bound processes: %w", err)
	}
	if err := os.Mkdir(root+"/"+groupsName, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	if err := os.WriteFile(root+"/"+groupsName+"/pids.max", []byte(strconv.Itoa(maxProcesses)), 0); err != nil {
		return nil, fmt.Errorf("bound processes: %w", err)
	}
	// Each exec's memory is counted apart.
	if err := os.WriteFile(root+"/"+groupsName+"/cgroup.subtree_control", []byte("+memory"), 0); err != nil {
		return nil, fmt.Errorf("count memory: %w", err)
	}
	dir, err := os.Open(root + "/" + groupsName)
	if err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	return &cgroups{dir: dir}, nil
}

func (c *cgroups) make(id string) (group, error) {
	parent := int(c.dir.Fd())
	if err := unix.Mkdirat(parent, id, 0o755); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	fd, err := unix.Openat(parent, id, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open cgroup: %w", err), unix.Unlinkat(parent, id, unix.AT_REMOVEDIR))
	}
	return &cgroup{parent: parent, id: id, fd: fd}, nil
}

// limit bounds processes and threads. More than that may run already: they go on, and no new one is born.
func (c *cgroups) limit(pids int) error {
	fd, err := unix.Openat(int(c.dir.Fd()), "pids.max", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bound processes: %w", err)
	}
	_, err = unix.Write(fd, []byte(strconv.Itoa(pids)))
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		return fmt.Errorf("bound processes: %w", err)
	}
	return nil
}

func (c *cgroups) close() { _ = c.dir.Close() }

type cgroup struct {
	parent int
	id     string
	fd     int
}

func (g *cgroup) env() []string { return nil }

func (g *cgroup) prepare(attr *syscall.SysProcAttr) {
	attr.UseCgroupFD, attr.CgroupFD = true, g.fd
}

// lead does nothing: the leader was born in the group.
func (g *cgroup) lead(int) {}

func (g *cgroup) pids() ([]int, error) {
	b, err := g.read("cgroup.procs")
	if err != nil {
		return nil, err
	}
	var list []int
	for line := range strings.FieldsSeq(string(b)) {
		if pid, err := strconv.Atoi(line); err == nil && pid > 0 {
			list = append(list, pid)
		}
	}
	return list, nil
}

func (g *cgroup) memory() (int64, error) {
	b, err := g.read("memory.current")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	return n, nil
}

func (g *cgroup) read(name string) ([]byte, error) {
	fd, err := unix.Openat(g.fd, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var list []byte
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", name, err)
		case n <= 0:
			return list, nil
		default:
			list = append(list, buf[:n]...)
		}
	}
}

func (g *cgroup) kill() error {
	fd, err := unix.Openat(g.fd, "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open cgroup.kill: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if _, err := unix.Write(fd, []byte("1")); err != nil {
		return fmt.Errorf("kill cgroup: %w", err)
	}
	return nil
}

// release removes the cgroup. A member that has just been killed may still be on its way out.
func (g *cgroup) release() {
	for wait := time.Millisecond; wait < time.Second; wait *= 2 {
		if err := unix.Unlinkat(g.parent, g.id, unix.AT_REMOVEDIR); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(wait)
	}
	_ = unix.Close(g.fd)
}
