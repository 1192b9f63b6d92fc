"""Programs that take all they can get. python3 - NAME SECONDS: each goes on for so long, whatever it is refused."""
import ctypes, os, select, signal, socket, sys, time

name, seconds = sys.argv[1], float(sys.argv[2])
end = time.time() + seconds


def going():
    return time.time() < end


def workers(n, work):
    for _ in range(n - 1):
        try:
            if os.fork() == 0:
                work()
                os._exit(0)
        except OSError:
            pass
    work()


def hold(make):
    """Makes things and holds them, until no more are to be had; then waits."""
    held = []
    while going():
        try:
            held.append(make(len(held)))
        except (OSError, MemoryError):
            time.sleep(0.02)
    print(len(held))


def forks():
    while going():
        try:
            os.fork()
        except OSError:
            time.sleep(0.05)


def zombies():
    """Children that nobody waits for, and orphans that fall to init."""
    while going():
        try:
            if os.fork() == 0:
                if os.fork() == 0:
                    os._exit(0)
                os._exit(0)
        except OSError:
            time.sleep(0.01)


def descriptors():
    os.makedirs("/root/many", exist_ok=True)
    kinds = [
        lambda i: os.open("/root/many/%d" % i, os.O_CREAT | os.O_RDWR),
        lambda i: os.pipe(), lambda i: socket.socket(), lambda i: os.eventfd(0), lambda i: os.memfd_create("m"),
    ]
    hold(lambda i: kinds[i % len(kinds)](i))


def kernel():
    """What the sandbox's kernel holds on its own heap: full sockets and pipes, epolls, timers, watches."""
    libc = ctypes.CDLL(None, use_errno=True)
    watches = libc.inotify_init()
    os.makedirs("/root/watched", exist_ok=True)

    def pipe(i):
        r, w = os.pipe()
        os.set_blocking(w, False)
        os.write(w, b"x" * 65536)
        return r, w

    def pair(i):
        a, b = socket.socketpair()
        a.setblocking(False)
        a.send(b"x" * 65536)
        return a, b

    def poll(i):
        e = select.epoll()
        e.register(watches, select.EPOLLIN)
        return e

    def watch(i):
        path = "/root/watched/%d" % i
        os.mkdir(path)
        if libc.inotify_add_watch(watches, path.encode(), 0xFFF) < 0:
            raise OSError()

    def timer(i):
        fd = libc.timerfd_create(1, 0)
        if fd < 0:
            raise OSError()
        libc.timerfd_settime(fd, 0, (ctypes.c_long * 4)(0, 1000000, 0, 1000000), None)
        return fd

    kinds = [pipe, pair, poll, watch, timer]
    hold(lambda i: kinds[i % len(kinds)](i))


def inodes():
    """As many empty files as can be made."""
    top = "/root/inodes-%d"

    def work():
        d, n = top % os.getpid(), 0
        os.makedirs(d, exist_ok=True)
        while going():
            try:
                os.close(os.open("%s/%d" % (d, n), os.O_CREAT))
                n += 1
            except OSError:
                time.sleep(0.02)
    workers(2, work)


def metadata():
    """Files that come, are looked at, change their names and go."""
    def work():
        d = "/root/meta-%d" % os.getpid()
        os.makedirs(d, exist_ok=True)
        while going():
            try:
                for i in range(20):
                    os.mkdir("%s/d%d" % (d, i))
                    os.close(os.open("%s/f%d" % (d, i), os.O_CREAT))
                    os.rename("%s/f%d" % (d, i), "%s/g%d" % (d, i))
                    os.stat("%s/g%d" % (d, i))
                os.listdir(d)
                for i in range(20):
                    os.rmdir("%s/d%d" % (d, i))
                    os.unlink("%s/g%d" % (d, i))
            except OSError:
                time.sleep(0.02)
    workers(4, work)


def writes():
    """Data to the disk as fast as it goes, with syncs."""
    block = os.urandom(1 << 20)

    def work():
        f, n = os.open("/root/data-%d" % os.getpid(), os.O_CREAT | os.O_RDWR), 0
        while going():
            try:
                os.pwrite(f, block, (n % 128) << 20)
                n += 1
                if n % 32 == 0:
                    os.fsync(f)
            except OSError:
                time.sleep(0.02)
    workers(2, work)


def memory():
    held = []
    while going():
        held.append(bytearray(b"x" * (8 << 20)))


def output():
    line = b"x" * 4095 + b"\n"
    while going():
        os.write(1, line)
        os.write(2, line)


def spin():
    def work():
        while going():
            pass
    workers(4, work)


def signals():
    """Processes that send each other signals without end."""
    signal.signal(signal.SIGUSR1, lambda *a: None)
    signal.signal(signal.SIGRTMIN, lambda *a: None)
    group = os.getpid()

    def work():
        while going():
            try:
                os.kill(group, signal.SIGUSR1)
                os.kill(0, signal.SIGRTMIN)
            except OSError:
                time.sleep(0.02)
    workers(6, work)


def packets():
    """Packets and connections to what is refused."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setblocking(False)
    while going():
        for address in ("10.88.0.1", "10.0.0.1", "198.51.100.7"):
            try:
                for _ in range(50):
                    udp.sendto(b"x" * 1200, (address, 53))
            except OSError:
                pass
            try:
                tcp = socket.socket()
                tcp.setblocking(False)
                tcp.connect((address, 443))
            except OSError:
                pass
            tcp.close()


globals()[name]()
