package isolation_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// whileBombed runs a script that takes all it can get, and asserts that neighbour and server answer meanwhile.
func (e env) whileBombed(t *testing.T, sb shoal.Sandbox, req shoal.ExecRequest) shoal.Exec {
	t.Helper()
	timeout := 6.0
	req.TimeoutSeconds = &timeout
	x, err := e.Client.Execs(sb.ID).Start(ctx(t), req)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		e.undisturbed(t)
	}
	var last shoal.Exec
	harness.Eventually(t, time.Minute, "the bomb has an end", func() error {
		got, err := e.Client.Execs(sb.ID).Get(ctx(t), x.ID)
		if err == nil && got.Running {
			err = errors.New("it runs")
		}
		if shoal.ErrorCode(err) == "unavailable" {
			err = nil // the sandbox itself has died of it
		}
		last = got
		return err
	})
	return last
}

// recovers asserts that a sandbox whose bomb has ended can be used again, or has failed and says so.
func (e env) recovers(t *testing.T, sb shoal.Sandbox) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, "the sandbox is of use again, or failed", func() error {
		got, err := e.Client.Sandboxes().Get(ctx(t), sb.ID)
		if err != nil || got.State == shoal.StateFailed {
			return err
		}
		_, err = e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Cmd: []string{"true"}})
		return err
	})
}

func testForkBomb(t *testing.T, e env) {
	for _, user := range []string{"root", "nobody"} {
		sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
		before := hostProcesses(t)
		e.whileBombed(t, sb, shoal.ExecRequest{User: user, Cmd: []string{"python3", "-c", `import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.05)`}})
		if now := hostProcesses(t); now > before+2000 {
			t.Errorf("the host has %d processes, before %d", now, before)
		}
		e.recovers(t, sb)
	}
}

func hostProcesses(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range names {
		if d.Name()[0] >= '0' && d.Name()[0] <= '9' {
			n++
		}
	}
	return n
}

func testDescriptorBomb(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	e.whileBombed(t, sb, shoal.ExecRequest{Cmd: []string{"python3", "-c", `import os, resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))
held = []
end = time.time() + 4
os.makedirs("/root/many", exist_ok=True)
for i in range(200000):
    if time.time() > end: break
    try:
        held.append(os.open("/root/many/%d" % i, os.O_CREAT | os.O_RDWR)); held.extend(os.pipe()); held.append(socket.socket().detach()); held.append(os.eventfd(0))
    except OSError: break
print(len(held))`}})
	e.recovers(t, sb)
}

// testMemoryBomb takes all memory in several ways. One process that does is killed in time, and nothing else of its sandbox; what
// can't be laid to a process may cost the sandbox its life.
func testMemoryBomb(t *testing.T, e env) {
	memory := int64(192 << 20)
	for name, cmd := range map[string][]string{
		"heap":   {"python3", "-c", "a = []\nwhile True: a.append(bytearray(8 << 20))"},
		"tmpfs":  {"sh", "-c", "head -c 4000000000 /dev/zero > /dev/shm/x"},
		"pipes":  {"python3", "-c", "import os\nh = []\nwhile True:\n  r, w = os.pipe(); h += [r, w]; os.set_blocking(w, False); os.write(w, b'x' * 65536)"},
		"unlink": {"python3", "-c", "import os\nf = open('/dev/shm/u', 'wb'); os.unlink('/dev/shm/u')\nwhile True: f.write(b'x' * (1 << 20))"},
	} {
		sb := e.Sandbox(t, shoal.CreateSandboxRequest{MemoryBytes: &memory})
		end := e.whileBombed(t, sb, shoal.ExecRequest{Cmd: cmd})
		if end.Outcome == shoal.OutcomeExited && end.ExitCode != nil && *end.ExitCode == 0 {
			t.Errorf("%s: more memory was taken than there is", name)
		}
		if name == "heap" {
			if end.Outcome != shoal.OutcomeSignaled || end.Signal != "SIGKILL" || !end.OutOfMemory {
				t.Errorf("%s: ended as %s by %q, out of memory %v", name, end.Outcome, end.Signal, end.OutOfMemory)
			}
			if got := e.Out(t, sb.ID, "echo alive"); got != "alive\n" {
				t.Errorf("%s: beside the dead process: %q", name, got)
			}
			if got, err := e.Client.Sandboxes().Get(ctx(t), sb.ID); err != nil || got.State != shoal.StateRunning || got.Incarnation != sb.Incarnation {
				t.Errorf("%s: the sandbox is %s, start %d: %v", name, got.State, got.Incarnation, err)
			}
		}
		e.recovers(t, sb)
		t.Logf("%s: %s", name, end.Outcome)
	}
}

