package guest

import (
	"slices"
	"syscall"
)

// groupMaker makes the group of an exec: the set of everything that descends from it.
type groupMaker interface {
	// make returns a new group for the exec.
	make(id string) (group, error)
	// limit bounds the processes and threads of all groups together.
	limit(pids int) error
	close()
}

// group is an exec's processes, whatever sessions and parents they have moved to.
type group interface {
	// env returns what the exec's environment must hold so that the group can be found.
	env() []string
	// prepare makes the child be born in the group.
	prepare(attr *syscall.SysProcAttr)
	// lead tells the group its first member, right after its birth.
	lead(pid int)
	// pids returns the live members.
	pids() ([]int, error)
	// memory returns how many bytes the members hold.
	memory() (int64, error)
	// kill kills all members, also those that are being born.
	kill() error
	// release gives back what the group holds. It may have members no more.
	release()
}

// signalGroup sends a signal to every member and returns how many got it. The leader comes first: a shell that saw its child die of the
// signal would take it for the child's own end, and exit with a code in place of being ended itself.
func signalGroup(g group, leader int, sig syscall.Signal) (int, error) {
	pids, err := g.pids()
	if err != nil {
		return 0, err
	}
	slices.Sort(pids) // parents are mostly older
	if i := slices.Index(pids, leader); i > 0 {
		copy(pids[1:i+1], pids[:i])
		pids[0] = leader
	}
	n := 0
	for _, pid := range pids {
		if syscall.Kill(pid, sig) == nil {
			n++
		}
	}
	return n, nil
}
