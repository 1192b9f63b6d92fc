package linux

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"

	"shoal/internal/core"
)

// removalQueue is how many interfaces may wait for removal before Detach waits too.
const removalQueue = 4096

// removal is an interface to remove, and the number that is free again afterwards.
type removal struct {
	index  int
	number uint32
}

// Detach removes a slot: its connections are reset, its packets dropped and its namespace let go before Detach returns.
// The interfaces go in the background, since the kernel takes its time for each.
func (d *Driver) Detach(_ context.Context, id core.SandboxID) error {
	if err := d.begin(); err != nil {
		return err
	}
	defer d.end()
	s := d.find(id)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil
	}
	return edge(d.take(s), "can't detach the network")
}

// take takes a slot away. s.mu is held. It goes on after an error: what could not be done then is swept by the next
// Open.
func (d *Driver) take(s *slot) error {
	s.gone = true
	s.cut()
	err := d.router.table.remove(s.index)
	if s.ns >= 0 {
		err = errors.Join(err, unix.Close(s.ns))
		s.ns = -1
	}
	d.mu.Lock()
	delete(d.slots, s.id)
	d.mu.Unlock()
	d.removals <- removal{index: s.index, number: s.number}
	if err != nil {
		return fmt.Errorf("detach network: %w", err)
	}
	return nil
}

// removeAll removes interfaces until the queue is closed, as many at a time as are waiting. What can't be removed is tried again
// with the next.
func (d *Driver) removeAll() {
	var left []removal
	for first := range d.removals {
		batch := append(left, first)
		for more := true; more && len(batch) < removalQueue; {
			select {
			case r, ok := <-d.removals:
				if more = ok; ok {
					batch = append(batch, r)
				}
			default:
				more = false
			}
		}
		left = d.removeBatch(batch)
	}
}

// removeBatch removes interfaces and gives their numbers back. It returns those that remain.
func (d *Driver) removeBatch(batch []removal) (left []removal) {
	indexes := make([]int, 0, len(batch))
	for _, r := range batch {
		indexes = append(indexes, r.index)
	}
	if d.router.removeLinks(indexes) != nil {
		// One by one, so that one which can't be removed doesn't keep the others.
		batch, left = d.removeEach(batch)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range batch {
		d.numbers.give(r.number)
	}
	return left
}

func (d *Driver) removeEach(batch []removal) (removed, left []removal) {
	for _, r := range batch {
		if err := d.router.removeLink(r.index); err != nil {
			d.cfg.Logger.Error("an interface of a detached slot remains for now", slog.Int("index", r.index), slog.Any("err", err))
			left = append(left, r)
			continue
		}
		removed = append(removed, r)
	}
	return removed, left
}
