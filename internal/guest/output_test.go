package guest_test

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
)

// TestRunawayPrinter: a printer with a reader that does not read neither blocks for ever nor grows memory (named test
// 4).
func TestRunawayPrinter(t *testing.T) {
	a := startAgent(t, guest.Config{HoldBack: 200 * time.Millisecond}, client.Config{})
	id := newID()
	s, err := a.client.Exec(t.Context(), id, core.ExecSpec{Cmd: []string{"yes", strings.Repeat("x", 1000)}})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	// The ring, the pipe and the socket's buffers hold some MiB: beyond that it has got past the reader.
	eventually(t, "100 MiB are printed", func() bool {
		e, err := a.client.GetExec(t.Context(), id)
		if err == nil && e.OutputBytes-e.OutputFrom > 1<<20 {
			t.Fatalf("the ring holds %d bytes", e.OutputBytes-e.OutputFrom)
		}
		return err == nil && e.OutputBytes > 100<<20
	})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if err := a.client.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	r := collect(t, s, 0)
	if r.missing == 0 || r.exec.Outcome != core.OutcomeCanceled {
		t.Errorf("%d bytes missing, ended as %+v", r.missing, r.exec)
	}
}

// TestHoldBack: while the reader is slow but within bounds, the process waits and nothing is lost.
func TestHoldBack(t *testing.T) {
	a := startAgent(t, guest.Config{HoldBack: time.Minute}, client.Config{})
	id := newID()
	s, err := a.client.Exec(t.Context(), id, shell(`head -c 50000000 /dev/zero`))
	if err != nil {
		t.Fatal(err)
	}
	var last int64
	still := 0
	eventually(t, "the process waits", func() bool {
		e, err := a.client.GetExec(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if e.OutputBytes > 0 && e.OutputBytes == last {
			still++
		} else {
			still = 0
		}
		last = e.OutputBytes
		return still > 50
	})
	if last >= 50_000_000 {
		t.Fatal("the reader was not waited for")
	}
	if r := collect(t, s, 0); len(r.stdout) != 50_000_000 || r.missing != 0 {
		t.Errorf("%d bytes, %d missing", len(r.stdout), r.missing)
	}
}

// TestShortOutputBesideLargeOnes: what a process says that ends at once reaches its reader whole, however much room readers take that
// are too slow.
func TestShortOutputBesideLargeOnes(t *testing.T) {
	a := startAgent(t, guest.Config{HoldBack: time.Minute, RingBudget: 64 << 10}, client.Config{})
	for range 4 {
		s, err := a.client.Exec(t.Context(), newID(), shell(`head -c 50000000 /dev/zero`))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
	}
	for range 200 {
		s, err := a.client.Exec(t.Context(), newID(), shell("echo ok"))
		if err != nil {
			t.Fatal(err)
		}
		if r := collect(t, s, 0); string(r.stdout) != "ok\n" || r.missing != 0 {
			t.Fatalf("%q, %d bytes missing", r.stdout, r.missing)
		}
	}
}

// TestDetachedIsNotHeldBack: nobody holds a detached exec back.
func TestDetachedIsNotHeldBack(t *testing.T) {
	a := startAgent(t, guest.Config{HoldBack: time.Hour}, client.Config{})
	id := newID()
	s, err := a.client.Exec(t.Context(), id, core.ExecSpec{Shell: `head -c 50000000 /dev/zero`, Detach: true})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it ends by itself", func() bool {
		e, err := a.client.GetExec(t.Context(), id)
		return err == nil && e.Outcome == core.OutcomeExited
	})
	r := collect(t, s, 0)
	if int64(len(r.stdout))+r.missing != 50_000_000 || r.missing == 0 {
		t.Errorf("%d bytes, %d missing", len(r.stdout), r.missing)
	}
}

