"""Attempts to get out of a sandbox. Each prints one line: held or BROKEN, the attempt, and what came of it.

It runs as root or as an ordinary user; an attempt that only root is refused says so. The host has put a secret where
argv says, and a socket in its abstract namespace; neither may be seen here.
"""

import ctypes, errno, os, socket, stat, struct, sys

secret_path, secret, abstract, host_kernel = sys.argv[1:5]
libc = ctypes.CDLL(None, use_errno=True)
root = os.geteuid() == 0


def say(name, broken, what=""):
    print("BROKEN" if broken else "held", name, what, sep="\t", flush=True)


def call(number, *args):
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return r, errno.errorcode.get(ctypes.get_errno(), "0")


def attempt(name, act):
    """act returns (broken, what); a refusal by the kernel holds."""
    try:
        broken, what = act()
        say(name, broken, what)
    except OSError as e:
        say(name, False, errno.errorcode.get(e.errno, str(e)))
    except Exception as e:  # an attempt that could not be made shows nothing
        say(name, True, "the attempt itself failed: %r" % e)


def reads(path, limit=1 << 16):
    with open(path, "rb", buffering=0) as f:
        return f.read(limit) or b""


def finds_secret(prefix):
    def act():
        data = reads(prefix + secret_path)
        return secret.encode() in data, "%d bytes" % len(data)
    return act


def writes(path, data):
    def act():
        with open(path, "wb", buffering=0) as f:
            f.write(data)
        return True, "written"
    return act


# The host's files, by every way to name them.
for prefix in ["", "/proc/1/root", "/proc/self/root", "/proc/1/cwd", "/..", "/proc/self/cwd/../../../../../..", "/run/shoal/..", "/run/shoal/../../../../..",
               "/tmp/../..", "/dev/../..", "/proc/1/root/proc/1/root"]:
    attempt("host file by %s" % (prefix or "its path"), finds_secret(prefix))


def open_files(pid):
    def act():
        seen, n = [], 0
        for fd in os.listdir("/proc/%s/fd" % pid):
            n += 1
            path = "/proc/%s/fd/%s" % (pid, fd)
            try:
                if secret.encode() in reads(path + secret_path):
                    seen.append(os.readlink(path))
            except OSError:
                pass
        return bool(seen), "%d files %s" % (n, seen)
    return act


attempt("host file by the agent's descriptors", open_files(1))
attempt("host file by own descriptors", open_files("self"))


def chroot_breakout():
    os.makedirs("/tmp/jail/in", exist_ok=True)
    pid = os.fork()
    if pid == 0:
        try:
            fd = os.open("/", os.O_RDONLY)
            os.chroot("/tmp/jail/in")
            os.fchdir(fd)
            for _ in range(64):
                os.chdir("..")
            os.chroot(".")
            os._exit(7 if secret.encode() in reads(secret_path) else 0)
        except OSError:
            os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code != 0, "exit code %d" % code


attempt("host file by leaving a chroot", chroot_breakout)


def handle():
    buf = ctypes.create_string_buffer(struct.pack("<Ii", 8, 1) + struct.pack("<Q", 2) + b"\0" * 120)
    fd = os.open("/", os.O_RDONLY)
    r, e = call(304, fd, buf, os.O_RDONLY)  # open_by_handle_at
    return r >= 0, e


attempt("host file by handle", handle)


def mount(source, target, kind, flags=0, data=None):
    os.makedirs(target, exist_ok=True)
    r = libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data)
    if r != 0:
        raise OSError(ctypes.get_errno(), "mount")
    return target


def mounted(source, kind, flags=0, data=None):
    def act():
        target = mount(source, "/tmp/mnt-%d" % mounted.n, kind, flags, data)
        mounted.n += 1
        try:
            found = secret.encode() in reads(target + secret_path)
        except OSError:
            found = False
        names = os.listdir(target)
        libc.umount2(target.encode(), 2)
        return found, "%d entries" % len(names)
    return act


mounted.n = 0
MS_BIND, MS_REMOUNT, MS_REC, MS_MOVE = 4096, 32, 16384, 8192
for device in ["/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/loop0", "/dev/loop1", "/dev/dm-0"]:
    attempt("mount " + device, mounted(device, "ext4"))
for kind in ["proc", "sysfs", "tmpfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf", "fuse", "nfs", "9p", "lisafs",
             "gofer", "host", "btrfs", "mqueue", "hugetlbfs", "binfmt_misc", "configfs", "efivarfs"]:
    attempt("mount a " + kind, mounted(kind, kind))
attempt("mount a 9p on descriptors", mounted("none", "9p", 0, b"trans=fd,rfdno=4,wfdno=4"))
attempt("mount a gofer on descriptors", mounted("none", "gofer", 0, b"trans=fd,rfdno=4,wfdno=4,cache=remote_revalidating"))
attempt("bind the root", mounted("/", "none", MS_BIND | MS_REC))
attempt("overlay of everything", mounted("none", "overlay", 0, b"lowerdir=/,upperdir=/root,workdir=/root"))

