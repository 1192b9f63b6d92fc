package guest_test

import (
	"context"
	"net"
	"testing"

	"shoal/internal/core"
	"shoal/internal/guest"
	"shoal/internal/guest/client"
	"shoal/internal/guest/wire"
)

func TestConfigure(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	ctx := t.Context()
	for name, c := range map[string]struct {
		id   wire.Identity
		want core.Code
	}{
		"older":        {wire.Identity{Sandbox: "box", Incarnation: 0}, core.CodeConflict},
		"no sandbox":   {wire.Identity{Incarnation: 5}, core.CodeInvalid},
		"bad hostname": {wire.Identity{Sandbox: "box", Incarnation: 5, Hostname: "a b"}, core.CodeInvalid},
		"bad workdir":  {wire.Identity{Sandbox: "box", Incarnation: 5, Workdir: "rel"}, core.CodeInvalid},
	} {
		if err := a.client.Configure(ctx, c.id); core.CodeOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := a.client.Configure(ctx, wire.Identity{Sandbox: "fork", Incarnation: 0, Env: map[string]string{"SHOAL_TEST": "fork"}}); err != nil {
		t.Fatal(err)
	}
	if h, err := a.client.Hello(ctx); err != nil || h.Sandbox != "fork" || h.Version != wire.Version {
		t.Errorf("hello %+v, %v", h, err)
	}
	if r := a.run(t, shell("echo $SHOAL_TEST")); string(r.stdout) != "fork\n" {
		t.Errorf("environment of the new identity: %q", r.stdout)
	}
}

func TestRunningAndRecordLimits(t *testing.T) {
	a := startAgent(t, guest.Config{MaxRunning: 2, MaxRecords: 5}, client.Config{})
	var ids []core.ExecID
	for range 2 {
		id := newID()
		if _, err := a.client.Exec(t.Context(), id, shell("sleep 1000")); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if _, err := a.client.Exec(t.Context(), newID(), shell("true")); !core.IsCode(err, core.CodeExhausted) {
		t.Errorf("a third exec: %v", err)
	}
	if err := a.client.Cancel(t.Context(), ids[1]); err != nil {
		t.Fatal(err)
	}
	running := func() int {
		m, err := a.client.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m.RunningExecs
	}
	eventually(t, "room for another", func() bool { return running() == 1 })
	var ended []core.ExecID
	for range 6 {
		ended = append(ended, a.run(t, shell("echo x")).exec.ID)
		eventually(t, "the exec is released", func() bool { return running() == 1 })
	}
	list, err := a.client.ListExecs(t.Context())
	if err != nil || len(list) != 5 || list[0].ID != ids[0] || list[4].ID != ended[5] {
		t.Fatalf("remembered %+v, %v", list, err)
	}
	// An acknowledged record goes before one that is not, though it is newer.
	if err := a.client.Acknowledge(t.Context(), []core.ExecID{ended[4], newID()}); err != nil {
		t.Fatal(err)
	}
	a.run(t, shell("true"))
	eventually(t, "the acknowledged record has gone", func() bool {
		_, err := a.client.GetExec(t.Context(), ended[4])
		return core.IsCode(err, core.CodeNotFound)
	})
	if _, err := a.client.GetExec(t.Context(), ended[3]); err != nil {
		t.Errorf("a record that was not acknowledged: %v", err)
	}
}

// TestRingBudget: the output of ended execs gives way, and what is gone is a gap.
func TestRingBudget(t *testing.T) {
	a := startAgent(t, guest.Config{RingBudget: 1 << 20}, client.Config{})
	first := a.run(t, shell("head -c 700000 /dev/zero")).exec
	a.run(t, shell("head -c 700000 /dev/zero"))
	s, err := a.client.Attach(t.Context(), first.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if r := collect(t, s, 0); r.missing != 700_000 || r.exec.Outcome != core.OutcomeExited {
		t.Errorf("missing %d, ended as %+v", r.missing, r.exec)
	}
}

func TestPeersAndConnections(t *testing.T) {
	closed := startBare(t, guest.Config{AllowPeer: func(net.Addr) bool { return false }}, client.Config{})
	if err := closed.client.Ping(t.Context()); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("a peer that is not allowed: %v", err)
	}
	a := startBare(t, guest.Config{MaxConns: 1}, client.Config{})
	if err := a.client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := client.New(client.Config{Dial: a.dial})
	defer other.Close()
	if err := other.Ping(t.Context()); !core.IsCode(err, core.CodeUnavailable) {
		t.Errorf("a connection too many: %v", err)
	}
	a.client.Close()
	eventually(t, "room for another connection", func() bool { return other.Ping(context.Background()) == nil })
}

// TestUnknownOperationAndField: what a newer host asks for is refused by name, and the connection goes on.
func TestUnknownOperationAndField(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	nc, err := a.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	w, r := wire.NewWriter(nc), wire.NewReader(nc)
	for request, want := range map[string]wire.Fault{
		`{"op":"teleport"}`:                        {Code: "unsupported"},
		`{"op":"get","args":{"id":"x","color":1}}`: {Code: "unsupported", Field: "color"},
		`{"op":"get","args":{"id":1}}`:             {Code: "invalid"},
		`nonsense`:                                 {Code: "invalid"},
	} {
		if err := w.Write(wire.FrameRequest, []byte(request)); err != nil {
			t.Fatal(err)
		}
		f, err := r.Next()
		var got wire.Fault
		if err != nil || f.Type != wire.FrameError || wire.DecodeReply(f.Payload, &got) != nil {
			t.Fatalf("%s: type %d, %v", request, f.Type, err)
		}
		if got.Code != want.Code || got.Field != want.Field {
			t.Errorf("%s: %+v, want %+v", request, got, want)
		}
	}
}
