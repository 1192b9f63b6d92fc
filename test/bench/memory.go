package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"shoal/internal/core"
)

// proportionalMemory is the proportional set size of everything that is in a bare sandbox's cgroup: sentry, gofer, and the
// processes in which the sentry runs the guest's code, and with them the guest's memory.
func proportionalMemory(id core.SandboxID) (int64, error) {
	var files []string
	for _, hierarchy := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/memory"} {
		found, err := filepath.Glob(filepath.Join(hierarchy, bareCgroup, "*", string(id), "cgroup.procs"))
		if err != nil {
			return 0, err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return 0, fmt.Errorf("sandbox %s has no cgroup", id)
	}
	pids, err := os.ReadFile(files[0])
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, pid := range strings.Fields(string(pids)) {
		one, err := processMemory(pid)
		if err != nil {
			return 0, err
		}
		sum += one
	}
	return sum, nil
}

// processMemory is the proportional set size of one process.
func processMemory(pid string) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "smaps_rollup"))
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), "Pss:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
		return kib << 10, err
	}
	return 0, fmt.Errorf("process %s says nothing of its memory", pid)
}
