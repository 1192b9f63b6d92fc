package doctor

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// onDisk is a mount of the root directory from a disk.
const onDisk = "22 1 8:0 / / rw - ext4 /dev/sda rw\n"

// healthy are the files of a machine on which every check is ok.
func healthy() map[string]string {
	return map[string]string{
		"proc/self/status":                                 "Name:\tshoal\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n",
		"proc/self/ns/pid":                                 "->" + firstPIDNamespace,
		"proc/self/ns/user":                                "->" + firstUserNamespace,
		"proc/self/mountinfo":                              "31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n" + onDisk,
		"sys/dev/block/8:0/dev":                            "8:0\n",
		"sys/dev/block/8:0/queue/scheduler":                "none [bfq]\n",
		"sys/fs/cgroup/cgroup.controllers":                 "cpuset cpu io memory pids\n",
		"proc/sys/user/max_user_namespaces":                "96365\n",
		"proc/sys/user/max_pid_namespaces":                 "96365\n",
		"proc/sys/user/max_mnt_namespaces":                 "96365\n",
		"proc/sys/user/max_net_namespaces":                 "96365\n",
		"proc/sys/kernel/pid_max":                          "4194304\n",
		"proc/sys/kernel/threads-max":                      "192730\n",
		"proc/sys/vm/max_map_count":                        "1048576\n",
		"proc/sys/vm/overcommit_memory":                    "0\n",
		"proc/sys/fs/file-max":                             "9223372036854775807\n",
		"proc/sys/fs/nr_open":                              "1048576\n",
		"proc/sys/kernel/yama/ptrace_scope":                "1\n",
		"proc/sys/kernel/seccomp/actions_avail":            "kill_process kill_thread trap errno user_notif trace log allow\n",
		"proc/filesystems":                                 "nodev\tproc\n\text4\n\tbtrfs\n",
		"proc/meminfo":                                     "MemTotal:       16384000 kB\nMemFree: 1 kB\nMemAvailable:   12000000 kB\n",
		"proc/1/comm":                                      "systemd\n",
		"proc/1/stat":                                      "1 (systemd) S 0 1 1\n",
		"proc/77/stat":                                     "77 (a) Z 1 (b) S 42 77\n",
		"dev/loop-control":                                 "",
		"etc/passwd":                                       "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/sh\n",
		"etc/subuid":                                       "user:100000:65536\n",
		"var/lib/shoal/lock":                               "",
		"sys/kernel/mm/transparent_hugepage/shmem_enabled": "always within_size advise [never] deny force\n",
	}
}

