package guest

import (
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// memoryGuard keeps what runs in the sandbox below the tenant's limit of memory: at the limit it kills the greediest process
// group. The host's own limit lies above and would end the whole sandbox.
//
// It asks as often as memory can run out: seldom while there is much left or use doesn't rise, and never while nothing runs. Each
// look wakes a sandbox that may have nothing else to do, which takes it some 3 ms of processor time, whatever is read.
type memoryGuard struct {
	srv    *Server
	memory Memory
	// before is what was in use at the last look, quiet since when it hasn't risen and no exec has begun.
	before int64
	quiet  time.Time
	// wake tells that something has begun to run, or that the limit is another.
	wake chan struct{}

	// mu guards what follows, and reading memory.
	mu sync.Mutex
	// told is the limit that the host has told; zero means that memory's own holds.
	told int64
}

const (
	// fillRate is how many bytes per second a processor can touch at most of memory that is new to gVisor: measured 0.95 GiB
	// per second and processor.
	fillRate = 1 << 30
	// slack is how far beyond the limit use may come before the guard has looked. What the host adds is needed for more: what
	// gVisor's kernel holds, and what is used up until a kill has helped, 30 MiB on an idle machine and twice that on a busy one.
	slack = 8 << 20
	// longestNap bounds the time between two looks, because limits may change. While there is quiet the nap may be quietShare of the time
	// that this has lasted, to quietNap at most: what then fills memory as fast as it can is too fast for the guard.
	longestNap = 500 * time.Millisecond
	quietNap   = time.Second
	quietShare = 8
	// rise is what use must have grown by to count as rising.
	rise = 1 << 20
	// reliefTick is how often is looked whether a kill has helped.
	reliefTick = 2 * time.Millisecond
	// firstNap is how long it sleeps at most when an exec begins.
	firstNap = 20 * time.Millisecond
	// reliefWait is how long what was killed may take to give its memory back before the next is killed, if memory doesn't go
	// on being used up meanwhile, as fast as reliefRise.
	reliefWait = 2 * time.Second
	reliefRise = 32 << 20
	// leastShare of the limit is what a victim must hold: killing crumbs helps nobody. So far beyond the limit that the host would
	// soon end all, crumbs go as well.
	leastShare      = 16
	desperateExcess = 48 << 20
	desperateLeast  = 4 << 20
	// fewProcesses is how many are looked at one by one to spare a shell.
	fewProcesses = 32
)

// run guards until the server ends.
func (g *memoryGuard) run() {
	defer func() { _ = g.memory.Close() }()
	for {
		select {
		case <-g.wake:
		case <-g.srv.ctx.Done():
			return
		}
		for next := g.soon(time.Time{}); g.srv.busy(); {
			timer := time.NewTimer(time.Until(next))
			select {
			case <-timer.C:
				next = time.Now().Add(g.look())
			case <-g.wake:
				next = g.soon(next)
			case <-g.srv.ctx.Done():
				timer.Stop()
				return
			}
			timer.Stop()
		}
	}
}

// soon returns when to look next because an exec begins: firstNap from now, unless that was to be earlier.
func (g *memoryGuard) soon(next time.Time) time.Time {
	g.quiet = time.Now()
	if soon := time.Now().Add(firstNap); next.IsZero() || soon.Before(next) {
		return soon
	}
	return next
}

// look kills if it must, and returns how long to wait for the next look.
func (g *memoryGuard) look() time.Duration {
	used, limit, err := g.used()
	if err != nil {
		g.srv.log.Warn("guard memory", slog.Any("err", err))
		return longestNap
	}
	if used-g.before > rise {
		g.quiet = time.Now()
	}
	g.before = used
	if used < limit {
		return nap(limit-used, time.Since(g.quiet))
	}
	least := limit / leastShare
	if used-limit > desperateExcess {
		least = desperateLeast
	}
	victim, held := g.greediest(least)
	if victim == nil {
		return nap(0, time.Since(g.quiet))
	}
	g.srv.log.Warn("memory is used up: killing", slog.String("exec_id", victim.id), slog.Int64("used", used), slog.Int64("limit", limit))
	victim.killForMemory(least, wire.Shortage{Used: used, Held: held, Limit: limit})
	g.awaitRelief(victim, used+reliefRise)
	g.quiet = time.Now()
	return nap(0, 0)
}

// used returns what is in use and the limit that holds.
func (g *memoryGuard) used() (used, limit int64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if used, limit, err = g.memory.Used(); g.told > 0 {
		limit = g.told
	}
	return used, limit, err
}

// limit sets the limit. One below what is in use is a conflict, unless it is forced: then the guard kills.
func (g *memoryGuard) limit(bytes int64, force bool) error {
	if used, _, err := g.used(); err == nil && used > bytes && !force {
		return core.Errorf(core.CodeConflict, "the sandbox uses %d MiB of memory now, which is more than %d MiB", used>>20, bytes>>20)
	}
	g.mu.Lock()
	g.told = bytes
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
	return nil
}

// nap is how long to leave the sandbox alone: until it could have used up what is left and the slack, longer if there has been
// quiet for long.
func nap(left int64, quiet time.Duration) time.Duration {
	d := time.Duration(float64(left+slack) / float64(runtime.NumCPU()*fillRate) * float64(time.Second))
	return max(min(d, longestNap), min(quiet/quietShare, quietNap))
}

// greediest returns the exec whose group holds most, and how much; nil if none holds least.
func (g *memoryGuard) greediest(least int64) (*execution, int64) {
	g.srv.mu.Lock()
	list := slices.Clone(g.srv.order)
	g.srv.mu.Unlock()
	var victim *execution
	for _, e := range list {
		if n := e.memory(); n > least {
			victim, least = e, n
		}
	}
	return victim, least
}

// awaitRelief waits until memory is below the limit, or what was killed has had its time, or others use up more than most.
func (g *memoryGuard) awaitRelief(e *execution, most int64) {
	tick := time.NewTicker(reliefTick)
	defer tick.Stop()
	for end := time.Now().Add(reliefWait); time.Now().Before(end); {
		select {
		case <-e.gone:
			return
		case <-g.srv.ctx.Done():
			return
		case <-tick.C:
		}
		if used, limit, err := g.used(); err != nil || used < limit || used > most {
			return
		}
	}
}

// memory returns what the exec's group holds, with what the kernel holds for it; zero if it is gone.
func (e *execution) memory() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.group == nil {
		return 0
	}
	n, err := e.group.memory()
	pids, pidsErr := e.group.pids()
	if err := errors.Join(err, pidsErr); err != nil {
		e.srv.log.Warn("look at memory", slog.String("exec_id", e.id), slog.Any("err", err))
	}
	return n + int64(len(pids))*processOverhead
}

