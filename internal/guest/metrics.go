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

// totalMemory returns how much memory there is, zero if it can't be told.
func totalMemory() int64 {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return kilobytes(info, "MemTotal:")
}

// processesFor returns how many processes a machine with so much memory may have: each costs the sandbox's kernel about one
// MiB beside what it uses itself, and a fork bomb must meet this bound before it has eaten the memory of all.
func processesFor(memory int64) int {
	const each, least, most = 3 << 19, 64, 1024
	if memory <= 0 {
		return most
	}
	return int(min(max(memory/each, least), most))
}
