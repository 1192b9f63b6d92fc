package networktest

import (
	"context"
	"errors"
	"sync"

	"shoal/internal/core"
	"shoal/internal/network"
)

func testAttach(b bench) {
	t := b.t
	d := b.driver(t)
	id := newID()
	slot := attach(t, d, id)
	if slot.Sandbox != id || !slot.Addr.Is4() || slot.NetNS == "" {
		t.Errorf("Attach gave %+v: want the sandbox, an address and a namespace", slot)
	}
	if slot.Addr == network.GuestAddr || slot.Addr == network.GatewayAddr {
		t.Errorf("the slot's address is %v, which every sandbox sees", slot.Addr)
	}
	if got := listed(t, d)[id]; got != slot {
		t.Errorf("List has %+v, want %+v", got, slot)
	}
	got, err := d.Adopt(t.Context(), id)
	if err != nil || got != slot {
		t.Errorf("Adopt gave %+v, %v; want %+v", got, err, slot)
	}
}

func testAttachRefuses(b bench) {
	t := b.t
	d := b.driver(t)
	_, err := d.Attach(t.Context(), "../../etc", network.EgressDeny)
	wantCode(t, "Attach of a malformed id", err, core.CodeInvalid)
	id := newID()
	_, err = d.Attach(t.Context(), id, network.Egress("everything"))
	wantCode(t, "Attach with an unknown policy", err, core.CodeUnsupported)
	wantNone(t, d, id)
	attach(t, d, id)
	_, err = d.Attach(t.Context(), id, network.EgressDeny)
	wantCode(t, "a second Attach", err, core.CodeExists)
	if _, ok := listed(t, d)[id]; !ok {
		t.Error("a refused Attach took the slot away")
	}
}

func testDetach(b bench) {
	t := b.t
	d := b.driver(t)
	id, other := newID(), newID()
	detach(t, d, id)
	attach(t, d, id)
	attach(t, d, other)
	detach(t, d, id)
	wantNone(t, d, id)
	detach(t, d, id)
	if got := listed(t, d); len(got) != 1 || got[other].Sandbox != other {
		t.Errorf("List has %v, want only %s", got, other)
	}
}

func testReattach(b bench) {
	t := b.t
	d := b.driver(t)
	id := newID()
	first := attach(t, d, id)
	detach(t, d, id)
	second := attach(t, d, id)
	if first.Addr == second.Addr {
		t.Errorf("address %v was used again at once", first.Addr)
	}
	l := b.opts.Listen(t, second, network.AgentPort)
	serve(t, l, "second")
	wantGreeting(t, d, id, network.AgentPort, "second")
}

func testContext(b bench) {
	t := b.t
	d := b.driver(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	id := newID()
	_, err := d.Attach(ctx, id, network.EgressDeny)
	wantCode(t, "Attach with a canceled context", err, core.CodeCanceled)
	wantNone(t, d, id)
	attach(t, d, id)
	_, err = d.Dial(ctx, id, network.AgentPort)
	wantCode(t, "Dial with a canceled context", err, core.CodeCanceled)
}

func testAttachRace(b bench) {
	t := b.t
	d := b.driver(t)
	id := newID()
	const tries = 8
	errs := make([]error, tries)
	var wg sync.WaitGroup
	for i := range tries {
		wg.Go(func() { _, errs[i] = d.Attach(t.Context(), id, network.EgressDeny) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		wantCode(t, "an Attach that lost", err, core.CodeExists)
	}
	if won != 1 {
		t.Errorf("%d of %d attaches of one sandbox succeeded: %v", won, tries, errors.Join(errs...))
	}
	if got := listed(t, d); len(got) != 1 {
		t.Errorf("List has %v, want one slot", got)
	}
}

func testAttachDetachRace(b bench) {
	t := b.t
	d := b.driver(t)
	const sandboxes = 8
	ids := make([]core.SandboxID, sandboxes)
	var wg sync.WaitGroup
	for i := range ids {
		ids[i] = newID()
		wg.Go(func() {
			if _, err := d.Attach(t.Context(), ids[i], network.EgressDeny); err != nil {
				t.Errorf("Attach while being detached: %v", err)
			}
		})
		wg.Go(func() {
			if err := d.Detach(t.Context(), ids[i]); err != nil {
				t.Errorf("Detach while being attached: %v", err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		detach(t, d, id)
		wantNone(t, d, id)
	}
	if got := listed(t, d); len(got) != 0 {
		t.Errorf("List has %v, want nothing", got)
	}
}

func testMany(b bench) {
	t := b.t
	d := b.driver(t)
	const sandboxes = 20
	var wg sync.WaitGroup
	for range sandboxes {
		wg.Go(func() {
			if _, err := d.Attach(t.Context(), newID(), network.EgressDeny); err != nil {
				t.Errorf("Attach beside others: %v", err)
			}
		})
	}
	wg.Wait()
	addrs := map[string]bool{}
	for _, s := range listed(t, d) {
		addrs[s.Addr.String()] = true
	}
	if len(addrs) != sandboxes {
		t.Errorf("%d slots have %d addresses", sandboxes, len(addrs))
	}
}
