package networktest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/network"
)

// serve greets each caller with a word, then sends back what it hears. It ends with the test.
func serve(t *testing.T, l net.Listener, greeting string) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[c] = true
			mu.Unlock()
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				if _, err := io.WriteString(c, greeting+"\n"); err == nil {
					_, _ = io.Copy(c, c)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
}

func dial(t *testing.T, d network.Driver, id core.SandboxID, port uint16) net.Conn {
	t.Helper()
	c, err := d.Dial(t.Context(), id, port)
	if err != nil {
		t.Fatalf("Dial(%s, %d): %v", id, port, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatalf("set a deadline: %v", err)
	}
	return c
}

func readLine(t *testing.T, c net.Conn, want string) {
	t.Helper()
	buf := make([]byte, len(want)+1)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != want+"\n" {
		t.Fatalf("read %q, %v; want %q", buf, err, want)
	}
}

// wantGreeting dials and checks who answers, and that bytes go both ways.
func wantGreeting(t *testing.T, d network.Driver, id core.SandboxID, port uint16, greeting string) net.Conn {
	t.Helper()
	c := dial(t, d, id, port)
	readLine(t, c, greeting)
	if _, err := io.WriteString(c, "there and back\n"); err != nil {
		t.Fatalf("write: %v", err)
	}
	readLine(t, c, "there and back")
	return c
}

func testDial(b bench) {
	t := b.t
	d := b.driver(t)
	ids := []core.SandboxID{newID(), newID(), newID()}
	for _, id := range ids {
		slot := attach(t, d, id)
		serve(t, b.opts.Listen(t, slot, network.AgentPort), "agent of "+string(id))
		serve(t, b.opts.Listen(t, slot, 80), "web of "+string(id))
	}
	for _, id := range ids {
		wantGreeting(t, d, id, network.AgentPort, "agent of "+string(id))
		wantGreeting(t, d, id, 80, "web of "+string(id))
		// More than one connection at a time.
		wantGreeting(t, d, id, network.AgentPort, "agent of "+string(id))
	}
}

func testDialRefused(b bench) {
	t := b.t
	d := b.driver(t)
	id := newID()
	attach(t, d, id)
	start := time.Now()
	_, err := d.Dial(t.Context(), id, 81)
	wantCode(t, "Dial of a port where nothing listens", err, core.CodeUnavailable)
	if took := time.Since(start); took > 900*time.Millisecond {
		t.Errorf("the refusal took %v: it must not be a timeout", took)
	}
	_, err = d.Dial(t.Context(), id, 0)
	wantCode(t, "Dial of port 0", err, core.CodeInvalid)
	_, err = d.Dial(t.Context(), newID(), 80)
	wantCode(t, "Dial of an unknown sandbox", err, core.CodeNotFound)
}

func testDetachCuts(b bench) {
	t := b.t
	d := b.driver(t)
	id, other := newID(), newID()
	serve(t, b.opts.Listen(t, attach(t, d, id), network.AgentPort), "cut")
	serve(t, b.opts.Listen(t, attach(t, d, other), network.AgentPort), "kept")
	cut := wantGreeting(t, d, id, network.AgentPort, "cut")
	kept := wantGreeting(t, d, other, network.AgentPort, "kept")
	read := make(chan error, 1)
	go func() {
		_, err := cut.Read(make([]byte, 1))
		read <- err
	}()
	detach(t, d, id)
	start := time.Now()
	if err := <-read; err == nil {
		t.Error("a connection into a detached slot still reads")
	}
	if took := time.Since(start); took > patience/2 {
		t.Errorf("the connection ended after %v, by its deadline", took)
	}
	if err := cut.Close(); err != nil {
		t.Errorf("Close of a cut connection: %v", err)
	}
	if _, err := io.WriteString(kept, "still here\n"); err != nil {
		t.Errorf("write to another slot: %v", err)
	}
	readLine(t, kept, "still here")
}
