// Package networktest is the contract of package network as tests that every driver must pass.
//
// It must not know any driver: what a driver needs beyond the contract to be tested comes in Options. Start reading at
// Run.
package networktest

import (
	"context"
	"net"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/network"
)

// Options are what the suite needs beyond the contract.
type Options struct {
	// Listen listens in the slot on GuestAddr and the port, as a program of the sandbox would.
	Listen func(t *testing.T, slot network.Slot, port uint16) net.Listener
	// Hold keeps the slot's namespace in use, as a runtime does, until the returned function is called. It may be
	// called once.
	Hold func(t *testing.T, slot network.Slot) (release func())
}

// Open opens a driver on the state that dir names. Opened again with the same dir, be it after Close or not, it must
// find what the earlier driver left, as after a restart.
type Open func(t *testing.T, dir string) network.Driver

// Run runs the suite. Each test has a state of its own and destroys it in the end.
func Run(t *testing.T, open Open, opts Options) {
	t.Helper()
	tests := []struct {
		name string
		run  func(b bench)
	}{
		{"attach makes a slot that is listed and adopted", testAttach},
		{"attach refuses what it can't do", testAttachRefuses},
		{"detach removes the slot and is idempotent", testDetach},
		{"a second attach gets another address", testReattach},
		{"dial reaches the sandbox and no other", testDial},
		{"dial refuses at once where nothing listens", testDialRefused},
		{"detach cuts open connections", testDetachCuts},
		{"a context that has ended leaves nothing", testContext},
		{"one of many attaches of a sandbox wins", testAttachRace},
		{"attach and detach at once leave nothing", testAttachDetachRace},
		{"many slots have different addresses", testMany},
		{"a slot in use survives a restart", testRestart},
		{"a slot in use survives the death of the process", testDeath},
		{"a slot that nothing uses is gone after a restart", testRestartUnused},
		{"a closed driver says so", testClosed},
		{"destroy removes everything", testDestroy},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := bench{t: t, dir: t.TempDir(), open: open, opts: opts}
			t.Cleanup(func() {
				// The test's own driver is closed or destroyed by now: the state goes with a fresh one.
				if err := open(t, b.dir).Destroy(context.WithoutCancel(t.Context())); err != nil {
					t.Errorf("destroy after the test: %v", err)
				}
			})
			tt.run(b)
		})
	}
}

// bench is one test's state and ways to get at it.
type bench struct {
	t    *testing.T
	dir  string
	open Open
	opts Options
}

// driver opens a driver that is closed when the test ends.
func (b bench) driver(t *testing.T) network.Driver {
	t.Helper()
	d := b.open(t, b.dir)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close the driver: %v", err)
		}
	})
	return d
}

func newID() core.SandboxID { return core.SandboxID(core.NewID()) }

func attach(t *testing.T, d network.Driver, id core.SandboxID) network.Slot {
	t.Helper()
	slot, err := d.Attach(t.Context(), id, network.EgressDeny)
	if err != nil {
		t.Fatalf("Attach(%s): %v", id, err)
	}
	return slot
}

func detach(t *testing.T, d network.Driver, id core.SandboxID) {
	t.Helper()
	if err := d.Detach(t.Context(), id); err != nil {
		t.Fatalf("Detach(%s): %v", id, err)
	}
}

func listed(t *testing.T, d network.Driver) map[core.SandboxID]network.Slot {
	t.Helper()
	slots, err := d.List(t.Context())
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	m := map[core.SandboxID]network.Slot{}
	for _, s := range slots {
		if _, twice := m[s.Sandbox]; twice {
			t.Errorf("List has %s twice", s.Sandbox)
		}
		m[s.Sandbox] = s
	}
	return m
}

func wantCode(t *testing.T, what string, err error, want core.Code) {
	t.Helper()
	if !core.IsCode(err, want) {
		t.Errorf("%s: got %v, want code %q", what, err, want)
	}
}

// wantNone checks that the driver has no slot for the sandbox in any respect.
func wantNone(t *testing.T, d network.Driver, id core.SandboxID) {
	t.Helper()
	if s, ok := listed(t, d)[id]; ok {
		t.Errorf("List still has %+v", s)
	}
	_, err := d.Adopt(t.Context(), id)
	wantCode(t, "Adopt of a sandbox without a slot", err, core.CodeNotFound)
	c, err := d.Dial(t.Context(), id, network.AgentPort)
	if err == nil {
		_ = c.Close()
	}
	wantCode(t, "Dial of a sandbox without a slot", err, core.CodeNotFound)
}

// patience is how long a test waits for something that is bound to happen.
const patience = 10 * time.Second

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("still not after %v: %s", patience, what)
		}
	}
}
