package guest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
	"shoal/internal/guest/wire"
)

// agent is a guest agent in this process, and a client of it.
type agent struct {
	srv    *guest.Server
	client *client.Client
	addr   string
}

// agentLife is far longer than any test takes.
const agentLife = 90 * time.Second

// startAgent starts an agent that ends with the test.
func startAgent(t *testing.T, gc guest.Config, cc client.Config) *agent {
	t.Helper()
	a := startBare(t, gc, cc)
	id := wire.Identity{Sandbox: "box", Incarnation: 1, Env: map[string]string{"SHOAL_TEST": "sandbox"}, Workdir: t.TempDir()}
	if err := a.client.Configure(t.Context(), id); err != nil {
		t.Fatalf("configure: %v", err)
	}
	return a
}

// startBare starts an agent without an identity.
func startBare(t *testing.T, gc guest.Config, cc client.Config) *agent {
	t.Helper()
	srv, err := guest.New(gc)
	if err != nil {
		t.Fatalf("new agent: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), l) }()
	a := &agent{srv: srv, addr: l.Addr().String()}
	if cc.Dial == nil {
		cc.Dial = a.dial
	}
	a.client = client.New(cc)
	end := sync.OnceFunc(func() {
		a.client.Close()
		srv.Close()
	})
	// What waits for output that never comes fails where it waits, long before the test binary's own limit.
	watchdog := time.AfterFunc(agentLife, func() {
		t.Errorf("the agent was ended after %s", agentLife)
		end()
	})
	t.Cleanup(func() {
		watchdog.Stop()
		end()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return a
}

func (a *agent) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", a.addr)
}

// result is everything that a stream said.
type result struct {
	started        core.Exec
	exec           core.Exec
	stdout, stderr []byte
	missing        int64
}

// collect reads a stream to its end and checks that offsets fit.
func collect(t *testing.T, s core.ExecStream, pos int64) result {
	t.Helper()
	var r result
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return r
		}
		if err != nil {
			t.Fatalf("recv: %v", err)
		}
		switch m.Kind {
		case core.ExecStarted:
			r.started = *m.Exec
			continue
		case core.ExecStdout:
			r.stdout = append(r.stdout, m.Data...)
		case core.ExecStderr:
			r.stderr = append(r.stderr, m.Data...)
		case core.ExecGap:
			r.missing += m.Missing
		case core.ExecEnded:
			r.exec = *m.Exec
		}
		if m.Offset != pos {
			t.Fatalf("%s at offset %d, expected %d", m.Kind, m.Offset, pos)
		}
		pos += int64(len(m.Data)) + m.Missing
	}
}

// run runs an exec to its end.
func (a *agent) run(t *testing.T, spec core.ExecSpec) result {
	t.Helper()
	s, err := a.client.Exec(t.Context(), core.ExecID(core.NewID()), spec)
	if err != nil {
		t.Fatalf("exec: %v", err)
	}
	return collect(t, s, 0)
}

func shell(script string) core.ExecSpec { return core.ExecSpec{Shell: script} }

// within fails the test if f takes longer.
func within(t *testing.T, d time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(d):
		t.Fatalf("%s took longer than %s", what, d)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func TestExecSmoke(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	if err := a.client.Ping(t.Context()); err != nil {
		t.Fatalf("ping: %v", err)
	}
	r := a.run(t, shell(`echo out; echo err >&2; exit 7`))
	if r.exec.Outcome != core.OutcomeExited || r.exec.ExitCode == nil || *r.exec.ExitCode != 7 {
		t.Errorf("ended as %+v", r.exec)
	}
	if string(r.stdout) != "out\n" || string(r.stderr) != "err\n" {
		t.Errorf("output %q, %q", r.stdout, r.stderr)
	}
	if r.started.PID <= 0 {
		t.Errorf("started with pid %d", r.started.PID)
	}
}

func TestFileSmoke(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	want := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	if _, err := a.client.WriteFile(t.Context(), dir+"/sub/x", core.WriteOptions{Parents: true}, bytes.NewReader(want)); err != nil {
		t.Fatalf("write: %v", err)
	}
	info, r, err := a.client.ReadFile(t.Context(), dir+"/sub/x", 0, -1)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, want) || info.Size != int64(len(want)) {
		t.Errorf("read %d bytes, %v; info %+v", len(got), err, info)
	}
	list, _, err := a.client.ListFiles(t.Context(), dir, "", 10)
	if err != nil || len(list) != 1 || list[0].Name != "sub" {
		t.Errorf("list %+v, %v", list, err)
	}
}
