package guest

import "testing"

func TestProcessesFor(t *testing.T) {
	for memory, want := range map[int64]int{
		0: 1024, -1: 1024, 1 << 20: 64, 96 << 20: 64, 512 << 20: 341, 1536 << 20: 1024, 64 << 30: 1024,
	} {
		if got := processesFor(memory); got != want {
			t.Errorf("%d bytes allow %d processes, want %d", memory, got, want)
		}
	}
	if totalMemory() <= 0 {
		t.Error("this machine has no memory")
	}
}