// killForMemory kills the exec's group, in as few steps as can be: while processes fight for the processor each step takes
// its time, and memory goes on running out. On a terminal the greediest job goes first if it holds least, and the shell is
// spared.
func (e *execution) killForMemory(least int64, s wire.Shortage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.group == nil {
		return
	}
	if e.outOfMemory = true; e.shortage == nil {
		e.shortage = &s
	}
	if job := e.greediestJob(least); job > 1 && job != e.killedJob && syscall.Kill(-job, syscall.SIGKILL) == nil {
		e.killedJob = job
		return
	}
	e.killed = true
	e.killGroup()
	select {
	case e.poke <- struct{}{}:
	default:
	}
}

// greediestJob returns the process group, in the sense of setpgid, that holds most, if that is at least so much and it is not
// the shell's own; zero if there is none or too many processes to look at each. What a terminal says of its foreground is of
// no use: it may be somebody else who is greedy, and gVisor does not tell it to whom the terminal isn't the controlling one.
func (e *execution) greediestJob(least int64) (job int) {
	if !e.tty {
		return 0
	}
	pids, err := e.group.pids()
	if err != nil || len(pids) > fewProcesses {
		return 0
	}
	sums := map[int]int64{}
	for _, pid := range pids {
		st, err := readStat("/proc", pid)
		if err != nil || st.job == e.pid {
			continue // It has just ended, or is the shell's.
		}
		sums[st.job] += st.resident
		if sums[st.job] >= max(least, sums[job]) {
			job = st.job
		}
	}
	return job
}
