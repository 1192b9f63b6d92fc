package guest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Memory tells how much memory the sandbox uses now.
type Memory interface {
	// Used returns what is in use and what there is, in bytes.
	Used() (used, limit int64, err error)
	Close() error
}

// What gVisor's kernel holds on the host beside what /proc/meminfo tells, and which counts against the same limit: measured with
// hundreds of sleeping processes 0.65 MiB for each, and 25 KiB for each further thread.
const (
	processOverhead = 3 << 18
	threadOverhead  = 32 << 10
)

// sandboxMemory reads the sandbox kernel's own figures. Its files stay open: when memory is short, nothing more is needed.
type sandboxMemory struct {
	info, current, tasks *os.File
	buf                  [4096]byte
	// rest is what was in use at the last look that no line tells of.
	rest int64
}

// openMemory opens the figures of a sandbox whose execs have their cgroups below root.
func openMemory(root string) (Memory, error) {
	m := &sandboxMemory{}
	for _, f := range []struct {
		file **os.File
		path string
	}{
		{&m.info, "/proc/meminfo"},
		{&m.current, root + "/memory.current"},
		{&m.tasks, root + "/" + groupsName + "/pids.current"},
	} {
		var err error
		if *f.file, err = os.Open(f.path); err != nil {
			_ = m.Close()
			return nil, fmt.Errorf("open figures of memory: %w", err)
		}
	}
	return m, nil
}

// Used returns what processes, tmpfs and the sandbox's kernel hold. Files of the tree that a process has mapped are not
// counted: they belong to the host, which takes them back when it must.
func (m *sandboxMemory) Used() (used, limit int64, err error) {
	// gVisor looks for pages that processes have touched since the last look. It does so for each read of a cgroup's figure,
	// for /proc/meminfo only now and then.
	if _, err := m.read(m.current); err != nil {
		return 0, 0, err
	}
	text, err := m.read(m.tasks)
	if err != nil {
		return 0, 0, err
	}
	tasks, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("read number of tasks: %w", err)
	}
	info, err := m.read(m.info)
	if err != nil {
		return 0, 0, err
	}
	used, limit, m.rest = usedMemory(info, m.rest)
	if most := tasks * processOverhead; used+most < limit/2 {
		// They may all be processes: nobody has to count.
		return used + most, limit, nil
	}
	processes, err := countProcesses()
	if err != nil {
		return 0, 0, err
	}
	return used + overhead(processes, tasks), limit, nil
}

// overhead is what the kernel holds for so many processes that have so many threads together.
func overhead(processes, tasks int64) int64 {
	return processes*processOverhead + max(tasks-processes, 0)*threadOverhead
}

// countProcesses counts all processes but init.
func countProcesses() (n int64, err error) {
	names, err := readNames("/proc")
	if err != nil {
		return 0, fmt.Errorf("count processes: %w", err)
	}
	for _, name := range names {
		if name[0] >= '1' && name[0] <= '9' && name != "1" {
			n++
		}
	}
	return n, nil
}

// usedMemory reads /proc/meminfo. What there is was said when the sandbox was started: its limit may be above that by now, and what is
// free never goes below zero. Then what is in use tells the truth, but for a part that has no line of its own: before is how
// much that was when it could be told last, and rest what it is now.
func usedMemory(info []byte, before int64) (used, limit, rest int64) {
	limit = kilobytes(info, "MemTotal:")
	free, anonymous := kilobytes(info, "MemFree:"), kilobytes(info, "AnonPages:")
	if rest = before; free > 0 {
		rest = max(0, limit-free-kilobytes(info, "Mapped:")-anonymous)
	}
	return anonymous + rest, limit, rest
}

// read reads a file of the kernel's anew.
func (m *sandboxMemory) read(f *os.File) ([]byte, error) {
	for {
		n, err := unix.Pread(int(f.Fd()), m.buf[:], 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", f.Name(), err)
		}
		return m.buf[:n], nil
	}
}

// Close closes the files.
func (m *sandboxMemory) Close() error {
	for _, f := range []*os.File{m.info, m.current, m.tasks} {
		if f != nil {
			_ = f.Close() // Read only: nothing can be lost.
		}
	}
	return nil
}
