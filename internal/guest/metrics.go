package guest

import (
	"bytes"
	"os"
	"runtime"
	"strconv"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// metrics tells what the agent sees of the sandbox from inside.
func (c *session) metrics(wire.Empty) (wire.Metrics, error) {
	names, err := readNames("/proc")
	if err != nil {
		return wire.Metrics{}, core.Wrap(core.CodeInternal, err, "the processes can't be counted")
	}
	m := wire.Metrics{}
	for _, n := range names {
		if _, err := strconv.Atoi(n); err == nil {
			m.Processes++
		}
	}
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return wire.Metrics{}, core.Wrap(core.CodeInternal, err, "the memory can't be read")
	}
	m.MemoryTotal = kilobytes(info, "MemTotal:")
	if m.MemoryFree = kilobytes(info, "MemAvailable:"); m.MemoryFree == 0 {
		m.MemoryFree = kilobytes(info, "MemFree:")
	}
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	m.AgentHeapBytes = int64(ms.HeapInuse)
	c.srv.mu.Lock()
	m.RunningExecs, m.RememberedExec = c.srv.running, len(c.srv.order)
	c.srv.mu.Unlock()
	return m, nil
}

// kilobytes returns the bytes of a line such as "MemFree:  12 kB", zero if there is none.
func kilobytes(info []byte, key string) int64 {
	for line := range bytes.Lines(info) {
		if f := bytes.Fields(line); len(f) >= 2 && string(f[0]) == key {
			n, _ := strconv.ParseInt(string(f[1]), 10, 64)
			return n << 10
		}
	}
	return 0
}
