"""Attempts to reach anything over the network from inside a sandbox. Each prints one line: held or BROKEN, the attempt,
and what came of it. argv: the addresses of the host, comma-separated; the ports on which the host waits for a word from
here, comma-separated; whether to go on as root with addresses and routes of our own choice.
"""

import errno, os, socket, struct, subprocess, sys, threading, time

hosts, ports = sys.argv[1].split(","), [int(p) for p in sys.argv[2].split(",")]
root = os.geteuid() == 0
AGENT = ("10.88.0.2", 7070)
WORD = b"a word from the sandbox"


def say(name, broken, what=""):
    print("BROKEN" if broken else "held", name, what, sep="\t", flush=True)


def tcp(address, timeout=1.5):
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    begun = time.time()
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(timeout)
    try:
        s.connect(address)
        s.send(WORD)
        return True, "connected"
    except OSError as e:
        return False, "%s after %.1f s" % (errno.errorcode.get(e.errno, str(e)), time.time() - begun)
    finally:
        s.close()


def udp(address, family=socket.AF_INET, data=WORD, timeout=0.2):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(timeout)
    try:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.connect(address)
        s.send(data)
        s.recv(100)
        return True, "answered"
    except OSError as e:
        return False, errno.errorcode.get(e.errno, type(e).__name__)
    finally:
        s.close()


