package guest

import (
	"cmp"
	"slices"
	"time"

	"shoal/internal/core"
	"shoal/internal/guest/wire"
)

// follower is one reader's place in a ring. Its fields are guarded by the ring's lock.
type follower struct {
	r   *ring
	pos int64
	// progress is when the reader last took something.
	progress time.Time
	// lossy says that it was too slow to be waited for; it is again once it has caught up.
	lossy bool
}

// chunk is what a follower gets next: output, a gap, or nothing yet.
type chunk struct {
	kind wire.FrameType
	from int64
	data []byte
	// missing is the size of a gap.
	missing int64
	// wait is closed when there may be more; it is set if there is nothing.
	wait <-chan struct{}
	// caught says that the follower is at the end.
	caught bool
}

const maxFollowers = 16

// follow adds a reader at an offset.
func (r *ring) follow(from int64) (*follower, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from < 0 || from > r.end {
		return nil, core.Invalid("from", "the output has %d bytes so far", r.end)
	}
	if len(r.followers) >= maxFollowers {
		return nil, core.Errorf(core.CodeExhausted, "the exec is followed by %d readers already", maxFollowers)
	}
	f := &follower{r: r, pos: from, progress: time.Now()}
	r.followers[f] = true
	r.awaited = time.Time{}
	return f, nil
}

func (f *follower) close() {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	delete(f.r.followers, f)
	f.r.notify()
}

// next returns what comes next, at most up to limit (negative: no limit), copied into buf. The place moves on with
// advance.
func (f *follower) next(buf []byte, limit int64) chunk {
	r := f.r
	r.mu.Lock()
	defer r.mu.Unlock()
	end := r.end
	if limit >= 0 {
		end = min(end, limit)
	}
	if f.pos >= end {
		return chunk{wait: r.wait(), caught: true}
	}
	if f.pos < r.start {
		return chunk{kind: wire.FrameGap, from: f.pos, missing: min(r.start, end) - f.pos}
	}
	kind := wire.FrameStdout
	// The segment that holds pos is the one before the first that begins after it.
	i, _ := slices.BinarySearchFunc(r.segments, f.pos+1, func(s segment, o int64) int { return cmp.Compare(s.from, o) })
	if i > 0 {
		kind = r.segments[i-1].kind
	}
	if i < len(r.segments) {
		end = min(end, r.segments[i].from)
	}
	size := int64(len(r.buf))
	n := min(end-f.pos, int64(len(buf)))
	for done := int64(0); done < n; {
		from := r.buf[(f.pos+done)%size:]
		done += int64(copy(buf[done:n], from))
	}
	return chunk{kind: kind, from: f.pos, data: buf[:n]}
}

// advance says that the reader has taken everything before the offset.
func (f *follower) advance(to int64) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	f.pos = to
	f.progress = time.Now()
	if f.pos == f.r.end {
		f.lossy = false
	}
	f.r.notify()
}