# Devices, also those that only root may make. A number that leads to nothing here opens to nothing.
DEVICES = {"kmem": (stat.S_IFCHR, 1, 2), "mem": (stat.S_IFCHR, 1, 1), "port": (stat.S_IFCHR, 1, 4), "kmsg": (stat.S_IFCHR, 1, 11), "sda": (stat.S_IFBLK, 8, 0),
           "vda": (stat.S_IFBLK, 254, 0), "vda1": (stat.S_IFBLK, 253, 0), "loop0": (stat.S_IFBLK, 7, 0), "kvm": (stat.S_IFCHR, 10, 232),
           "fuse": (stat.S_IFCHR, 10, 229), "loop-control": (stat.S_IFCHR, 10, 237), "tun": (stat.S_IFCHR, 10, 200), "vsock": (stat.S_IFCHR, 10, 241)}


def device(name, directory):
    def act():
        kind, major, minor = DEVICES[name]
        path = "%s/made-%s" % (directory, name)
        os.mknod(path, kind | 0o666, os.makedev(major, minor))
        try:
            fd = os.open(path, os.O_RDWR)
        finally:
            os.unlink(path)
        try:
            data = os.read(fd, 4096)
        except OSError as e:
            return name in ("kmem", "mem", "port", "kmsg", "kvm", "vsock", "loop-control") or kind == stat.S_IFBLK, "opened, read: %s" % e.strerror
        return True, "%d bytes read" % len(data)
    return act


for name in DEVICES:
    for directory in ["/dev", "/tmp"]:
        if name in ("fuse", "tun"):
            continue  # gVisor's own, of its own kernel
        attempt("device %s in %s" % (name, directory), device(name, directory))
allowed = {"char", "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin", "stdout", "stderr", "fuse", "net", "console", "mqueue", "core"}
extra = sorted(set(os.listdir("/dev")) - allowed)
say("names in /dev", bool(extra), " ".join(extra))

# The kernel's own interfaces.
for path in ["/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port", "/proc/kallsyms", "/proc/sched_debug", "/sys/kernel/security", "/sys/firmware/acpi/tables/DSDT",
             "/sys/kernel/debug", "/proc/kpagecount", "/proc/keys", "/proc/timer_list", "/proc/vmallocinfo"]:
    attempt("read " + path, lambda p=path: (True, "%d bytes" % len(reads(p))))
for path, data in [("/proc/sys/kernel/core_pattern", b"|/tmp/x"), ("/proc/sysrq-trigger", b"b"), ("/proc/sys/kernel/modprobe", b"/tmp/x"), ("/sys/kernel/uevent_helper", b"/tmp/x"),
                   ("/proc/sys/vm/panic_on_oom", b"1"), ("/proc/sys/kernel/hostname", b"host"), ("/sys/power/state", b"mem"), ("/proc/sys/kernel/sysrq", b"1"),
                   ("/proc/acpi/wakeup", b"x"), ("/sys/fs/cgroup/release_agent", b"/tmp/x"), ("/proc/sys/fs/binfmt_misc/register", b"x")]:
    attempt("write " + path, writes(path, data))
for name, number, args in [("init_module", 175, (0, 0, 0)), ("finit_module", 313, (0, b"", 0)), ("kexec_load", 246, (0, 0, 0, 0)), ("bpf", 321, (5, 0, 0)), ("perf_event_open", 298, (0, 0, -1, -1, 0)),
                           ("iopl", 172, (3,)), ("ioperm", 173, (0, 1024, 1)), ("reboot", 169, (0xfee1dead - (1 << 32), 672274793, 0, 0)), ("swapon", 167, (b"/tmp/x", 0)), ("userfaultfd", 323, (0,)),
                           ("io_uring_setup", 425, (8, ctypes.create_string_buffer(256))), ("add_key", 248, (b"user", b"a", b"b", 1, -3)), ("acct", 163, (b"/tmp/acct",)),
                           ("clock_settime", 227, (0, ctypes.create_string_buffer(struct.pack("<qq", 0, 0)))), ("settimeofday", 164, (ctypes.create_string_buffer(struct.pack("<qq", 1, 0)), 0)),
                           ("lookup_dcookie", 212, (0, 0, 0)), ("name_to_handle_at", 303, (-100, b"/", ctypes.create_string_buffer(struct.pack("<I", 0) + b"\0" * 200), ctypes.create_string_buffer(8), 0)),
                           ("modify_ldt", 154, (1, ctypes.create_string_buffer(16), 16)), ("fanotify_init", 300, (0, 0)), ("quotactl", 179, (0, 0, 0, 0))]:
    r, e = call(number, *args)
    say("call " + name, r >= 0 and name not in ("io_uring_setup", "add_key", "userfaultfd"), "%d %s" % (r, e))

# Namespaces: new ones are of gVisor's kernel. The check is that no host thing is in them.
attempt("setns to the agent's namespaces", lambda: (False, " ".join("%s=%d" % (n, libc.setns(os.open("/proc/1/ns/" + n, os.O_RDONLY), 0)) for n in sorted(os.listdir("/proc/1/ns")))))


