package guest

import (
	"sync"
	"time"

	"shoal/internal/guest/wire"
)

// ring keeps the newest output of one exec. Both streams count one offset in the order in which they were read, so an
// offset names a byte for ever, whether it is still kept or not.
//
// Its lock may be taken while an execution's is held, never the other way round.
type ring struct {
	max      int
	holdBack time.Duration
	budget   *budget
	// evict asks for room in the budget. It is called without the lock.
	evict func(need int64)

	mu sync.Mutex
	// buf holds the bytes from start to end; offset o is at o modulo its length.
	buf        []byte
	start, end int64
	// segments tell which stream the bytes belong to, from the oldest that is kept. A segment ends where the next
	// begins.
	segments []segment
	// capped says that the budget refused to let buf grow.
	capped bool
	// free is no longer held back: the leader has ended, or the exec is detached.
	free      bool
	followers map[*follower]bool
	// awaited is until when output is kept for the first reader, who comes after the process has been started.
	awaited time.Time
	// changed is closed when something happened, if anyone waits for it.
	changed chan struct{}
}

type segment struct {
	from int64
	kind wire.FrameType
}

const (
	minRing = 4 << 10
	// freeRing is what a ring may take without asking the budget.
	freeRing = 64 << 10
	// maxChunk is how much output is read at once, and how much one frame carries.
	maxChunk = 32 << 10
)

func newRing(maxBytes int, holdBack time.Duration, b *budget, evict func(int64), detached bool) *ring {
	r := &ring{
		max: max(maxBytes, minRing), holdBack: holdBack, budget: b, evict: evict, free: detached,
		followers: map[*follower]bool{},
	}
	if !detached {
		r.awaited = time.Now().Add(holdBack)
	}
	return r
}

// append adds output, after waiting for a slow reader within bounds.
func (r *ring) append(kind wire.FrameType, data []byte) {
	r.grow(len(data))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold()
	if len(r.buf) == 0 {
		r.end += int64(len(data))
		r.start = r.end
		r.notify()
		return
	}
	if n := len(r.segments); n == 0 || r.segments[n-1].kind != kind {
		r.segments = append(r.segments, segment{r.end, kind})
	}
	size := int64(len(r.buf))
	skip := max(0, int64(len(data))-size)
	r.end += skip
	for rest := data[skip:]; len(rest) > 0; {
		n := copy(r.buf[r.end%size:], rest)
		r.end += int64(n)
		rest = rest[n:]
	}
	r.start = max(r.start, r.end-size)
	r.prune()
	r.notify()
}

// prune forgets segments of bytes that are gone, and bytes where the segments take more room than they do.
func (r *ring) prune() {
	if limit := len(r.buf)/16 + 64; len(r.segments) > limit {
		r.start = max(r.start, r.segments[len(r.segments)-limit].from)
	}
	n := 0
	for n+1 < len(r.segments) && r.segments[n+1].from <= r.start {
		n++
	}
	if n > 0 {
		r.segments = r.segments[n:]
	}
}

// grow makes room for n more bytes, as far as the bounds allow.
func (r *ring) grow(n int) {
	r.mu.Lock()
	have := len(r.buf)
	need := int(min(r.end-r.start+int64(n), int64(r.max)))
	r.mu.Unlock()
	if need <= have {
		return
	}
	want := max(have, minRing)
	for want < need {
		want *= 2
	}
	want = min(want, r.max)
	delta := int64(want - have)
	if !r.budget.take(delta, want <= freeRing) {
		r.evict(delta)
		if !r.budget.take(delta, false) {
			r.mu.Lock()
			r.capped = true
			r.mu.Unlock()
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.buf) != have { // the other stream was faster
		r.budget.give(delta)
		return
	}
	r.resize(want)
}

// resize moves what is kept into a buffer of another size, which holds all of it.
func (r *ring) resize(size int) {
	old := r.buf
	r.buf = make([]byte, size)
	for o := r.start; o < r.end; {
		from := old[o%int64(len(old)):]
		from = from[:min(int64(len(from)), r.end-o)]
		o += int64(copy(r.buf[o%int64(size):], from))
	}
}

// hold waits while a follower is far behind, but not longer than holdBack without its progress: then it loses the
// oldest output until it has caught up. Half of the ring stays free for what comes when the leader ends.
func (r *ring) hold() {
	begin := time.Now()
	for !r.free {
		limit := int64(r.max / 2)
		if r.capped {
			limit = int64(len(r.buf) / 2)
		}
		var slow *follower
		for f := range r.followers {
			if !f.lossy && r.end-f.pos > limit {
				slow = f
				break
			}
		}
		if slow == nil {
			return
		}
		since := slow.progress
		if since.Before(begin) {
			since = begin
		}
		left := time.Until(since.Add(r.holdBack))
		if left <= 0 {
			slow.lossy = true
			continue
		}
		wait := r.wait()
		r.mu.Unlock()
		t := time.NewTimer(left)
		select {
		case <-wait:
		case <-t.C:
		}
		t.Stop()
		r.mu.Lock()
	}
}

// wait returns a channel that is closed at the next change. The lock is held.
func (r *ring) wait() <-chan struct{} {
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

func (r *ring) notify() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// notifyAll wakes everyone who waits.
func (r *ring) notifyAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notify()
}

// bounds returns the offsets of the oldest byte that is kept and of the next to come.
func (r *ring) bounds() (start, end int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.start, r.end
}

// release ends holding back.
func (r *ring) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free = true
	r.notify()
}

// shrink gives back the room that is not used. The exec has ended.
func (r *ring) shrink() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if used := int(r.end - r.start); used < len(r.buf)/2 {
		old := len(r.buf)
		if used == 0 {
			r.buf = nil
		} else {
			r.resize(used)
		}
		r.budget.give(int64(old - len(r.buf)))
	}
}

// drop forgets all output, unless somebody is still about to read it, and reports whether it did. As while the process runs, a reader
// is waited for no longer than holdBack without its progress.
func (r *ring) drop() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wanted(time.Now()) {
		return false
	}
	r.budget.give(int64(len(r.buf)))
	r.buf, r.segments, r.start = nil, nil, r.end
	r.notify()
	return true
}

// wanted reports whether a reader hasn't got all output yet and isn't too slow. The lock is held.
func (r *ring) wanted(now time.Time) bool {
	if now.Before(r.awaited) {
		return true
	}
	for f := range r.followers {
		if !f.lossy && f.pos < r.end && now.Sub(f.progress) < r.holdBack {
			return true
		}
	}
	return false
}

// budget bounds the room of all rings together.
type budget struct {
	mu          sync.Mutex
	used, limit int64
}

// take takes n bytes if the limit allows it or force is set.
func (b *budget) take(n int64, force bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !force && b.used+n > b.limit {
		return false
	}
	b.used += n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
}

func (b *budget) over() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used - b.limit
}
