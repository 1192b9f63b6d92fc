package isolation_test

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

//go:embed testdata/escape.py
var escapeScript string

//go:embed testdata/network.py
var networkScript string

// testEscape hides a secret in a file and a socket of the host and lets a sandbox look for it.
func testEscape(t *testing.T, e env, user string) {
	const secret = "shoal-isolation-marker-7f3a9c"
	// Beside the data directory, where the sentry's own user could read it.
	path := e.Dir + ".marker"
	if err := os.WriteFile(path, []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	name := "shoal-isolation-" + strconv.Itoa(os.Getpid())
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	e.attack(t, sb, user, escapeScript, path, secret, name, unix.ByteSliceToString(u.Release[:]))
}

// canaries are open ports of the host, on all of its addresses. Nothing may ever reach them from a sandbox.
type canaries struct {
	mu   sync.Mutex
	seen []string
	port int
}

func openCanaries(t *testing.T) *canaries {
	t.Helper()
	c := &canaries{}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	c.port = l.Addr().(*net.TCPAddr).Port
	p, err := net.ListenPacket("udp", fmt.Sprintf(":%d", c.port))
	if err != nil {
		_ = l.Close()
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.note("tcp from " + conn.RemoteAddr().String())
			_ = conn.Close()
		}
	})
	work.Go(func() {
		b := make([]byte, 1<<16)
		for {
			n, from, err := p.ReadFrom(b)
			if err != nil {
				return
			}
			c.note(fmt.Sprintf("udp from %s: %.40q", from, b[:n]))
		}
	})
	t.Cleanup(func() { _, _ = l.Close(), p.Close(); work.Wait() })
	return c
}

func (c *canaries) note(s string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, s)
}

func testNetwork(t *testing.T, e env, user string) {
	c := openCanaries(t)
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for _, a := range addresses {
		// Loopback inside is the sandbox's own.
		if ip := a.(*net.IPNet).IP; !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			hosts = append(hosts, ip.String())
		}
	}
	if len(hosts) == 0 {
		hosts = []string{"192.0.2.1"}
	}
	port := e.URL[strings.LastIndex(e.URL, ":")+1:]
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	e.attack(t, sb, user, networkScript, strings.Join(hosts, ","), strconv.Itoa(c.port)+","+port)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.seen {
		t.Errorf("the host was reached: %s", s)
	}
}

// testRouterAddress lets root inside take the router's own address. It cuts itself off; the server's calls end in time,
// and the delete takes no notice.
func testRouterAddress(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	script := `import socket, struct
a = socket.inet_aton("10.88.0.1")
for i in (1, 2):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    p = struct.pack("=BBBBI", 2, 32, 0, 0, i) + struct.pack("=HH", 8, 1) + a + struct.pack("=HH", 8, 2) + a
    s.send(struct.pack("=LHHLL", 16 + len(p), 20, 0x605, 1, 0) + p)
`
	// Its end may never be learned.
	if res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Cmd: []string{"python3", "-c", script}}); err == nil && res.Outcome == shoal.OutcomeExited && *res.ExitCode != 0 {
		t.Errorf("the attempt failed: %s", res.StderrBytes())
	}
	begun := time.Now()
	c, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if res, err := e.Client.Execs(sb.ID).Run(c, shoal.ExecRequest{Cmd: []string{"true"}}); err == nil && res.Outcome == shoal.OutcomeExited {
		t.Log("the sandbox still answers")
	} else if c.Err() != nil {
		t.Errorf("a call on a sandbox that is cut off took more than %s", time.Since(begun))
	}
	if out, errs, code := e.CLI("", "get", sb.ID); code != 0 || !strings.Contains(out, sb.ID) {
		t.Errorf("shoal get of a sandbox that is cut off: exit code %d\n%s%s", code, out, errs)
	}
	begun = time.Now()
	if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the delete took %s", took)
	}
	e.gone(t, sb.ID)
}

// gone waits until no process of a sandbox is left.
func (e env) gone(t *testing.T, id string) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, "its processes are gone", func() error {
		for _, p := range harness.Processes(e.Dir) {
			if strings.Contains(p.Command, id) {
				return fmt.Errorf("process %d", p.PID)
			}
		}
		return nil
	})
}

// testAgentFlood has an ordinary user open connections to the agent as fast as it can, while the API is used.
func testAgentFlood(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	flood := `import socket, time
end = time.time() + 6
held = []
while time.time() < end:
    try:
        s = socket.socket(); s.setblocking(False); s.connect_ex(("10.88.0.2", 7070)); held.append(s)
    except OSError:
        held = held[len(held) // 2:]
    if len(held) > 500: held = held[400:]
`
	x, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Cmd: []string{"python3", "-c", flood}, User: "nobody"})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		begun := time.Now()
		res, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Shell: "echo fine"})
		if err != nil || string(res.StdoutBytes()) != "fine\n" {
			t.Errorf("while its agent is flooded: %v %q", err, res.StdoutBytes())
		}
		if took := time.Since(begun); took > neighbourLimit {
			t.Errorf("an exec took %s while the agent was flooded", took)
		}
	}
	if err := e.Client.Execs(sb.ID).Cancel(ctx(t), x.ID); err != nil && shoal.ErrorCode(err) != "conflict" {
		t.Error(err)
	}
}