// TestClientGone: the process goes on, and who attaches at an offset misses and repeats nothing (named test 5).
func TestClientGone(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	id := newID()
	other := client.New(client.Config{Dial: a.dial})
	s, err := other.Exec(t.Context(), id, core.ExecSpec{Stdin: true, Shell: `
		i=0; while [ $i -lt 1000 ]; do echo $i; i=$((i+1)); done; read go; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done`})
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	for len(got) < 1000 {
		m, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Data...)
	}
	other.Close()
	if _, err := s.Recv(); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("recv after the client's end: %v", err)
	}
	if err := a.client.WriteStdin(t.Context(), id, []byte("go\n"), true); err != nil {
		t.Fatal(err)
	}
	s, err = a.client.Attach(t.Context(), id, int64(len(got)))
	if err != nil {
		t.Fatal(err)
	}
	r := collect(t, s, int64(len(got)))
	checkNumbers(t, append(got, r.stdout...), 3000)
	// After the end as well, from anywhere.
	for _, from := range []int64{0, 1, 777, int64(len(got) + len(r.stdout))} {
		s, err := a.client.Attach(t.Context(), id, from)
		if err != nil {
			t.Fatal(err)
		}
		if again := collect(t, s, from); string(again.stdout) != string(append(got, r.stdout...)[from:]) {
			t.Errorf("from %d: %d bytes", from, len(again.stdout))
		}
	}
	if _, err := a.client.Attach(t.Context(), id, 1<<30); !core.IsCode(err, core.CodeInvalid) {
		t.Errorf("attach beyond the end: %v", err)
	}
}

func checkNumbers(t *testing.T, text []byte, n int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != n {
		t.Errorf("%d lines, want %d", len(lines), n)
		return
	}
	for i, line := range lines {
		if line != itoa(i) {
			t.Errorf("line %d is %q", i, line)
			return
		}
	}
}

// cutter is a dialer whose connections can be cut.
type cutter struct {
	dial func(context.Context) (net.Conn, error)

	mu    sync.Mutex
	conns []net.Conn
	dials int
}

func (c *cutter) Dial(ctx context.Context) (net.Conn, error) {
	nc, err := c.dial(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dials++
	if err == nil {
		c.conns = append(c.conns, nc)
	}
	return nc, err
}

// cut breaks every connection that is open.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, nc := range c.conns {
		_ = nc.Close()
	}
	c.conns = nil
}

func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dials
}

// TestBrokenConnectionResumes: a broken connection alone loses nothing, however often it happens.
func TestBrokenConnectionResumes(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	cut := &cutter{dial: a.dial}
	c := client.New(client.Config{Dial: cut.Dial})
	defer c.Close()
	s, err := c.Exec(t.Context(), newID(), core.ExecSpec{Shell: `i=0; while [ $i -lt 5000 ]; do echo $i; i=$((i+1)); done`})
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	for n := 0; ; n++ {
		m, err := s.Recv()
		if err != nil {
			t.Fatalf("recv: %v", err)
		}
		if m.Kind == core.ExecEnded {
			if m.Exec.Outcome != core.OutcomeExited {
				t.Errorf("ended as %+v", m.Exec)
			}
			break
		}
		if m.Kind == core.ExecGap {
			t.Fatalf("gap of %d", m.Missing)
		}
		got = append(got, m.Data...)
		if n%3 == 0 {
			cut.cut()
		}
	}
	checkNumbers(t, got, 5000)
}

// TestStaleConnections: connections that broke while they were idle are replaced, and no start is lost or doubled.
func TestStaleConnections(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	cut := &cutter{dial: func(ctx context.Context) (net.Conn, error) {
		nc, err := a.dial(ctx)
		return struct{ net.Conn }{nc}, err // which can't be asked whether it is open
	}}
	c := client.New(client.Config{Dial: cut.Dial})
	defer c.Close()
	for range 10 {
		for range 3 {
			cut.cut()
			s, err := c.Exec(t.Context(), newID(), shell("echo x"))
			if err != nil {
				t.Fatalf("exec: %v", err)
			}
			cut.cut()
			r := collect(t, s, 0)
			if string(r.stdout) != "x\n" || r.exec.Outcome != core.OutcomeExited {
				t.Fatalf("%q, ended as %+v", r.stdout, r.exec)
			}
			cut.cut()
			s, err = c.Attach(t.Context(), r.exec.ID, 0)
			if err != nil {
				t.Fatalf("attach: %v", err)
			}
			collect(t, s, 0)
		}
		cut.cut()
		if err := c.Ping(t.Context()); err != nil {
			t.Fatalf("ping: %v", err)
		}
	}
}

