package e2e_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/store"
	"shoal/internal/store/sqlite"
	shoal "shoal/sdk/go"
	"shoal/test/harness"
)

// stop stops a sandbox at once.
func (e env) stop(t *testing.T, sb shoal.Sandbox) shoal.Sandbox {
	t.Helper()
	got, err := e.Client.Sandboxes().Stop(ctx(t), sb.ID, shoal.StopOptions{Grace: new(time.Duration)})
	if err != nil || got.State != shoal.StateStopped {
		t.Fatalf("stopped it is %+v, %v", got, err)
	}
	return got
}

// wake wakes a sandbox, which keeps what it is.
func (e env) wake(t *testing.T, sb shoal.Sandbox) shoal.Sandbox {
	t.Helper()
	got, err := e.Client.Sandboxes().Wake(ctx(t), sb.ID)
	if err != nil || got.State != shoal.StateRunning || got.Incarnation <= sb.Incarnation || !got.ExpiresAt.Equal(sb.ExpiresAt) {
		t.Fatalf("awake it is %+v, %v", got, err)
	}
	return got
}

// testStopKeepsWrites: what was written right before a stop is there after it, also what no program has flushed, through a file that is still
// open and through memory.
func testStopKeepsWrites(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Name: "writer", Persistent: true, Env: map[string]string{"KEPT": "env"}})
	identity := "hostname; cat /etc/hostname /etc/machine-id; echo $KEPT; id"
	who := e.Out(t, sb.ID, identity)
	const script = `
import mmap, os, time
os.makedirs("/root/w", exist_ok=True)
held = open("/root/w/held", "wb", buffering=0)
m = open("/root/w/mapped", "w+b"); m.truncate(1 << 20)
shared = mmap.mmap(m.fileno(), 1 << 20)
shared[:1 << 20] = b"m" * (1 << 20)
for i in range(500):
    with open("/root/w/%d" % i, "w") as f: f.write("file %d" % i)
os.rename("/root/w/0", "/root/w/renamed")
held.write(b"h" * (4 << 20))
shared[123456:123460] = b"last"
print("written", flush=True)
time.sleep(600)
`
	for round := range 2 {
		stream, err := e.Client.Execs(sb.ID).Stream(ctx(t), shoal.ExecRequest{Cmd: []string{"python3", "-c", script}})
		if err != nil {
			t.Fatal(err)
		}
		for out := ""; !strings.Contains(out, "written"); {
			m, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			out += string(m.Bytes())
		}
		e.stop(t, sb)
		_ = stream.Close()
		if got := e.read(t, sb, "/root/w/499"); string(got) != "file 499" {
			t.Errorf("round %d: while it is stopped: %q", round, got)
		}
		sb = e.wake(t, sb)
		if got := e.Out(t, sb.ID, `python3 -c '
m = open("/root/w/mapped", "rb").read(); h = open("/root/w/held", "rb").read()
assert len(m) == 1 << 20 and m[123456:123460] == b"last" and m.count(b"m") == (1 << 20) - 4, m[:20]
assert h == b"h" * (4 << 20), len(h)
assert open("/root/w/renamed").read() == "file 0"
assert all(open("/root/w/%d" % i).read() == "file %d" % i for i in range(1, 500))
print("kept")' && rm -r /root/w`); got != "kept\n" {
			t.Errorf("round %d: %s", round, got)
		}
		if got := e.Out(t, sb.ID, identity); got != who {
			t.Errorf("round %d: it is\n%s\nand was\n%s", round, got, who)
		}
	}
}

// testStopKeepsTree compares everything about every kind of file that is in the tree; gVisor keeps named pipes and sockets to itself.
func testStopKeepsTree(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Persistent: true})
	e.Out(t, sb.ID, `mkdir -p /root/t/d/e && cd /root/t && echo x >f && ln f d/hard && ln -s ../f d/soft && ln -s /nowhere broken &&
		truncate -s 1G sparse && printf end | dd of=sparse bs=1 seek=500000000 conv=notrunc status=none &&
		chown 1234:4321 f && chmod 6751 f && chmod 1777 d && chmod 000 d/e && chown -h 7:8 d/soft && touch -h -d '2002-03-04 01:02:03.987654321' d/soft &&
		touch -d '1999-12-31 23:59:59.123456789' f && touch "$(printf 'a\nb')" && python3 -c 'import os
os.setxattr("f", "user.k", bytes(range(256)))
open(b"\xff\xfe", "w").close()
' && touch -d '2010-11-12 13:14:15.111222333' sparse && touch -d 2001-02-03 d .`)
	const look = `python3 -c 'import os, stat
for at, dirs, files in os.walk(b"/root/t"):
    dirs.sort()
    for name in sorted(dirs + files) + [b"."]:
        p = os.path.join(at, name); s = os.lstat(p)
        link = os.readlink(p) if stat.S_ISLNK(s.st_mode) else b""
        attrs = [(k, os.getxattr(p, k)) for k in os.listxattr(p)] if stat.S_ISREG(s.st_mode) or stat.S_ISDIR(s.st_mode) else []
        size = 0 if stat.S_ISDIR(s.st_mode) else s.st_size
        print(p, oct(s.st_mode), s.st_uid, s.st_gid, size, s.st_nlink if not stat.S_ISDIR(s.st_mode) else 0, s.st_mtime_ns, s.st_blocks < 4096, link, attrs)'`
	want := e.Out(t, sb.ID, look)
	if n := strings.Count(want, "\n"); n < 12 || !strings.Contains(want, "946684799123456789") {
		t.Fatalf("at first:\n%s", want)
	}
	for range 2 {
		e.stop(t, sb)
		sb = e.wake(t, sb)
		if got := e.Out(t, sb.ID, look); got != want {
			t.Fatalf("it is\n%s\nand was\n%s", got, want)
		}
	}
}

