package core_test

import (
	"testing"

	"shoal/internal/core"
)

// TestClocksOfEveryState walks the table: what is awake has its memory, and what has its memory has files.
func TestClocksOfEveryState(t *testing.T) {
	for _, s := range core.States() {
		c := core.ClocksOf(s)
		if c.Awake && !c.Memory || c.Memory && !c.Kept {
			t.Errorf("%s: %+v", s, c)
		}
		if wantAwake := s == core.StateRunning; c.Awake != wantAwake {
			t.Errorf("%s: awake %v", s, c.Awake)
		}
	}
	if core.ClocksOf(core.StateDeleted) != (core.Clocks{}) || core.ClocksOf(core.StateCreating) != (core.Clocks{}) {
		t.Error("what is not there yet, or not any more, counts nothing")
	}
}