// testAgentKilled has root inside end or stop the agent in every way it can. What the server then says must be true.
func testAgentKilled(t *testing.T, e env) {
	ways := []string{
		"kill -9 1", "kill -ABRT 1; kill -SEGV 1",
		`python3 -c 'f = open("/proc/1/mem", "r+b", 0)
for line in open("/proc/1/maps"):
    if "rw-p" in line:
        a, b = (int(x, 16) for x in line.split()[0].split("-")); f.seek(a); f.write(b"\xff" * min(b - a, 1 << 20))'`,
	}
	if os.Getenv("SHOAL_TEST_FULL") != "" { // it takes a minute until a silent agent is given up
		ways = append(ways, "kill -STOP 1", `python3 -c 'import ctypes; ctypes.CDLL(None).ptrace(16, 1, 0, 0); import time; time.sleep(100)'`)
	}
	for _, how := range ways {
		sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
		c, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		res, err := e.Client.Execs(sb.ID).Run(c, shoal.ExecRequest{Shell: how + "; sleep 1; exit 5"})
		if c.Err() != nil {
			t.Errorf("%.40q: the call hung", how)
		}
		cancel()
		if err == nil && res.Outcome == shoal.OutcomeExited && *res.ExitCode != 5 {
			t.Errorf("%.40q: invented exit code %d", how, *res.ExitCode)
		}
		begun := time.Now()
		if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
			t.Errorf("%.40q: delete: %v", how, err)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%.40q: the delete took %s", how, took)
		}
		e.gone(t, sb.ID)
	}
}

// testLinkRace swaps a directory and a link while the files API goes through them.
func testLinkRace(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	const secret = "outside"
	outside := e.Dir + ".race"
	if err := os.Mkdir(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(outside) })
	if err := os.WriteFile(filepath.Join(outside, "f"), []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
	script := `mkdir -p /root/d /root/keep; echo inside > /root/d/f
end=$(($(date +%s) + 4))
while [ $(date +%s) -lt $end ]; do mv /root/d /root/keep/d; ln -s ` + outside + ` /root/d; rm /root/d; ln -s /proc/1/root` + outside + ` /root/d; rm /root/d; mv /root/keep/d /root/d; done`
	x, err := e.Client.Execs(sb.ID).Start(ctx(t), shoal.ExecRequest{Shell: script})
	if err != nil {
		t.Fatal(err)
	}
	files := e.Client.Files(sb.ID)
	for running := true; running; {
		if r, err := files.Read(ctx(t), "/root/d/f"); err == nil {
			data, err := io.ReadAll(r)
			_ = r.Close()
			if err == nil && strings.Contains(string(data), secret) {
				t.Fatal("a file of the host was read")
			}
		}
		_, _ = files.Write(ctx(t), "/root/d/planted", strings.NewReader("x"), shoal.WriteOptions{})
		_ = files.Remove(ctx(t), "/root/d/f2", true)
		got, err := e.Client.Execs(sb.ID).Get(ctx(t), x.ID)
		if err != nil {
			t.Fatal(err)
		}
		running = got.Running
	}
	names, err := os.ReadDir(outside)
	if err != nil || len(names) != 1 {
		t.Errorf("the host's directory holds %v, %v", names, err)
	}
}

// testServerFiles asserts that no program that the server starts inherits a file of its.
func testServerFiles(t *testing.T, e env) {
	infos := glob(t, fmt.Sprintf("/proc/%d/fdinfo/*", e.PID()))
	if len(infos) < 10 {
		t.Fatalf("the server has %d files", len(infos))
	}
	for _, info := range infos {
		n, err := strconv.Atoi(filepath.Base(info))
		if err != nil || n < 3 {
			continue
		}
		data, err := os.ReadFile(info)
		if errors.Is(err, os.ErrNotExist) {
			continue // closed meanwhile
		}
		var flags int64
		for line := range strings.Lines(string(data)) {
			if text, ok := strings.CutPrefix(line, "flags:"); ok {
				flags, err = strconv.ParseInt(strings.TrimSpace(text), 8, 64)
			}
		}
		if err != nil || flags&unix.O_CLOEXEC == 0 {
			target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", e.PID(), n))
			t.Errorf("file %d of the server would be inherited: %s (%v)", n, target, err)
		}
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return names
}
