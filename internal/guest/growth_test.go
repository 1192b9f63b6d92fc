package guest_test

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"

	"shoal/internal/guest"
	"shoal/internal/guest/client"
)

// heap returns what is in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what a pool kept goes in the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestExecsDoNotAddUp: five times as many execs as are remembered take no more memory than those.
func TestExecsDoNotAddUp(t *testing.T) {
	a := startAgent(t, guest.Config{MaxRecords: 20, RingBudget: 1 << 20}, client.Config{})
	run := func(n int) {
		for range n {
			a.run(t, shell("head -c 100000 /dev/zero"))
		}
	}
	run(20)
	before := heap()
	files := descriptors(t)
	run(80)
	eventually(t, "all execs are released", func() bool {
		m, err := a.client.Metrics(t.Context())
		return err == nil && m.RunningExecs == 0 && m.RememberedExec <= 20
	})
	if grown := heap() - before; grown > 2<<20 {
		t.Errorf("80 execs later the heap is larger by %d bytes", grown)
	}
	if got := descriptors(t); got > files+5 {
		t.Errorf("%d descriptors are open, %d before", got, files)
	}
}

// TestLargeFilesAndDirectories: neither a file nor a directory is ever in memory whole.
func TestLargeFilesAndDirectories(t *testing.T) {
	a := startAgent(t, guest.Config{}, client.Config{})
	dir := t.TempDir()
	large := dir + "/large"
	f, err := os.Create(large)
	if err != nil {
		t.Fatal(err)
	}
	const size = 128 << 20
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	many := dir + "/many"
	if err := os.Mkdir(many, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 5_000 {
		if err := os.WriteFile(fmt.Sprintf("%s/%0100d", many, i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := heap()
	peak := int64(0)
	look := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, int64(m.HeapInuse))
	}
	_, r, err := a.client.ReadFile(t.Context(), large, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<20)
	total := 0
	for {
		n, err := r.Read(buf)
		total += n
		if total%(16<<20) < n {
			look()
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if total != size {
		t.Errorf("read %d bytes", total)
	}
	list, _, err := a.client.ListFiles(t.Context(), many, "", 10)
	look()
	if err != nil || len(list) != 10 {
		t.Errorf("%d entries, %v", len(list), err)
	}
	if grown := peak - before; grown > 32<<20 {
		t.Errorf("the heap grew by %d bytes meanwhile", grown)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
