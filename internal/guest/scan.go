package guest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"shoal/internal/core"
)

// markName is the environment variable by which a group is found where there are no cgroups.
const markName = "SHOAL_EXEC_ID"

// scanner makes groups that are found in /proc: members carry the group's mark in their environment, or descend from
// one that does. A process that clears its environment and leaves its parent escapes; cgroups know no such hole.
type scanner struct{ proc string }

func (s scanner) make(id string) (group, error) {
	return &scanned{proc: s.proc, mark: []byte(markName + "=" + id)}, nil
}

func (scanner) limit(int) error {
	return core.Errorf(core.CodeUnsupported, "without control groups inside, processes can't be limited")
}

func (scanner) close() {}

type scanned struct {
	proc string
	mark []byte
	// leader is the first member while it lives, known by when it was started: right after its exec the kernel shows no
	// environment of it yet, and a kill that came then would miss it.
	leader  int
	started string
}

func (g *scanned) env() []string                { return []string{string(g.mark)} }
func (g *scanned) prepare(*syscall.SysProcAttr) {}
func (g *scanned) release()                     {}

// lead remembers the leader. One that can't be looked at has ended already.
func (g *scanned) lead(pid int) {
	if st, err := g.stat(pid); err == nil {
		g.leader, g.started = pid, st.started
	}
}

func (g *scanned) pids() ([]int, error) {
	names, err := readNames(g.proc)
	if err != nil {
		return nil, fmt.Errorf("scan processes: %w", err)
	}
	parent := map[int]int{}
	member := map[int]bool{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		st, err := g.stat(pid)
		if err != nil || st.state == 'Z' || st.state == 'X' {
			continue
		}
		parent[pid] = st.parent
		member[pid] = pid == g.leader && st.started == g.started || g.marked(pid)
	}
	var list []int
	for pid := range parent {
		// Walk up to a marked ancestor; a chain is finite, but /proc is not read at one instant.
		for p, steps := pid, 0; p > 1 && steps < 1000; p, steps = parent[p], steps+1 {
			if member[p] {
				list = append(list, pid)
				break
			}
		}
	}
	return list, nil
}

// procStat is what /proc says of a process.
type procStat struct {
	state  byte
	parent int
	// job is the process group, in the sense of setpgid.
	job int
	// started is when, in ticks since the boot.
	started string
	// resident is how many bytes of memory it holds.
	resident int64
}

func (g *scanned) stat(pid int) (procStat, error) { return readStat(g.proc, pid) }

// readStat reads what a proc filesystem says of a process.
func readStat(proc string, pid int) (procStat, error) {
	b, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return procStat{}, err
	}
	// The name in parentheses may hold anything, so the fields are those after the last one: the first of them is the third
	// of the line, the start the 22nd and the resident pages the 24th.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 22 || len(fields[0]) != 1 {
		return procStat{}, errors.New("unknown format of stat")
	}
	parent, parentErr := strconv.Atoi(string(fields[1]))
	job, jobErr := strconv.Atoi(string(fields[2]))
	pages, pagesErr := strconv.ParseInt(string(fields[21]), 10, 64)
	return procStat{
		state: fields[0][0], parent: parent, job: job, started: string(fields[19]), resident: pages * int64(os.Getpagesize()),
	}, errors.Join(parentErr, jobErr, pagesErr)
}

// marked reports whether the process's environment has the mark.
func (g *scanned) marked(pid int) bool {
	f, err := os.Open(filepath.Join(g.proc, strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, 256<<10))
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if bytes.Equal(v, g.mark) {
			return true
		}
	}
	return false
}

func (g *scanned) memory() (int64, error) {
	pids, err := g.pids()
	var sum int64
	for _, pid := range pids {
		if st, err := g.stat(pid); err == nil {
			sum += st.resident
		}
	}
	return sum, err
}

// kill repeats until no member is left: one may be born while another dies.
func (g *scanned) kill() error {
	for range 100 {
		n, err := signalGroup(g, g.leader, syscall.SIGKILL)
		if err != nil || n == 0 {
			return err
		}
	}
	return errors.New("the group outruns being killed")
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	return d.Readdirnames(-1)
}
