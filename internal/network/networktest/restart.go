package networktest

import (
	"io"
	"testing"

	"shoal/internal/core"
	"shoal/internal/network"
)

func testRestart(b bench) {
	t := b.t
	first := b.driver(t)
	id := newID()
	slot := attach(t, first, id)
	release := b.opts.Hold(t, slot)
	serve(t, b.opts.Listen(t, slot, network.AgentPort), "survivor")
	gone := attach(t, first, newID())
	detach(t, first, gone.Sandbox)
	if err := first.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}

	second := b.driver(t)
	checkSurvivor(t, b, second, slot)
	release()
	detach(t, second, id)
	wantNone(t, second, id)
	if next := attach(t, second, newID()); next.Addr == slot.Addr || next.Addr == gone.Addr {
		t.Errorf("address %v was used again after a restart", next.Addr)
	}
}

// testDeath leaves the first driver open, with all it holds in memory, as no orderly end would.
func testDeath(b bench) {
	t := b.t
	first := b.driver(t)
	id := newID()
	slot := attach(t, first, id)
	serve(t, b.opts.Listen(t, slot, network.AgentPort), "survivor")
	open := wantGreeting(t, first, id, network.AgentPort, "survivor")

	second := b.driver(t)
	checkSurvivor(t, b, second, slot)
	if _, err := io.WriteString(open, "still here\n"); err != nil {
		t.Errorf("write to a connection from before: %v", err)
	}
	readLine(t, open, "still here")
}

// checkSurvivor checks that a new driver has taken over a slot in all respects.
func checkSurvivor(t *testing.T, b bench, d network.Driver, slot network.Slot) {
	t.Helper()
	got, err := d.Adopt(t.Context(), slot.Sandbox)
	if err != nil {
		t.Fatalf("Adopt after a restart: %v", err)
	}
	if got.Sandbox != slot.Sandbox || got.Addr != slot.Addr {
		t.Errorf("Adopt gave %+v, want the slot %+v", got, slot)
	}
	if in := listed(t, d); len(in) != 1 || in[slot.Sandbox].Addr != slot.Addr {
		t.Errorf("List after a restart has %v, want %+v", in, slot)
	}
	wantGreeting(t, d, slot.Sandbox, network.AgentPort, "survivor")
	_, err = d.Attach(t.Context(), slot.Sandbox, network.EgressDeny)
	wantCode(t, "Attach of a slot from before", err, core.CodeExists)
}

func testRestartUnused(b bench) {
	t := b.t
	first := b.driver(t)
	id := newID()
	attach(t, first, id)
	if err := first.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	second := b.driver(t)
	eventually(t, "the unused slot is gone", func() bool {
		_, err := second.Adopt(t.Context(), id)
		return core.IsCode(err, core.CodeNotFound)
	})
	if got := listed(t, second); len(got) != 0 {
		t.Errorf("List has %v, want nothing", got)
	}
	attach(t, second, id)
}

func testClosed(b bench) {
	t := b.t
	d := b.driver(t)
	id := newID()
	attach(t, d, id)
	if err := d.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	_, err := d.Attach(t.Context(), newID(), network.EgressDeny)
	wantCode(t, "Attach after Close", err, core.CodeUnavailable)
	_, err = d.Adopt(t.Context(), id)
	wantCode(t, "Adopt after Close", err, core.CodeUnavailable)
	_, err = d.List(t.Context())
	wantCode(t, "List after Close", err, core.CodeUnavailable)
	_, err = d.Dial(t.Context(), id, network.AgentPort)
	wantCode(t, "Dial after Close", err, core.CodeUnavailable)
	wantCode(t, "Detach after Close", d.Detach(t.Context(), id), core.CodeUnavailable)
	wantCode(t, "Destroy after Close", d.Destroy(t.Context()), core.CodeUnavailable)
	if err := d.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

func testDestroy(b bench) {
	t := b.t
	d := b.driver(t)
	id := newID()
	slot := attach(t, d, id)
	serve(t, b.opts.Listen(t, slot, network.AgentPort), "doomed")
	c := wantGreeting(t, d, id, network.AgentPort, "doomed")
	if err := d.Destroy(t.Context()); err != nil {
		t.Fatalf("Destroy: %v", err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlived Destroy")
	}
	_, err := d.Attach(t.Context(), newID(), network.EgressDeny)
	wantCode(t, "Attach after Destroy", err, core.CodeUnavailable)
	fresh := b.driver(t)
	wantNone(t, fresh, id)
	attach(t, fresh, id)
}
