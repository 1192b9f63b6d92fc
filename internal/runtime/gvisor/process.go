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

// lookProcess returns the process that has a pid now. A zombie is no process.
func lookProcess(pid int) (process, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, fmt.Errorf("read process: %w", err)
	}
	// The command name is in brackets and may hold anything: fields count from the last bracket.
	end := bytes.LastIndexByte(text, ')')
	fields := strings.Fields(string(text[end+1:]))
	if end < 0 || len(fields) < 20 {
		return process{}, fmt.Errorf("read process %d: unexpected format", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return process{}, fmt.Errorf("look at process %d: %w", pid, unix.ESRCH)
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return process{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	return process{PID: pid, Start: start}, nil
}

// alive reports whether the process runs.
func (p process) alive() bool {
	now, err := lookProcess(p.PID)
	return err == nil && now == p
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

// reap collects a zombie child without waiting. It reports whether nothing is left to collect; what is not our child
// is nothing to collect.
func reap(pid int) (unix.WaitStatus, bool) {
	var status unix.WaitStatus
	for {
		got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return status, err != nil || got == pid
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
