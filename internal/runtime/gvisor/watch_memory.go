package gvisor

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// memoryWatch kills all of a sandbox in which the kernel has killed for want of memory. It takes one process, whichever is
// largest: a sandbox of which a part is gone may go on, hang or end, and each would be somebody's surprise.
type memoryWatch struct {
	d *Driver
	b *box
	w *watch
}

// run watches until the sandbox or the watch ends.
func (m *memoryWatch) run(ctx context.Context) {
	d, b, w := m.d, m.b, m.w
	// It may have happened while nobody watched.
	for d.cgroups.outOfMemory(string(b.id)) == noShortage {
		if !waitReadable(w.memory) || !drain(w.memory) {
			return
		}
		// The event comes before the kill, and also for limits above that have made the kernel kill elsewhere.
		m.awaitKill(ctx)
		if b.isKilled() || ctx.Err() != nil {
			return
		}
	}
	if !b.isWatchedBy(w) {
		return
	}
	if err := d.killGroup(b); err != nil {
		d.log.WarnContext(ctx, "sandbox that ran out of memory cannot be killed", slog.Any("sandbox_id", b.id), slog.Any("err", err))
	}
}

// The kernel kills right after the event, unless it finds memory or somebody else to kill.
const (
	killWait = time.Second
	killPoll = 5 * time.Millisecond
)

// awaitKill waits until the kernel has killed in the sandbox's groups, or is not going to.
func (m *memoryWatch) awaitKill(ctx context.Context) {
	tick := time.NewTicker(killPoll)
	defer tick.Stop()
	for end := time.Now().Add(killWait); time.Now().Before(end); {
		if m.d.cgroups.outOfMemory(string(m.b.id)) != noShortage {
			return
		}
		select {
		case <-tick.C:
		case <-m.b.killed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// drain takes the event out of an event descriptor, so that the next one is noticed.
func drain(event *os.File) bool {
	_, err := event.Read(make([]byte, 8))
	return err == nil
}
