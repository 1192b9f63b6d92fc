package fake

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/network"
	"shoal/internal/network/networktest"
)

func TestContract(t *testing.T) {
	kernels := map[string]*Kernel{}
	kernel := func(dir string) *Kernel {
		if kernels[dir] == nil {
			kernels[dir] = NewKernel()
		}
		return kernels[dir]
	}
	// The kernel of a slot is found by the slot: every test has one of its own.
	of := func(t *testing.T, id core.SandboxID) *Kernel {
		t.Helper()
		for _, k := range kernels {
			if _, ok := k.Egress(id); ok {
				return k
			}
		}
		t.Fatalf("no kernel has a slot of %s", id)
		return nil
	}
	networktest.Run(t,
		func(_ *testing.T, dir string) network.Driver { return New(kernel(dir)) },
		networktest.Options{
			Listen: func(t *testing.T, slot network.Slot, port uint16) net.Listener {
				t.Helper()
				l, err := of(t, slot.Sandbox).Listen(slot.Sandbox, port)
				if err != nil {
					t.Fatalf("listen in the slot: %v", err)
				}
				return l
			},
			Hold: func(t *testing.T, slot network.Slot) func() {
				t.Helper()
				release, err := of(t, slot.Sandbox).Hold(slot.Sandbox)
				if err != nil {
					t.Fatalf("hold the slot: %v", err)
				}
				return release
			},
		})
}

func TestFaults(t *testing.T) {
	boom := core.Errorf(core.CodeInternal, "boom")
	tests := []struct {
		name  string
		fault Fault
		// wantFirst and wantSecond are what two detaches return, wantSlot whether the first has left the slot.
		wantFirst, wantSecond error
		wantSlot              bool
	}{
		{"before the effect", Fault{Op: OpDetach, Times: 1, Err: boom}, boom, nil, true},
		{"after the effect", Fault{Op: OpDetach, Times: 1, Err: boom, After: true}, boom, nil, false},
		{"every time", Fault{Op: OpDetach, Err: boom}, boom, boom, true},
		{"of another method", Fault{Op: OpDial, Err: boom}, nil, nil, false},
		{"of another sandbox", Fault{Op: OpDetach, Sandbox: "other", Err: boom}, nil, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := NewKernel()
			d := New(k)
			id := core.SandboxID(core.NewID())
			if _, err := d.Attach(t.Context(), id, network.EgressDeny); err != nil {
				t.Fatalf("Attach: %v", err)
			}
			d.Inject(tt.fault)
			if err := d.Detach(t.Context(), id); !errors.Is(err, tt.wantFirst) {
				t.Errorf("first Detach: %v, want %v", err, tt.wantFirst)
			}
			if _, ok := k.Egress(id); ok != tt.wantSlot {
				t.Errorf("the slot is there: %v, want %v", ok, tt.wantSlot)
			}
			if err := d.Detach(t.Context(), id); !errors.Is(err, tt.wantSecond) {
				t.Errorf("second Detach: %v, want %v", err, tt.wantSecond)
			}
			if got := d.Calls(OpDetach); got != 2 {
				t.Errorf("%d calls counted, want 2", got)
			}
		})
	}
}

func TestFaultWaits(t *testing.T) {
	d := New(NewKernel())
	gate := make(chan struct{})
	d.Inject(Fault{Op: OpAttach, Wait: gate})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := d.Attach(ctx, core.SandboxID(core.NewID()), network.EgressDeny)
	if !core.IsCode(err, core.CodeTimeout) {
		t.Errorf("Attach behind a closed gate: %v, want a timeout", err)
	}
	close(gate)
	if _, err := d.Attach(t.Context(), core.SandboxID(core.NewID()), network.EgressDeny); err != nil {
		t.Errorf("Attach through an open gate: %v", err)
	}
}

func TestListenerEndsWithSlot(t *testing.T) {
	d := New(NewKernel())
	id := core.SandboxID(core.NewID())
	if _, err := d.Attach(t.Context(), id, network.EgressDeny); err != nil {
		t.Fatalf("Attach: %v", err)
	}
	l, err := d.Listen(id, 80)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	if _, err := d.Listen(id, 80); !core.IsCode(err, core.CodeExists) {
		t.Errorf("a second Listen: %v, want exists", err)
	}
	if err := d.Detach(t.Context(), id); err != nil {
		t.Fatalf("Detach: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Detach: %v, want %v", err, net.ErrClosed)
	}
}
