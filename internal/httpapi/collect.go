package httpapi

import (
	"time"

	"golang.org/x/sync/semaphore"

	"shoal/internal/core"
)

const (
	// maxOutput is how much of each stream a reply holds.
	maxOutput = 1 << 20
	// collectBytes is how much output all replies that are being collected or sent may hold together.
	collectBytes = 256 << 20
	// collectAgain is when a caller for whom there was no room may come back.
	collectAgain = 2 * time.Second
)

// collecting is the memory for output that replies hold from before a process starts until their clients have read it, so that
// no number of callers, and none that don't read, can take more.
type collecting struct{ room *semaphore.Weighted }

func newCollecting(most int64) collecting { return collecting{semaphore.NewWeighted(most)} }

// take reserves room for all that one reply may hold, and returns what gives it back. It doesn't wait: how long the others run
// nobody knows.
func (c collecting) take() (release func(), err error) {
	const both = 2 * maxOutput // stdout and stderr
	if !c.room.TryAcquire(both) {
		return nil, &core.Error{
			Code: core.CodeExhausted, RetryAfter: collectAgain,
			Message: "too many calls are waiting for the output of a process: have it streamed with Accept: " + ndjson + ", or detach, which need no room for it",
		}
	}
	return func() { c.room.Release(both) }, nil
}
