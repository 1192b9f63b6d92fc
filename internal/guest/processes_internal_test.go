package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// fakeProc is a proc filesystem of files.
type fakeProc struct {
	t   *testing.T
	dir string
}

func (p fakeProc) put(name, text string) {
	p.t.Helper()
	full := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p fakeProc) process(pid int, state string, parent int, started int64, command string, sockets ...int) {
	p.t.Helper()
	dir := fmt.Sprint(pid)
	p.put(dir+"/stat", fmt.Sprintf("%d (a) b) c) %s %d 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 %d 0 5 0\n", pid, state, parent, started))
	p.put(dir+"/status", "Name:\tx\nUid:\t1000\t0\t0\t0\n")
	p.put(dir+"/cmdline", command)
	p.put(dir+"/comm", "short\n")
	for i, inode := range sockets {
		link := filepath.Join(p.dir, dir, "fd", fmt.Sprint(i))
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			p.t.Fatal(err)
		}
		if err := os.Symlink(fmt.Sprintf("socket:[%d]", inode), link); err != nil {
			p.t.Fatal(err)
		}
	}
}

const socketsHead = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

func TestLookAtProcesses(t *testing.T) {
	t.Parallel()
	p := fakeProc{t, t.TempDir()}
	p.put("stat", "cpu 1 2\nbtime 1000\n")
	p.put("meminfo", "")
	p.process(1, "S", 0, 0, "/run/shoal/agent\x00", 70)
	p.process(12, "S", 1, 250, "python3\x00-m\x00http.server\x00\x00", 80, 81)
	p.process(13, "R", 12, 300, "")
	p.process(14, "Z", 12, 300, "")
	p.process(15, "S", 12, 300, strings.Repeat("x", 5000))
	p.put("net/tcp", socketsHead+
		"   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 80 1 0 100 0 0 10 0\n"+
		"   1: 0100007F:1F91 0100007F:C000 01 00000000:00000000 00:00000000 00000000     0        0 82 1 0 100 0 0 10 0\n"+
		"   2: 0100000A:1B9E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 70 1 0 100 0 0 10 0\n")
	p.put("net/tcp6", socketsHead+"   0: 00000000000000000000000001000000:0016 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 99 1\n")
	p.put("net/udp", socketsHead+"   0: 00000000:0035 00000000:0000 07 0:0 00:0 0 0 0 81 1\n")
	got, err := lookAtProcesses(p.dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	at := func(ticks int64) time.Time {
		return time.Unix(1000, 0).Add(time.Duration(ticks) * 10 * time.Millisecond).UTC()
	}
	for i := range got.Processes {
		got.Processes[i].User = "" // this machine's
	}
	want := wire.ProcessesReply{
		Processes: []wire.Process{
			{PID: 12, Parent: 1, UID: 1000, Command: wire.Bytes("python3 -m http.server"), StartedAt: at(250)},
			{PID: 13, Parent: 12, UID: 1000, Command: wire.Bytes("[short]"), StartedAt: at(300)},
			{PID: 15, Parent: 12, UID: 1000, Command: wire.Bytes(strings.Repeat("x", core.MaxCommandBytes)), Cut: true, StartedAt: at(300)},
		},
		Listeners: []wire.Listener{
			{Proto: "tcp", Address: "::1", Port: 22},
			{Proto: "tcp", Address: "0.0.0.0", Port: 8080, PID: 12},
			{Proto: "udp", Address: "0.0.0.0", Port: 53, PID: 12},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestManyProcesses: a reply has a bound, says what it leaves out, and fits into a frame whatever is in it.
func TestManyProcesses(t *testing.T) {
	t.Parallel()
	p := fakeProc{t, t.TempDir()}
	const many = core.MaxProcesses + 50
	for pid := 2; pid < many+2; pid++ {
		p.process(pid, "S", 1, 1, strings.Repeat("\x01", 2000))
	}
	var sockets strings.Builder
	for i := range core.MaxListeners + 7 {
		fmt.Fprintf(&sockets, "0: FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF:%04X 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 %d 1\n", i+1, i)
	}
	p.put("net/tcp6", socketsHead+sockets.String())
	got, err := lookAtProcesses(p.dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.Processes); n == 0 || int64(n)+got.MoreProcesses != many || len(got.Listeners) != core.MaxListeners || got.MoreListeners != 7 {
		t.Errorf("%d processes and %d more, %d listeners and %d more", n, got.MoreProcesses, len(got.Listeners), got.MoreListeners)
	}
	if b, err := wire.Encode(got); err != nil || len(b) > wire.MaxPayload {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func FuzzParseSockets(f *testing.F) {
	f.Add([]byte(socketsHead + "   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 80 1 0 100 0 0 10 0\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, proto := range []string{"tcp", "udp"} {
			for _, s := range parseSockets(text, proto) {
				if s.Port == 0 || s.Address == "" || s.Address == "invalid IP" {
					t.Errorf("%+v", s)
				}
			}
		}
	})
}
