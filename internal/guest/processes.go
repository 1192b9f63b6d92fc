package guest

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shoal/internal/core"
	"shoal/internal/files"
	"shoal/internal/guest/wire"
)

const (
	// ticks is how many of the kernel's ticks there are in a second, for what /proc tells.
	ticks = 100
	// maxProcFile bounds a file of /proc that is about one process, maxSockets one that lists sockets.
	maxProcFile = 64 << 10
	maxSockets  = 8 << 20
	// maxReply bounds what the processes of a reply come to as JSON, in which a byte takes six at most and the rest of one so many: it
	// must fit into a frame with the listeners.
	maxReply, maxEscaped, restOfProcess = 768 << 10, 6, 160
	// maxDescriptors bounds how many open files are looked at to find whose a socket is.
	maxDescriptors = 50_000
)

// processes tells what runs, and what waits for connections.
func processes(c *session, _ wire.Empty) (wire.ProcessesReply, error) {
	r, err := lookAtProcesses("/proc", os.Getpid())
	if err != nil {
		return r, core.Wrap(core.CodeInternal, err, "the processes can't be read")
	}
	return r, nil
}

// lookAtProcesses reads a proc filesystem, and leaves out one process and what only that listens to.
func lookAtProcesses(proc string, self int) (wire.ProcessesReply, error) {
	r := wire.ProcessesReply{Processes: []wire.Process{}, Listeners: []wire.Listener{}}
	names, err := readNames(proc)
	if err != nil {
		return r, err
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	boot, users, size := bootTime(proc), userNames(), 0
	for _, pid := range pids {
		if pid == self {
			continue
		}
		p, ok := lookAtProcess(proc, pid, boot)
		if !ok {
			continue // it has ended
		}
		p.User = users[p.UID]
		if size += maxEscaped*(len(p.Command)+len(p.User)) + restOfProcess; len(r.Processes) >= core.MaxProcesses || size > maxReply {
			r.MoreProcesses++
			continue
		}
		r.Processes = append(r.Processes, p)
	}
	r.Listeners, r.MoreListeners = lookAtListeners(proc, pids, self)
	return r, nil
}

// lookAtProcess describes a process that lives.
func lookAtProcess(proc string, pid int, boot time.Time) (wire.Process, bool) {
	st, err := readStat(proc, pid)
	if err != nil || st.state == 'Z' || st.state == 'X' {
		return wire.Process{}, false
	}
	dir := filepath.Join(proc, strconv.Itoa(pid))
	p := wire.Process{PID: pid, Parent: st.parent}
	status := readSome(dir+"/status", maxProcFile)
	for line := range bytes.Lines(status) {
		if f := bytes.Fields(line); len(f) > 1 && string(f[0]) == "Uid:" {
			p.UID, _ = strconv.Atoi(string(f[1]))
		}
	}
	if n, err := strconv.ParseInt(st.started, 10, 64); err == nil {
		p.StartedAt = boot.Add(time.Duration(n) * (time.Second / ticks)).UTC()
	}
	command := readSome(dir+"/cmdline", core.MaxCommandBytes+1)
	p.Cut = len(command) > core.MaxCommandBytes
	command = bytes.TrimRight(command[:min(len(command), core.MaxCommandBytes)], "\x00")
	if len(command) == 0 {
		p.Command = wire.Bytes("[" + strings.TrimSpace(string(readSome(dir+"/comm", 64))) + "]")
		return p, true
	}
	p.Command = wire.Bytes(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))
	return p, true
}

// bootTime returns when the kernel started; the time from which processes count.
func bootTime(proc string) time.Time {
	for line := range bytes.Lines(readSome(proc+"/stat", maxSockets)) {
		if f := bytes.Fields(line); len(f) == 2 && string(f[0]) == "btime" {
			if n, err := strconv.ParseInt(string(f[1]), 10, 64); err == nil {
				return time.Unix(n, 0)
			}
		}
	}
	return time.Time{}
}

func userNames() map[int]string {
	f, err := os.Open(files.PasswdFile)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	return files.Names(io.LimitReader(f, maxSockets), files.PasswdFields)
}

// readSome returns the beginning of a file; nothing of one that can't be read.
func readSome(name string, most int64) []byte {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	b, _ := io.ReadAll(io.LimitReader(f, most)) // what could be read
	return b
}

// lookAtListeners returns the sockets that wait for others.
func lookAtListeners(proc string, pids []int, self int) (list []wire.Listener, more int64) {
	list = []wire.Listener{}
	var sockets []socket
	for _, file := range []string{"tcp", "tcp6", "udp", "udp6"} {
		sockets = append(sockets, parseSockets(readSome(proc+"/net/"+file, maxSockets), strings.TrimSuffix(file, "6"))...)
	}
	if len(sockets) == 0 {
		return list, 0
	}
	owners := socketOwners(proc, pids)
	for _, s := range sockets {
		s.PID = owners[s.inode]
		switch {
		case s.PID == self:
		case len(list) >= core.MaxListeners:
			more++
		default:
			list = append(list, s.Listener)
		}
	}
	slices.SortFunc(list, func(a, b wire.Listener) int {
		return cmp.Or(cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Address, b.Address))
	})
	return list, more
}

// socketOwners says which process has a socket open, by the socket's inode; of several the first.
func socketOwners(proc string, pids []int) map[string]int {
	owners, looked := map[string]int{}, 0
	for _, pid := range pids {
		dir := filepath.Join(proc, strconv.Itoa(pid), "fd")
		names, err := readNames(dir)
		if err != nil {
			continue
		}
		for _, name := range names {
			if looked++; looked > maxDescriptors {
				return owners
			}
			target, err := os.Readlink(filepath.Join(dir, name))
			if err != nil {
				continue
			}
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				if inode = strings.TrimSuffix(inode, "]"); owners[inode] == 0 {
					owners[inode] = pid
				}
			}
		}
	}
	return owners
}