// testStoppedTakesNothing: no process, memory, network or group is left of a stopped sandbox, also not after a restart, and its delete starts nothing.
func testStoppedTakesNothing(t *testing.T, e env) {
	before := len(harness.Processes(e.Dir))
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Persistent: true})
	e.Out(t, sb.ID, "echo kept >/root/f; (setsid sleep 600 >/dev/null 2>&1 &)")
	e.stop(t, sb)
	nothing := func() {
		t.Helper()
		if n := len(harness.Processes(e.Dir)); n != before {
			t.Errorf("%d processes, %d before it was made", n, before)
		}
		if _, err := os.Stat(filepath.Join(e.Dir, "node/run", sb.ID)); err == nil {
			t.Error("its run directory is left")
		}
		if names, err := harness.RouterLinks(e.Dir); err != nil || len(names) > 1+before/2 {
			t.Errorf("interfaces %v, %v", names, err)
		}
	}
	nothing()
	if _, err := e.Client.Sandboxes().Metrics(ctx(t), sb.ID); shoal.ErrorCode(err) != shoal.CodeConflict {
		t.Errorf("metrics: %v", err)
	}
	_, err := e.Client.Execs(sb.ID).Run(ctx(t), shoal.ExecRequest{Cmd: []string{"true"}})
	if got := wantCode(t, err, shoal.CodeConflict); !strings.Contains(got.Message, "wake") {
		t.Errorf("an exec is told %q", got.Message)
	}
	_, err = e.Client.Files(sb.ID).Write(ctx(t), "/root/g", strings.NewReader("x"), shoal.WriteOptions{})
	if got := wantCode(t, err, shoal.CodeConflict); !strings.Contains(got.Message, "wake") {
		t.Errorf("a write is told %q", got.Message)
	}
	for _, how := range []string{"kill", "stop"} {
		if how == "kill" {
			e.Kill()
		} else {
			e.Stop()
		}
		e.Restart(harness.Options{})
		nothing()
		if got, err := e.Client.Sandboxes().Get(ctx(t), sb.ID); err != nil || got.State != shoal.StateStopped {
			t.Errorf("after %s it is %s, %v", how, got.State, err)
		}
		if got := e.read(t, sb, "/root/f"); string(got) != "kept\n" {
			t.Errorf("after %s: %q", how, got)
		}
	}
	sb = e.wake(t, sb)
	e.stop(t, sb)
	if err := e.Client.Sandboxes().Delete(ctx(t), sb.ID); err != nil {
		t.Fatal(err)
	}
	e.nothingLeft(t, sb.ID)
	nothing()
	list, err := e.Client.Events().List(ctx(t), shoal.EventsOptions{Sandbox: sb.ID, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var life []string
	for _, ev := range list.Events {
		if kind, ok := strings.CutPrefix(ev.Type, "sandbox."); ok {
			life = append(life, kind)
		}
	}
	if got := strings.Join(life, " "); got != "creating running stopping stopped waking running stopping stopped deleted" {
		t.Errorf("events: %s", got)
	}
}

// testStopAsks: a process may end by itself within the grace, in a terminal too, and one that doesn't is killed after it.
func testStopAsks(t *testing.T, e env) {
	sb := e.Sandbox(t, shoal.CreateSandboxRequest{Persistent: true})
	start := func(req shoal.ExecRequest) shoal.Exec {
		t.Helper()
		req.Detach = true
		x, err := e.Client.Execs(sb.ID).Start(ctx(t), req)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	polite := start(shoal.ExecRequest{Shell: "trap 'echo asked >/root/polite; exit 7' TERM; touch /root/1; while :; do sleep 0.05; done"})
	shell := start(shoal.ExecRequest{Cmd: []string{"bash", "--norc", "-i"}, Tty: true})
	deaf := start(shoal.ExecRequest{Shell: "trap '' TERM HUP; touch /root/3; while :; do date +%s%N >/root/deaf; sleep 0.05; done"})
	harness.Eventually(t, 30*time.Second, "all of them are ready", func() error {
		if got := e.Out(t, sb.ID, "ls /root/1 /root/3 2>/dev/null | wc -l"); got != "2\n" {
			return fmt.Errorf("%s of 2", got)
		}
		return nil
	})
	grace := 2 * time.Second
	begin := time.Now()
	if _, err := e.Client.Sandboxes().Stop(ctx(t), sb.ID, shoal.StopOptions{Grace: &grace}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < grace {
		t.Errorf("the deaf one had %s", took)
	}
	for name, tc := range map[string]struct {
		id   string
		want func(x shoal.Exec) bool
	}{
		"polite": {polite.ID, func(x shoal.Exec) bool { return x.Outcome == shoal.OutcomeExited && *x.ExitCode == 7 }},
		"shell": {shell.ID, func(x shoal.Exec) bool {
			return x.Outcome == shoal.OutcomeSignaled && x.Signal == "SIGHUP" || x.Outcome == shoal.OutcomeExited
		}},
		"deaf": {deaf.ID, func(x shoal.Exec) bool {
			return x.Outcome == shoal.OutcomeSignaled && x.Signal == "SIGKILL" || x.Outcome == shoal.OutcomeLost
		}},
	} {
		if x, err := e.Client.Execs(sb.ID).Get(ctx(t), tc.id); err != nil || !tc.want(x) {
			t.Errorf("%s: %+v, %v", name, x, err)
		}
	}
	if got := e.read(t, sb, "/root/polite"); string(got) != "asked\n" {
		t.Errorf("the polite one wrote %q", got)
	}
}

// testStopKeepsLimit: the disk's limit holds after a wake, and one that was changed meanwhile does from then on.
func testStopKeepsLimit(t *testing.T, e env) {
	small, large := int64(48<<20), int64(128<<20)
	sb, err := e.Client.Sandboxes().Create(ctx(t), shoal.CreateSandboxRequest{Persistent: true, DiskBytes: &small})
	if shoal.ErrorCode(err) == shoal.CodeUnsupported {
		t.Skip("this kernel has no simple quotas")
	}
	if err != nil {
		t.Fatal(err)
	}
	e.DeleteAtEnd(t, sb.ID)
	fits := func(mib int) bool {
		res := e.sh(t, sb, fmt.Sprintf("dd if=/dev/urandom of=/root/big bs=1M count=%d conv=fsync; x=$?; rm -f /root/big; sync; exit $x", mib))
		return *res.ExitCode == 0
	}
	e.stop(t, sb)
	sb = e.wake(t, sb)
	if fits(100) || !fits(16) {
		t.Error("the limit of 48 MiB doesn't hold after a wake")
	}
	e.stop(t, sb)
	if _, err := e.Client.Sandboxes().Update(ctx(t), sb.ID, shoal.UpdateSandboxRequest{DiskBytes: &large}); err != nil {
		t.Fatal(err)
	}
	sb = e.wake(t, sb)
	if !fits(90) || fits(200) {
		t.Error("the limit of 128 MiB that it was given while it was stopped doesn't hold")
	}
	e.Out(t, sb.ID, "dd if=/dev/urandom of=/root/kept bs=1M count=60 conv=fsync status=none")
	e.stop(t, sb)
	_, err = e.Client.Sandboxes().Update(ctx(t), sb.ID, shoal.UpdateSandboxRequest{DiskBytes: &small})
	wantCode(t, err, shoal.CodeConflict)
}

// testReboot: a restart of the machine ends all processes. What is to be kept is stopped then, and what isn't has failed; the files of both are
// there, and both can be woken.
func testReboot(t *testing.T, e env) {
	kept, brief := e.Sandbox(t, shoal.CreateSandboxRequest{Persistent: true}), e.Sandbox(t, shoal.CreateSandboxRequest{})
	for _, sb := range []shoal.Sandbox{kept, brief} {
		e.Out(t, sb.ID, "echo kept >/root/f; sync")
	}
	e.Kill()
	for _, p := range harness.Processes(e.Dir) {
		if err := unix.Kill(p.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
	}
	db, err := sqlite.Open(ctx(t), sqlite.Config{Path: filepath.Join(e.Dir, "shoal.db"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(ctx(t), func(tx store.Tx) error {
		node, err := tx.Setting("node_id")
		if err != nil {
			return err
		}
		if _, err := tx.Setting("boot_id." + node); err != nil {
			return err
		}
		return tx.PutSetting("boot_id."+node, "another")
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	e.Restart(harness.Options{})
	for _, want := range []struct {
		sb    shoal.Sandbox
		state shoal.SandboxState
	}{{kept, shoal.StateStopped}, {brief, "failed"}} {
		got, err := e.Client.Sandboxes().Get(ctx(t), want.sb.ID)
		if err != nil || got.State != want.state {
			t.Errorf("it is %s (%s), want %s: %v", got.State, got.Failure, want.state, err)
		}
		if got := e.read(t, want.sb, "/root/f"); string(got) != "kept\n" {
			t.Errorf("its file is %q", got)
		}
	}
	e.stop(t, brief)
	for _, sb := range []shoal.Sandbox{kept, brief} {
		if got := e.Out(t, e.wake(t, sb).ID, "cat /root/f"); got != "kept\n" {
			t.Errorf("awake it has %q", got)
		}
	}
}