// testOutputFlood prints without end to a client that does not read.
func testOutputFlood(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	var streams []shoal.ExecStream
	for range 8 {
		s, err := e.Client.Execs(sb.ID).Stream(ctx(t), shoal.ExecRequest{Shell: "yes $(head -c 2000 /dev/zero | tr '\\0' x) & yes error >&2"})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	before := rss(t, e.PID())
	for range 5 {
		e.undisturbed(t)
	}
	if now := rss(t, e.PID()); now > before+(200<<20) {
		t.Errorf("the server grew from %d to %d MiB", before>>20, now>>20)
	}
	for _, s := range streams {
		_ = s.Close()
	}
}

// rss is a process's resident memory in bytes.
func rss(t *testing.T, pid int) int64 {
	t.Helper()
	return procField(t, pid, "VmRSS") << 10
}

// testFullDisk fills the sandbox's disk beyond its limit: it gets "no space", and nobody else does.
func testFullDisk(t *testing.T, e env) {
	limit := int64(256 << 20)
	sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{DiskBytes: &limit})
	if shoal.ErrorCode(err) == "unsupported" {
		t.Skip("this kernel has no simple quotas: a limit is refused")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Client.Sandboxes().Delete(context.Background(), sb.ID) }()
	for _, user := range []string{"nobody", "root"} {
		res := e.Run(t, sb.ID, shoal.ExecRequest{User: user, Cmd: []string{"python3", "-c", `import errno, os
n, end = 0, None
f = os.open("/tmp/fill-` + user + `", os.O_CREAT | os.O_WRONLY)
block = os.urandom(1 << 20)
while n < 1024:
    try:
        os.write(f, block); n += 1
        if n % 16 == 0: os.fsync(f)
    except OSError as e:
        end = errno.errorcode[e.errno]; break
print(n, end)`}})
		e.Out(t, sb.ID, "rm -f /tmp/fill-"+user+"; sync")
		fields := strings.Fields(string(res.StdoutBytes()))
		if len(fields) != 2 || (fields[1] != "ENOSPC" && fields[1] != "EDQUOT") {
			t.Errorf("%s filled the disk: %q %s", user, res.StdoutBytes(), res.StderrBytes())
		}
	}
	e.Run(t, sb.ID, shoal.ExecRequest{Shell: "head -c 1000000000 /dev/urandom > /tmp/fill-again"})
	// The host's way in fails the same way, and with words of its own.
	_, err = e.Client.Files(sb.ID).Write(ctx(t), "/root/more", io.LimitReader(endless{}, 512<<20), shoal.WriteOptions{})
	wantCode(t, "write to a full disk", err, "exhausted", "quota")
	e.Out(t, e.neighbour.ID, "head -c 20000000 /dev/urandom > /root/x && sync && rm /root/x")
	e.Out(t, sb.ID, "rm -f /tmp/fill-*; sync")
	harness.Eventually(t, 30*time.Second, "space that was given back can be used", func() error {
		_, err := e.Client.Files(sb.ID).Write(ctx(t), "/root/more", io.LimitReader(endless{}, 8<<20), shoal.WriteOptions{})
		return err
	})
	var st unix.Statfs_t
	if err := unix.Statfs(e.Dir, &st); err != nil || st.Bavail == 0 {
		t.Errorf("the host's disk: %+v %v", st, err)
	}
}

// endless reads as random-looking bytes without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i * 7)
	}
	return len(p), nil
}

// testOddTrees makes trees that are hard to walk and deletes the sandbox with them.
func testOddTrees(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{})
	timeout := 60.0
	res := e.Run(t, sb.ID, shoal.ExecRequest{TimeoutSeconds: &timeout, Cmd: []string{"python3", "-c", `import os
os.makedirs("/root/deep"); os.chdir("/root/deep")
depth = 0
try:
    for _ in range(600):
        os.mkdir("d" * 200); os.chdir("d" * 200); depth += 1
except OSError as e:
    print("deep", depth, e.strerror)
os.makedirs("/root/wide"); os.chdir("/root/wide")
for i in range(3000): os.close(os.open("%d-" % i + "n" * 240, os.O_CREAT))
os.mkdir("/root/loop"); os.symlink("/root/loop", "/root/loop/loop"); os.symlink("a", "/root/loop/a")
for i in range(50): os.symlink("l%d" % (i + 1), "/root/loop/l%d" % i)
os.mkfifo("/root/loop/fifo")
open("/root/loop/\xff\n\x1b[2Jname", "w").close()
f = open("/root/loop/sparse", "w"); f.truncate(1 << 50)
`}})
	if res.Outcome != shoal.OutcomeExited || *res.ExitCode != 0 {
		t.Fatalf("%s %s", res.Outcome, res.StderrBytes())
	}
	files := e.Client.Files(sb.ID)
	n := 0
	for _, err := range files.List(ctx(t), "/root/wide") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 3000 {
		t.Errorf("%d entries listed", n)
	}
	for path, codes := range map[string][]shoal.Code{
		"/root/loop/a": {"invalid", "not_found", "conflict"}, "/root/loop/l0": {"invalid", "not_found", "conflict"},
		"/root/loop/fifo": {"invalid"}, "/root/wide": {"invalid", "conflict"},
		"/dev/zero": {"invalid", "unsupported", "conflict"}, "/root/loop/" + strings.Repeat("x", 300): {"invalid", "not_found"},
	} {
		c, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		r, err := files.Read(c, path)
		if err == nil {
			// A device that never ends is read for as long as the caller likes.
			_, err = io.Copy(io.Discard, io.LimitReader(r, 1<<20))
			_ = r.Close()
			if path != "/dev/zero" && path != "/root/loop/fifo" { // a fifo without a writer is empty
				t.Errorf("%.40q was read: %v", path, err)
			}
		} else {
			wantCode(t, path[:min(len(path), 40)], err, codes...)
		}
		if c.Err() != nil {
			t.Errorf("reading %.40q hung", path)
		}
		cancel()
	}
	if err := files.Remove(ctx(t), "/root/deep", true); err != nil {
		t.Errorf("remove a deep tree: %v", err)
	}
	begun := time.Now()
	if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the delete took %s", took)
	}
}