// fixture makes a machine of files, changed by edits; "-" leaves a file out, "->x" makes a symlink to x.
func fixture(t *testing.T, edits map[string]string) host {
	t.Helper()
	root := t.TempDir()
	files := healthy()
	maps.Copy(files, edits)
	for name, content := range files {
		if content == "-" {
			continue
		}
		path := filepath.Join(root, name)
		if target, ok := strings.CutPrefix(content, "->"); ok {
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return host{
		root: root, arch: "amd64", release: "6.8.0-45-generic", euid: 0,
		lookPath: func(name string) (string, error) { return "/usr/bin/" + name, nil },
		statfs: func(string) (unix.Statfs_t, error) {
			return unix.Statfs_t{Type: unix.EXT4_SUPER_MAGIC, Bavail: 100 << 18, Bsize: 4096}, nil
		},
		files:      func() (uint64, error) { return 1 << 20, nil },
		clock:      func() (bool, int64, error) { return true, 1_800_000_000, nil },
		namespaces: func(context.Context, int) error { return nil },
		nftables:   func() error { return nil },
	}
}

func options() Options { return Options{DataDir: "/var/lib/shoal", OwnerUID: 1_000_000} }

func TestHealthyHost(t *testing.T) {
	t.Parallel()
	checks := run(t.Context(), fixture(t, nil), options())
	names := map[string]bool{}
	for _, c := range checks {
		if c.Status != OK || c.Found == "" || c.Cost != "" || c.Fix != "" {
			t.Errorf("%+v on a healthy host", c)
		}
		if names[c.Name] {
			t.Errorf("two checks are called %q", c.Name)
		}
		names[c.Name] = true
	}
	if len(checks) != 22 || Worst(checks) != OK {
		t.Errorf("%d checks, worst %q", len(checks), Worst(checks))
	}
}

// ailment is one thing that is wrong with a host.
type ailment struct {
	name   string
	edits  map[string]string
	broken func(h *host)
	check  string
	want   Status
	// says is part of what the finding says.
	says string
}

func withStatfs(edit func(*unix.Statfs_t)) func(*host) {
	return func(h *host) {
		h.statfs = func(string) (unix.Statfs_t, error) {
			st := unix.Statfs_t{Type: unix.EXT4_SUPER_MAGIC, Bavail: 100 << 18, Bsize: 4096}
			edit(&st)
			return st, nil
		}
	}
}

func without(programs ...string) func(*host) {
	return func(h *host) {
		h.lookPath = func(name string) (string, error) {
			if slices.Contains(programs, name) {
				return "", exec.ErrNotFound
			}
			return "/usr/bin/" + name, nil
		}
	}
}

func ailments() []ailment {
	return []ailment{
		{"old kernel", nil, func(h *host) { h.release = "5.4.0" }, "kernel", Fail, "5.6"},
		{"odd processor", nil, func(h *host) { h.arch = "riscv64" }, "kernel", Fail, "amd64"},
		{"no root", nil, func(h *host) { h.euid = 1000 }, "root", Fail, "sudo"},
		{"root of a container", map[string]string{"proc/self/status": "CapEff:\t00000000a80425fb\nSeccomp:\t2\n"}, nil, "root", Fail, "CAP_SYS_ADMIN"},
		{"docker", map[string]string{"proc/self/ns/pid": "->pid:[4026532177]", ".dockerenv": ""}, nil, "container", Warn, "Docker"},
		{"a machine from a container's image", map[string]string{".dockerenv": ""}, nil, "container", OK, "not inside"},
		{"a user namespace", map[string]string{"proc/self/ns/user": "->user:[4026532177]"}, nil, "container", Warn, "not the machine's root"},
		{"lxc", map[string]string{"proc/self/ns/pid": "->pid:[4026532177]", "proc/1/environ": "A=b\x00container=lxc\x00C=d"}, nil, "container", Warn, "(lxc)"},
		{"no cgroups", map[string]string{"proc/self/mountinfo": "x\n"}, nil, "cgroups", Fail, "cgroup2"},
		{"v2 without memory", map[string]string{"sys/fs/cgroup/cgroup.controllers": "cpu io"}, nil, "cgroups", Fail, "cgroup_enable=memory"},
		{"v2 without cpu", map[string]string{"sys/fs/cgroup/cgroup.controllers": "memory io"}, nil, "cgroups", Warn, "cgroup v2 with io, memory"},
		{"weights by nothing", map[string]string{"sys/dev/block/8:0/queue/scheduler": "[none] bfq"}, nil, "weights", Warn, "echo bfq >/sys/block/8:0/queue/scheduler"},
		{"weights by the cost model", map[string]string{
			"sys/dev/block/8:0/queue/scheduler": "[none]", "sys/fs/cgroup/io.cost.qos": "8:0 enable=1 ctrl=auto\n",
		}, nil, "weights", OK, "cost model"},
		{"weights without io", map[string]string{"sys/fs/cgroup/cgroup.controllers": "memory cpu"}, nil, "weights", Warn, "io_weight does not"},
		{"weights without cpu", map[string]string{"sys/fs/cgroup/cgroup.controllers": "memory io"}, nil, "weights", Warn, "cpu_weight does not"},
		{"weights on no disk", map[string]string{"proc/self/mountinfo": "31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"}, nil, "weights", Warn, "no block device"},
		{"weights on v1", map[string]string{"proc/self/mountinfo": onDisk + "1 2 0:1 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n" +
			"1 2 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"}, nil, "weights", OK, "BFQ"},
		{"weights on v1 without blkio", map[string]string{"proc/self/mountinfo": onDisk + "1 2 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"}, nil, "weights", Warn, "then start"},
		{"v1 hybrid", map[string]string{"proc/self/mountinfo": "1 2 0:1 / /sys/fs/cgroup/unified rw - cgroup2 c rw\n" +
			"1 2 0:1 / /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory\n1 2 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"}, nil, "cgroups", OK, "cgroup v1 with cpu, memory"},
		{"no user namespaces", map[string]string{"proc/sys/user/max_user_namespaces": "0"}, nil, "namespaces", Fail, "sysctl -w"},
		{"few user namespaces", map[string]string{"proc/sys/user/max_user_namespaces": "100"}, nil, "namespaces", Warn, "about 50 sandboxes"},
		{"namespaces refused", nil, func(h *host) {
			h.namespaces = func(context.Context, int) error { return unix.EPERM }
		}, "namespaces", Fail, "operation not permitted"},
		{"restricted for users", map[string]string{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"}, nil, "namespaces", OK, "ordinary users only"},
		{"a user in the range", map[string]string{"etc/passwd": "x:x:1000000:1::/:/bin/sh\n"}, nil, "owner ids", Warn, "x (/etc/passwd)"},
		{"subordinate ids overlap", map[string]string{"etc/subuid": "bob:1065535:1\n"}, nil, "owner ids", Warn, "bob (/etc/subuid)"},
		{"nftables missing", nil, func(h *host) {
			h.nftables = func() error { return errors.New("make a rule with tproxy: no such file") }
		}, "nftables", Fail, "tproxy"},
		{"no seccomp", map[string]string{"proc/self/status": "CapEff:\t000001ffffffffff\n"}, nil, "seccomp", Fail, "CONFIG_SECCOMP_FILTER"},
		{"seccomp without trap", map[string]string{"proc/sys/kernel/seccomp/actions_avail": "kill_process errno allow"}, nil, "seccomp", Fail, "trap"},
		{"ptrace off", map[string]string{"proc/sys/kernel/yama/ptrace_scope": "3"}, nil, "ptrace", Fail, "reboot"},
		{"ptrace for root", map[string]string{"proc/sys/kernel/yama/ptrace_scope": "2"}, nil, "ptrace", Warn, "ptrace_scope=1"},
		{"no yama", map[string]string{"proc/sys/kernel/yama/ptrace_scope": "-"}, nil, "ptrace", OK, "not restricted"},
		{"noexec", nil, withStatfs(func(st *unix.Statfs_t) { st.Flags = unix.ST_NOEXEC }), "data directory", Fail, "remount,exec"},
		{"read-only", nil, withStatfs(func(st *unix.Statfs_t) { st.Flags = unix.ST_RDONLY }), "data directory", Fail, "remount,rw"},
		{"nfs", nil, withStatfs(func(st *unix.Statfs_t) { st.Type = unix.NFS_SUPER_MAGIC }), "data directory", Fail, "nfs"},
		{"tmpfs", nil, withStatfs(func(st *unix.Statfs_t) { st.Type = unix.TMPFS_MAGIC }), "data directory", Warn, "reboot"},
		{"overlay", nil, withStatfs(func(st *unix.Statfs_t) { st.Type = unix.OVERLAYFS_SUPER_MAGIC }), "data directory", Warn, "overlay"},
		{"disk full", nil, withStatfs(func(st *unix.Statfs_t) { st.Bavail = 1 << 18 }), "data directory", Fail, "1.0 GiB free"},
		{"disk small", nil, withStatfs(func(st *unix.Statfs_t) { st.Bavail = 10 << 18 }), "data directory", Warn, "10.0 GiB free"},
		{"statfs fails", nil, func(h *host) {
			h.statfs = func(string) (unix.Statfs_t, error) { return unix.Statfs_t{}, unix.EIO }
		}, "data directory", Fail, "input/output error"},
		{"no btrfs", map[string]string{"proc/filesystems": "\text4\n"}, nil, "btrfs", Fail, "linux-modules-extra-6.8.0-45-generic"},
		{"btrfs as a module", map[string]string{
			"proc/filesystems": "\text4\n", "lib/modules/6.8.0-45-generic/modules.dep": "kernel/fs/btrfs/btrfs.ko.zst: kernel/lib/raid6/raid6_pq.ko.zst\n",
		}, nil, "btrfs", OK, "on demand"},
		{"no mkfs", nil, without("mkfs.btrfs"), "mkfs.btrfs", Fail, "apt-get install btrfs-progs"},
		{"no mkfs, pool made", map[string]string{"var/lib/shoal/pool.img": ""}, without("mkfs.btrfs"), "mkfs.btrfs", OK, "made already"},
		{"no mkfs on btrfs", nil, func(h *host) {
			without("mkfs.btrfs")(h)
			withStatfs(func(st *unix.Statfs_t) { st.Type = unix.BTRFS_SUPER_MAGIC })(h)
		}, "mkfs.btrfs", OK, "not needed"},
		{"no loop", map[string]string{"dev/loop-control": "-"}, nil, "loop devices", Fail, "modprobe loop"},
		{"loop not loaded", map[string]string{
			"dev/loop-control": "-", "lib/modules/6.8.0-45-generic/modules.dep": "kernel/drivers/block/loop.ko:\n",
		}, nil, "loop devices", Warn, "modprobe loop"},
		{"no simple quotas", nil, func(h *host) { h.release = "6.1.0-37-amd64" }, "disk quotas", Warn, "bookworm-backports"},
		{"tiny", map[string]string{"proc/meminfo": "MemTotal: 400000 kB\nMemAvailable: 300000 kB\n"}, nil, "memory", Fail, "0.4 GiB"},
		{"small", map[string]string{"proc/meminfo": "MemTotal: 1900000 kB\nMemAvailable: 1500000 kB\n"}, nil, "memory", Warn, "one or two"},
		{"busy", map[string]string{"proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 200000 kB\n"}, nil, "memory", Warn, "other programs"},
		{"clock off", nil, func(h *host) { h.clock = func() (bool, int64, error) { return false, 1_800_000_000, nil } }, "clock", Warn, "not synchronised"},
		{"clock wrong", nil, func(h *host) { h.clock = func() (bool, int64, error) { return true, 86400, nil } }, "clock", Fail, "1970"},
		{"few files", nil, func(h *host) { h.files = func() (uint64, error) { return 1024, nil } }, "open files", Fail, "LimitNOFILE"},
		{"some files", nil, func(h *host) { h.files = func() (uint64, error) { return 20000, nil } }, "open files", Warn, "20000"},
		{
			"few pids and maps",
			map[string]string{"proc/sys/kernel/pid_max": "32768", "proc/sys/vm/max_map_count": "65530"},
			nil, "sysctls", Warn,
			"sysctl -w kernel.pid_max=4194304 vm.max_map_count=4194304",
		},
		{"strict memory", map[string]string{"proc/sys/vm/overcommit_memory": "2"}, nil, "sysctls", Warn, "vm.overcommit_memory=0"},
		{"a shell as init", map[string]string{"proc/1/comm": "bash"}, nil, "process 1", Warn, "--init"},
		{"zombies", map[string]string{
			"proc/2/stat": "2 (x) Z 1 2", "proc/3/stat": "3 (x) Z 1 2", "proc/4/stat": "4 (x) Z 1 2", "proc/5/stat": "5 (x) Z 1 2", "proc/6/stat": "6 (x) Z 1 2",
		}, nil, "process 1", Warn, "5 uncollected"},
		{"no apt", nil, without("apt-get"), "template tools", Warn, "shoal template import"},
		{"no tool", nil, without("mmdebstrap", "debootstrap"), "template tools", Warn, "apt-get install mmdebstrap"},
		{"the slow tool", nil, without("mmdebstrap"), "template tools", Warn, "twice"},
	}
}

func TestAilments(t *testing.T) {
	t.Parallel()
	for _, a := range ailments() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			h := fixture(t, a.edits)
			if a.broken != nil {
				a.broken(&h)
			}
			checks := run(t.Context(), h, options())
			i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == a.check })
			if i < 0 {
				t.Fatalf("no check is called %q", a.check)
			}
			c := checks[i]
			if c.Status != a.want || !strings.Contains(strings.Join([]string{c.Found, c.Cost, c.Fix}, " | "), a.says) {
				t.Errorf("got %+v, want %s that says %q", c, a.want, a.says)
			}
			if c.Status != OK && (c.Cost == "" || c.Fix == "") {
				t.Errorf("%+v doesn't say what it costs and how to mend it", c)
			}
			if a.want == Fail && Worst(checks) != Fail {
				t.Errorf("the worst is %s", Worst(checks))
			}
		})
	}
}

// TestEmptyHost holds checks to a machine of which nothing can be read: none may panic or be silent.
func TestEmptyHost(t *testing.T) {
	t.Parallel()
	h := fixture(t, nil)
	h.root, h.release = t.TempDir(), ""
	h.clock = func() (bool, int64, error) { return false, 1_800_000_000, unix.EPERM }
	for _, c := range run(t.Context(), h, Options{}) {
		if c.Name == "" || c.Found == "" || (c.Status != OK && (c.Cost == "" || c.Fix == "")) {
			t.Errorf("%+v", c)
		}
	}
}
