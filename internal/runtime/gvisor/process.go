package gvisor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process names one process for ever: ids are used again, start times are not.
type process struct {
	PID int `json:"pid"`
	// Start is the process's start in clock ticks since boot.
	Start uint64 `json:"start"`
}

// lookProcess returns the process that has a pid now, and whether it is only a zombie.
func lookProcess(pid int) (p process, zombie bool, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false, fmt.Errorf("read process: %w", err)
	}
	// The command name is in brackets and may hold anything: fields count from the last bracket.
	end := bytes.LastIndexByte(text, ')')
	fields := strings.Fields(string(text[end+1:]))
	if end < 0 || len(fields) < 20 {
		return process{}, false, fmt.Errorf("read process %d: unexpected format", pid)
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return process{}, false, fmt.Errorf("read process %d: %w", pid, err)
	}
	return process{PID: pid, Start: start}, fields[0] == "Z" || fields[0] == "X", nil
}

// alive reports whether the process runs.
func (p process) alive() bool {
	now, zombie, err := lookProcess(p.PID)
	return err == nil && now == p && !zombie
}

// open returns a descriptor that becomes readable when the process ends, or ESRCH if it is gone.
func (p process) open() (*os.File, error) {
	if p.PID <= 0 {
		return nil, unix.ESRCH
	}
	fd, err := unix.PidfdOpen(p.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open process: %w", err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	if !p.alive() {
		return nil, errors.Join(unix.ESRCH, f.Close())
	}
	return f, nil
}

// reap collects the process if it is a zombie and our child. It reports whether nothing is left to collect: what is not our
// child, or has been collected, is not. It asks for the start time first: the server has other children, and a pid that is used
// again must not cost one of them its exit status.
func (p process) reap() (status unix.WaitStatus, gone bool) {
	now, _, err := lookProcess(p.PID)
	if err != nil || now != p {
		return 0, true
	}
	for {
		got, err := unix.Wait4(p.PID, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return status, err != nil || got == p.PID
	}
}

// proportionalBytes returns the proportional memory of a process, -1 if it can't be told.
func proportionalBytes(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return -1
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			if err != nil {
				return -1
			}
			return kib << 10
		}
	}
	return -1
}

// bootID names this boot of the machine; empty if the kernel does not say.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
