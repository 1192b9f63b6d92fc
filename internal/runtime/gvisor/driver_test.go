package gvisor_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"shoal/internal/core"
	contract "shoal/internal/runtime"
)

// eventually calls check until it returns nil, for at most ten seconds.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("still after ten seconds: %v", err)
		case <-tick.C:
		}
	}
}

// session is a connection to the test agent.
type session struct {
	conn  net.Conn
	lines *bufio.Reader
}

// dialAgent connects as soon as the agent listens.
func dialAgent(t testing.TB, d contract.Driver, id core.SandboxID) *session {
	t.Helper()
	var s *session
	eventually(t, func() error {
		conn, err := d.DialGuest(t.Context(), id)
		if err != nil {
			return err
		}
		s = &session{conn: conn, lines: bufio.NewReader(conn)}
		return nil
	})
	t.Cleanup(func() { s.conn.Close() })
	return s
}

// ask sends one line and returns the answer.
func (s *session) ask(format string, args ...any) (string, error) {
	if err := s.conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(s.conn, format+"\n", args...); err != nil {
		return "", err
	}
	line, err := s.lines.ReadString('\n')
	return strings.TrimSpace(line), err
}

// must fails the test unless the agent answers.
func (s *session) must(t testing.TB, format string, args ...any) string {
	t.Helper()
	got, err := s.ask(format, args...)
	if err != nil {
		t.Fatalf("ask agent %q: %v", format, err)
	}
	return got
}

func TestLifeOfASandbox(t *testing.T) {
	h := newHost(t)
	d := h.open()
	t.Cleanup(h.sweep)
	ctx := context.Background()
	id := core.SandboxID(core.NewID())
	begin := time.Now()
	if err := d.Create(ctx, h.spec(id)); err != nil {
		t.Fatalf("Create: %v", err)
	}
	created := time.Since(begin)
	begin = time.Now()
	if err := d.Start(ctx, id); err != nil {
		t.Fatalf("Start: %v", err)
	}
	started := time.Since(begin)
	s := dialAgent(t, d, id)
	if got := s.must(t, "echo hello"); got != "hello" {
		t.Errorf("echo: %q", got)
	}
	t.Log(s.must(t, "stat /"), s.must(t, "read /etc/secret"), s.must(t, "cpus"), s.must(t, "read /proc/meminfo"), s.must(t, "write /tmp/x y"))
	st, err := d.Status(ctx, id)
	t.Logf("%+v %v", st, err)
	stats, err := d.Stats(ctx, id)
	t.Logf("%+v %v", stats, err)
	begin = time.Now()
	if err := d.Kill(ctx, id); err != nil {
		t.Fatalf("Kill: %v", err)
	}
	t.Logf("create %v start %v kill %v", created, started, time.Since(begin))
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