def sweep(name, targets, probe):
    """Probes many targets at once; only what goes through, or takes long to be refused, is told."""
    lock, found, left = threading.Lock(), [], list(targets)

    def work():
        while True:
            with lock:
                if not left:
                    return
                target = left.pop()
            open_, what = probe(target)
            if open_:
                with lock:
                    found.append("%s %s" % (target, what))
    workers = [threading.Thread(target=work) for _ in range(16)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    say(name, bool(found), "%d targets %s" % (len(targets), found[:5]))


def everything(label):
    sweep("tcp to the host's addresses " + label, [(h, p) for h in hosts for p in ports + [22, 53, 80, 111, 443, 2024, 8700]], tcp)
    sweep("udp to the host's addresses " + label, [(h, p) for h in hosts if ":" not in h for p in ports], udp)
    sweep("tcp to where clouds keep secrets " + label, [(a, p) for a in ("169.254.169.254", "169.254.170.2", "169.254.169.123", "100.100.100.200", "192.0.0.192", "fd00:ec2::254") for p in (80, 443)], tcp)
    sweep("tcp to neighbours " + label, [("100.64.0.%d" % i, 7070) for i in range(0, 9)] + [("100.64.1.1", 7070), ("10.88.0.3", 7070), ("10.88.0.0", 7070), ("10.88.255.255", 7070)], tcp)
    sweep("tcp to private networks " + label, [(a, p) for a in ("10.0.0.1", "172.17.0.1", "192.168.0.1", "192.168.1.1", "172.16.0.1") for p in (22, 80)], tcp)
    sweep("tcp to the world " + label, [(a, p) for a in ("1.1.1.1", "8.8.8.8", "151.101.2.132") for p in (53, 80, 443, 853)], tcp)
    sweep("dns " + label, [(a, 53) for a in ("10.88.0.1", "8.8.8.8", "1.1.1.1", "127.0.0.53", "224.0.0.251")],
          lambda a: udp(a, data=b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\7example\3com\0\0\1\0\1"))
    sweep("multicast and broadcast " + label, [("255.255.255.255", ports[0]), ("10.88.255.255", ports[0]), ("224.0.0.1", ports[0]), ("239.255.255.250", 1900), ("224.0.0.251", 5353)], udp)


everything("")
sweep("every port of the router", [("10.88.0.1", p) for p in [21, 22, 25, 53, 67, 80, 111, 123, 443, 2049, 2375, 2376, 5432, 6379, 6443, 7070, 8080, 9000, 9090, 10250] + list(range(8690, 8720)) + ports], tcp)

# A datagram that needs fragments, and one of no known protocol.
for size in (2000, 9000, 60000):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for h in hosts:
        if ":" in h:
            continue
        try:
            s.sendto(WORD + b"x" * size, (h, ports[0]))
        except OSError:
            pass
say("fragments", False, "sent")
for kind in ("ICMP",):
    try:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
        s.settimeout(0.5)
        answers = []
        for h in [h for h in hosts if ":" not in h] + ["10.88.0.1", "1.1.1.1"]:
            try:
                s.sendto(struct.pack("!BBHHH", 8, 0, 0xf7ff, 0, 0), (h, 0))
                s.recv(100)
                answers.append(h)
            except OSError:
                pass
        say("ping", any(a not in ("10.88.0.1", "127.0.0.1") for a in answers), "answers from %s" % answers)
    except OSError as e:
        say("ping", False, errno.errorcode.get(e.errno))
for a in ("fe80::1%eth0", "ff02::1%eth0", "::ffff:169.254.169.254", "2606:4700:4700::1111", "fd00::1"):
    try:
        info = socket.getaddrinfo(a, ports[0], socket.AF_INET6, socket.SOCK_STREAM)
        say("ipv6 " + a, *tcp(info[0][4]))
    except OSError as e:
        say("ipv6 " + a, False, str(e))

# The agent's own port. Only the router's address may speak to it.
def agent_answers(source=None):
    s = socket.socket()
    s.settimeout(2)
    try:
        if source:
            s.bind((source, 0))
        s.connect(AGENT)
        s.send(b"\0" * 64)
        return bool(s.recv(64)), "closed"
    except OSError as e:
        return False, errno.errorcode.get(e.errno, str(e))
    finally:
        s.close()


say("speak to the agent", *agent_answers())
say("speak to the agent from loopback", *agent_answers("127.0.0.1"))
try:
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(AGENT)
    s.listen()
    say("steal the agent's port", True, "bound")
except OSError as e:
    say("steal the agent's port", False, errno.errorcode.get(e.errno))
finally:
    s.close()


if root:
    import ctypes, fcntl
    libc = ctypes.CDLL(None, use_errno=True)
    RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWLINK = 20, 24, 16

    def netlink(kind, payload, flags=0x605):
        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        s.send(struct.pack("=LHHLL", 16 + len(payload), kind, flags, 1, 0) + payload)
        data = s.recv(4096)
        return struct.unpack_from("=i", data, 16)[0]

    def attribute(kind, data):
        return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)

    def add_address(address, index, prefix=32):
        raw = socket.inet_aton(address)
        return netlink(RTM_NEWADDR, struct.pack("=BBBBI", 2, prefix, 0, 0, index) + attribute(1, raw) + attribute(2, raw))

    eth = socket.if_nametoindex("eth0") if "eth0" in [n for _, n in socket.if_nameindex()] else 2

    # Addresses of our own choice, as source of what we send: the far end must know us by our interface still.
    for address in ("100.64.0.2", "169.254.1.1", "192.168.77.7"):
        say("take the address " + address, False, "%d" % add_address(address, eth))
    for source in ("100.64.0.2", "192.168.77.7"):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            s.bind((source, 0))
            for h in hosts:
                if ":" not in h:
                    s.sendto(WORD, (h, ports[0]))
            s.sendto(WORD, ("100.64.0.1", 7070))
            say("forge the source " + source, False, "sent")
        except OSError as e:
            say("forge the source " + source, False, errno.errorcode.get(e.errno))
    say("a default route of our own", False, "%d" % netlink(RTM_NEWROUTE, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 4, 0, 1, 0) + attribute(5, socket.inet_aton("10.88.0.1")) + attribute(4, struct.pack("=I", eth))))
    say("a larger mtu", False, "%d" % netlink(RTM_NEWLINK, struct.pack("=BBHiII", 0, 0, 0, eth, 0, 0) + attribute(4, struct.pack("=I", 65000)), 5))
    everything("with addresses of our own")
    # Frames straight onto the wire.
    for name, family, kind, proto in (("packet", socket.AF_PACKET, socket.SOCK_RAW, 3), ("raw ip", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)):
        try:
            socket.socket(family, kind, socket.htons(proto) if family == socket.AF_PACKET else proto)
            say("socket " + name, True, "opened")
        except OSError as e:
            say("socket " + name, False, errno.errorcode.get(e.errno))
say("end", False, "all attempts made")