// TestAgentGone: an agent that is gone makes its execs lost, never exited (part of named test 6).
func TestAgentGone(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	var mu sync.Mutex
	gone := false
	cut := &cutter{}
	cut.dial = func(ctx context.Context) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if gone {
			return nil, &net.OpError{Op: "dial", Err: context.Canceled}
		}
		return a.dial(ctx)
	}
	c := client.New(client.Config{Dial: cut.Dial, LostAfter: time.Second})
	defer c.Close()
	s, err := c.Exec(t.Context(), newID(), shell("sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	gone = true
	mu.Unlock()
	cut.cut()
	within(t, 5*time.Second, "learning that the agent is gone", func() {
		r := collect(t, s, 0)
		if r.exec.Outcome != core.OutcomeLost || r.exec.ExitCode != nil {
			t.Errorf("ended as %+v", r.exec)
		}
	})
	if err := c.Ping(t.Context()); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("ping: %v", err)
	}
}

// TestAgentRestarted: another agent that does not know the exec makes it lost.
func TestAgentRestarted(t *testing.T) {
	first := startAgent(t, guest.Config{}, client.Config{})
	second := startAgent(t, guest.Config{}, client.Config{})
	var mu sync.Mutex
	dial := first.dial
	cut := &cutter{dial: func(ctx context.Context) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		return dial(ctx)
	}}
	c := client.New(client.Config{Dial: cut.Dial})
	defer c.Close()
	s, err := c.Exec(t.Context(), newID(), shell("sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	dial = second.dial
	mu.Unlock()
	cut.cut()
	if r := collect(t, s, 0); r.exec.Outcome != core.OutcomeLost {
		t.Errorf("ended as %+v", r.exec)
	}
}

// TestSilence: sixty heartbeats of silence leave a stream as it is (named test 13).
func TestSilence(t *testing.T) {
	const beat = 250 * time.Millisecond // a busy machine delays one by tens of milliseconds, and three may not be missed
	a := startAgent(t, guest.Config{Heartbeat: beat}, client.Config{Heartbeat: beat})
	cut := &cutter{dial: a.dial}
	c := client.New(client.Config{Dial: cut.Dial, Heartbeat: beat})
	defer c.Close()
	s, err := c.Exec(t.Context(), newID(), core.ExecSpec{Shell: "sleep 2.5; echo after"})
	if err != nil {
		t.Fatal(err)
	}
	r := collect(t, s, 0)
	if string(r.stdout) != "after\n" || r.exec.Outcome != core.OutcomeExited {
		t.Errorf("stdout %q, ended as %+v", r.stdout, r.exec)
	}
	if n := cut.count(); n != 1 {
		t.Errorf("%d connections for one silent stream", n)
	}
}

// TestSilentPeer: a peer that sends no heartbeat is given up by both sides.
func TestSilentPeer(t *testing.T) {
	const beat = 20 * time.Millisecond
	a := startAgent(t, guest.Config{Heartbeat: beat}, client.Config{})
	nc, err := a.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	within(t, 5*time.Second, "giving up a silent host", func() {
		_, _ = nc.Read(make([]byte, 1))
	})
	mute := func(context.Context) (net.Conn, error) {
		host, guestEnd := net.Pipe()
		go func() {
			buf := make([]byte, 1024)
			for {
				if _, err := guestEnd.Read(buf); err != nil {
					return
				}
			}
		}()
		return host, nil
	}
	c := client.New(client.Config{Dial: mute, Heartbeat: beat})
	defer c.Close()
	within(t, 5*time.Second, "giving up a silent agent", func() {
		if err := c.Ping(t.Context()); !core.IsCode(err, core.CodeUnavailable) {
			t.Errorf("ping: %v", err)
		}
	})
}
