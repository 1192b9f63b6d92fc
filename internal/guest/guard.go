package guest

import (
	"log/slog"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// memoryGuard keeps what runs in the sandbox below the tenant's limit of memory: at the limit it kills the greediest process
// group. The host's own limit lies above and would end the whole sandbox.
//
// It asks as often as memory can run out: seldom while there is much left, and never while nothing runs.
type memoryGuard struct {
	srv    *Server
	memory Memory
	// wake tells that something has begun to run.
	wake chan struct{}
}

const (
	// fillRate is how many bytes per second processes can touch at most: a processor clears about one GiB per second of
	// memory that is new to gVisor, measured on one; more processors do more.
	fillRate = 2 << 30
	// The guard sleeps no shorter, or it would use the processor alone, and no longer, because limits may change.
	shortestNap, longestNap = 2 * time.Millisecond, 500 * time.Millisecond
	// reliefWait is how long what was killed may take to give its memory back before the next is killed.
	reliefWait = 250 * time.Millisecond
	// leastShare of the limit is what a victim must hold: killing crumbs helps nobody.
	leastShare = 16
)

// run guards until the server ends.
func (g *memoryGuard) run() {
	defer func() { _ = g.memory.Close() }()
	// What was left at the last look is left still when the next process begins: it gets as much time as it would have had.
	wait := shortestNap
	for {
		select {
		case <-g.wake:
		case <-g.srv.ctx.Done():
			return
		}
		for g.srv.busy() {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-g.srv.ctx.Done():
				timer.Stop()
				return
			}
			wait = g.look()
		}
	}
}

// look kills if it must, and returns how long to wait for the next look.
func (g *memoryGuard) look() time.Duration {
	used, limit, err := g.memory.Used()
	if err != nil {
		g.srv.log.Warn("guard memory", slog.Any("err", err))
		return longestNap
	}
	if used < limit {
		return nap(limit - used)
	}
	victim := g.greediest(limit / leastShare)
	if victim == nil {
		return longestNap
	}
	g.srv.log.Warn("memory is used up: killing", slog.String("exec_id", victim.id), slog.Int64("used", used), slog.Int64("limit", limit))
	victim.killForMemory()
	g.awaitRelief(victim)
	return shortestNap
}

// nap is how long there can at least be memory left.
func nap(left int64) time.Duration {
	d := time.Duration(float64(left) / fillRate * float64(time.Second))
	return min(max(d, shortestNap), longestNap)
}

// greediest returns the exec whose group holds most, nil if none holds least.
func (g *memoryGuard) greediest(least int64) *execution {
	g.srv.mu.Lock()
	list := slices.Clone(g.srv.order)
	g.srv.mu.Unlock()
	var victim *execution
	for _, e := range list {
		if n := e.memory(); n > least {
			victim, least = e, n
		}
	}
	return victim
}

// awaitRelief waits until memory is below the limit, or what was killed has had its time.
func (g *memoryGuard) awaitRelief(e *execution) {
	tick := time.NewTicker(shortestNap)
	defer tick.Stop()
	end := time.NewTimer(reliefWait)
	defer end.Stop()
	for {
		select {
		case <-e.gone:
			return
		case <-end.C:
			return
		case <-g.srv.ctx.Done():
			return
		case <-tick.C:
		}
		if used, limit, err := g.memory.Used(); err != nil || used < limit {
			return
		}
	}
}

// memory returns what the exec's group holds, zero if it is gone.
func (e *execution) memory() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.group == nil {
		return 0
	}
	n, err := e.group.memory()
	if err != nil {
		e.srv.log.Warn("look at memory", slog.String("exec_id", e.id), slog.Any("err", err))
	}
	return n
}

// killForMemory kills the exec's group, in as few steps as can be: while processes fight for the processor each step takes
// its time, and memory goes on running out. On a terminal the job in the foreground goes first, and the shell is spared.
func (e *execution) killForMemory() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.group == nil {
		return
	}
	again := e.outOfMemory
	e.outOfMemory = true
	if job := e.foreground(); !again && job > 1 && job != e.pid && syscall.Kill(-job, syscall.SIGKILL) == nil {
		return
	}
	e.killed = true
	e.killGroup()
	select {
	case e.poke <- struct{}{}:
	default:
	}
}

// foreground returns the process group, in the sense of setpgid, that its terminal belongs to; zero if there is none.
func (e *execution) foreground() int {
	if !e.tty {
		return 0
	}
	var job int
	err := e.stdin.control(func(fd int) (err error) {
		job, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	if err != nil {
		return 0
	}
	return job
}