def unshared():
    pid = os.fork()
    if pid == 0:
        for flag in (0x10000000, 0x20000, 0x4000000, 0x8000000, 0x40000000, 0x2000000, 0x20000000):
            libc.unshare(flag)
        try:
            os._exit(7 if secret.encode() in reads(secret_path) else 0)
        except OSError:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0, ""


attempt("unshare everything", unshared)


def read_only(path):
    def act():
        with open(path, "w") as f:
            f.write("x")
        return True, "written"
    return act


for path in ["/run/shoal/agent", "/run/shoal/new", "/sys/new", "/proc/new"]:
    attempt("write " + path, read_only(path))
attempt("remove the agent's file", lambda: (os.unlink("/run/shoal/agent"), (True, ""))[1])
attempt("rename the agent's file", lambda: (os.rename("/run/shoal/agent", "/tmp/agent"), (True, ""))[1])
attempt("link the agent's file", lambda: (os.link("/run/shoal/agent", "/tmp/agent"), (True, ""))[1])
attempt("change the mode of the agent's file", lambda: (os.chmod("/run/shoal/agent", 0o777), (True, ""))[1])
attempt("remount /run/shoal", lambda: (mount("none", "/run/shoal", "none", MS_REMOUNT | MS_BIND), read_only("/run/shoal/new")())[1])
attempt("move /run/shoal", lambda: (mount("/run/shoal", "/tmp/moved", "none", MS_MOVE), read_only("/tmp/moved/new")())[1])
attempt("bind /run/shoal", lambda: (mount("/run/shoal", "/tmp/bound", "none", MS_BIND), read_only("/tmp/bound/new")())[1])

# Sockets that would lead to the host.
AF = {"vsock": (40, socket.SOCK_STREAM), "alg": (38, socket.SOCK_SEQPACKET), "bluetooth": (31, socket.SOCK_RAW), "can": (29, socket.SOCK_RAW), "tipc": (30, socket.SOCK_STREAM),
      "rds": (21, socket.SOCK_SEQPACKET), "kcm": (41, socket.SOCK_SEQPACKET), "xdp": (44, socket.SOCK_RAW), "packet": (17, socket.SOCK_RAW), "smc": (43, socket.SOCK_STREAM), "key": (15, socket.SOCK_RAW)}


def family(number, kind):
    def act():
        s = libc.socket(number, kind, 0)
        if s < 0:
            raise OSError(ctypes.get_errno(), "socket")
        return True, "descriptor %d" % s
    return act


for name, (number, kind) in AF.items():
    attempt("socket " + name, family(number, kind))
attempt("raw socket", lambda: (socket.socket(socket.AF_INET, socket.SOCK_RAW, 255), (True, "opened"))[1])
attempt("the host's abstract socket", lambda: (socket.socket(socket.AF_UNIX).connect("\0" + abstract), (True, "connected"))[1])
attempt("the host's unix sockets", lambda: (bool([l for l in open("/proc/net/unix") if abstract in l]), "not listed"))

# What tells of the host.
say("kernel", host_kernel in os.uname().release, os.uname().release)
say("kernel's command line", "root=" in open("/proc/cmdline").read(), open("/proc/cmdline").read().strip())
pids = [p for p in os.listdir("/proc") if p.isdigit()]
say("processes seen", len(pids) > 40, "%d" % len(pids))
mounts = open("/proc/self/mountinfo").read()
say("mounts name host paths", secret_path.removesuffix(".marker") in mounts or "pool" in mounts, "%d lines" % mounts.count("\n"))
say("environment", any(k.startswith("SHOAL_") and "KEY" in k for k in os.environ), " ".join(sorted(os.environ)))
try:
    env1 = reads("/proc/1/environ")
except OSError:
    env1 = b""
say("the agent's environment", b"SHOAL_API_KEY" in env1 or secret.encode() in env1, "%d bytes" % len(env1))

# Only root may do this to others, and only to those in here.
if not root:
    attempt("kill the agent", lambda: (os.kill(1, 9), (True, ""))[1])
    attempt("trace the agent", lambda: (libc.ptrace(16, 1, 0, 0) == 0, errno.errorcode.get(ctypes.get_errno(), "")))
    attempt("read the agent's memory", lambda: (True, "%d bytes" % len(reads("/proc/1/mem"))))
    attempt("read root's passwords", lambda: (True, "%d bytes" % len(reads("/etc/shadow"))))
    attempt("write root's home", read_only("/root/x"))
    attempt("become root", lambda: (os.setuid(0), (True, ""))[1])
    attempt("write the groups of execs", lambda: (os.mkdir("/sys/fs/cgroup/mine"), (True, ""))[1])
    attempt("leave the group of the exec", writes("/sys/fs/cgroup/cgroup.procs", str(os.getpid()).encode()))
    attempt("take the router's address", lambda: (os.system("ip addr add 10.88.0.1/32 dev lo 2>/dev/null") == 0, ""))
say("end", False, "all attempts made")
