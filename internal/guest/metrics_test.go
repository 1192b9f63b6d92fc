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

func TestUsedMemory(t *testing.T) {
	for name, c := range map[string]struct {
		info string
		used int64
	}{
		"some is left": {"MemTotal: 1000 kB\nMemFree: 400 kB\nAnonPages: 450 kB\nMapped: 100 kB\n", 500 << 10},
		"beyond":       {"MemTotal: 1000 kB\nMemFree: 0 kB\nAnonPages: 3000 kB\nMapped: 100 kB\n", 3070 << 10},
	} {
		if used, limit, _ := usedMemory([]byte(c.info), 70<<10); used != c.used || limit != 1000<<10 {
			t.Errorf("%s: %d of %d", name, used, limit)
		}
	}
}
