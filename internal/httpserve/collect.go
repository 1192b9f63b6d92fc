package httpserve

import (
	"time"

	"golang.org/x/sync/semaphore"

	"shoal/internal/core"
)

const (
	// MaxOutput is how much of each stream a reply holds.
	MaxOutput = 1 << 20
	// shortOutput is how much it holds while there is no room for more.
	shortOutput = 64 << 10
	// CollectBytes is how much output all replies that are being collected or sent may hold together, unless told otherwise.
	CollectBytes = 256 << 20
	// collectAgain is when a caller for whom there was no room may come back.
	collectAgain = 2 * time.Second
)

// Collecting is the memory for output that replies hold from before a process starts until their clients have read it, so that
// no number of callers, and none that don't read, can take more. A quarter of it is kept for short replies: calls that wait for
// long and say little must not be turned away because some say much. All listeners share one.
type Collecting struct{ full, short *semaphore.Weighted }

// NewCollecting returns room for so many bytes.
func NewCollecting(most int64) *Collecting {
	return &Collecting{full: semaphore.NewWeighted(most - most/4), short: semaphore.NewWeighted(most / 4)}
}

// Take reserves room for all that one reply may hold, and returns how much of each stream that is, and what gives it back. It doesn't
// wait: how long the others run nobody knows. instead says what a caller for whom there is no room can do.
func (c *Collecting) Take(instead string) (limit int, release func(), err error) {
	for _, r := range []struct {
		room  *semaphore.Weighted
		limit int
	}{{c.full, MaxOutput}, {c.short, shortOutput}} {
		both := int64(2 * r.limit) // stdout and stderr
		if r.room.TryAcquire(both) {
			return r.limit, func() { r.room.Release(both) }, nil
		}
	}
	return 0, nil, &core.Error{
		Code: core.CodeExhausted, RetryAfter: collectAgain,
		Message: "too many calls are waiting for the output of a process: " + instead,
	}
}
