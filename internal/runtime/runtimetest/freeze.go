package runtimetest

import (
	"testing"
	"time"

	"shoal/internal/core"
	"shoal/internal/runtime"
)

// heldFor is how long what is held must say nothing: many times what an answer takes.
const heldFor = 300 * time.Millisecond

// wantHeld checks that a sandbox is held, by a question whose answer may come later.
func wantHeld(t *testing.T, d runtime.Driver, id core.SandboxID, agent *Session) {
	t.Helper()
	if got, err := agent.askWithin(heldFor, "echo held"); err == nil {
		t.Errorf("a sandbox that is held says %q", got)
	}
	st, err := d.Status(t.Context(), id)
	if err != nil || !st.Running {
		t.Errorf("Status of a sandbox that is held: %+v, %v", st, err)
	}
}

// freeze holds a sandbox twice over, and lets it go: what was asked meanwhile is answered then.
func (s *suite) freeze(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	spec, agent := s.started(t, d)
	other, neighbour := s.started(t, d)
	thaw := func(times int) {
		t.Helper()
		for range times {
			if err := d.Thaw(t.Context(), spec.ID); err != nil {
				t.Fatalf("Thaw: %v", err)
			}
		}
	}
	thaw(1) // of what is not held
	for round := range 3 {
		for range 1 + round {
			if err := d.Freeze(t.Context(), spec.ID); err != nil {
				t.Fatalf("Freeze: %v", err)
			}
		}
		wantHeld(t, d, spec.ID, agent)
		if got := neighbour.Must(t, "echo free"); got != "free" {
			t.Errorf("another sandbox says %q", got)
		}
		if _, err := d.Stats(t.Context(), spec.ID); err != nil {
			t.Errorf("Stats of a sandbox that is held: %v", err)
		}
		thaw(1 + round)
		if got, err := agent.next(answerTimeout); err != nil || got != "held" {
			t.Errorf("what was asked of it meanwhile is answered with %q, %v", got, err)
		}
		if got := agent.Must(t, "echo goes on"); got != "goes on" {
			t.Errorf("afterwards the sandbox says %q", got)
		}
	}
	s.kill(t, d, other.ID)
}

func (s *suite) freezeDead(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	nobody := core.SandboxID(core.NewID())
	wantCode(t, "Freeze of what is not there", d.Freeze(t.Context(), nobody), core.CodeNotFound)
	wantCode(t, "Thaw of what is not there", d.Thaw(t.Context(), nobody), core.CodeNotFound)
	spec := s.created(t, d)
	wantCode(t, "Freeze of what was not started", d.Freeze(t.Context(), spec.ID), core.CodeUnavailable)
	if err := d.Start(t.Context(), spec.ID); err != nil {
		t.Fatalf("Start after a Freeze that failed: %v", err)
	}
	Dial(t, d, spec.ID).Must(t, "echo alive")
	if err := d.Freeze(t.Context(), spec.ID); err != nil {
		t.Fatalf("Freeze: %v", err)
	}
	s.opts.Crash(t, d, spec.ID)
	nextExit(t, d)
	wantCode(t, "Freeze of what has ended", d.Freeze(t.Context(), spec.ID), core.CodeUnavailable)
	if err := d.Thaw(t.Context(), spec.ID); err != nil {
		t.Errorf("Thaw of what has ended: %v", err)
	}
}

// killFrozen ends what is held.
func (s *suite) killFrozen(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	spec, agent := s.started(t, d)
	if err := d.Freeze(t.Context(), spec.ID); err != nil {
		t.Fatalf("Freeze: %v", err)
	}
	s.kill(t, d, spec.ID)
	if _, err := agent.askWithin(heldFor, "echo still there"); err == nil {
		t.Error("the agent answers after Kill")
	}
	wantCode(t, "Thaw of what was killed", d.Thaw(t.Context(), spec.ID), core.CodeNotFound)
}

// adoptFrozen finds what a driver that is gone has held.
func (s *suite) adoptFrozen(t *testing.T) {
	t.Helper()
	d := s.opened(t)
	spec, agent := s.started(t, d)
	if err := d.Freeze(t.Context(), spec.ID); err != nil {
		t.Fatalf("Freeze: %v", err)
	}
	d = s.reopened(t, d)
	if err := d.Adopt(t.Context(), spec.ID, 1); err != nil {
		t.Fatalf("Adopt: %v", err)
	}
	wantHeld(t, d, spec.ID, agent)
	if err := d.Freeze(t.Context(), spec.ID); err != nil { // it is
		t.Fatalf("Freeze: %v", err)
	}
	if err := d.Thaw(t.Context(), spec.ID); err != nil {
		t.Fatalf("Thaw: %v", err)
	}
	if got, err := agent.next(answerTimeout); err != nil || got != "held" {
		t.Errorf("what was asked of it meanwhile is answered with %q, %v", got, err)
	}
	if got := Dial(t, d, spec.ID).Must(t, "echo new"); got != "new" {
		t.Errorf("a new connection says %q", got)
	}
	s.opts.Crash(t, d, spec.ID)
	if e := nextExit(t, d); e.ID != spec.ID {
		t.Errorf("Exit: %+v", e)
	}
}
