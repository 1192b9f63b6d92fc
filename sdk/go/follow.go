package shoal

import (
	"context"
	"time"
)

// followTries says for how long a stream that tells what happens is made anew. One that was there once is waited for longer than a server
// takes to restart; one that never was is tried as any call is.
type followTries struct {
	c      *Client
	broken func(why error)
	// open says that the connection is there and has told something, once that one had.
	open, once bool
	since      time.Time
	count      int
}

// told notes that the server has told something. That it answers is not enough: it may break off each time.
func (t *followTries) told() { t.open, t.once, t.count = true, true, 0 }

// again waits before the next try, and reports whether there is one.
func (t *followTries) again(ctx context.Context, why error) bool {
	wait, ok := delay(why, min(t.count, 5))
	if t.open || t.since.IsZero() {
		t.since = time.Now()
	}
	more := t.count < t.c.retries()
	if t.once {
		more = t.c.retries() > 0 && time.Since(t.since)+wait < defaultPatience
	}
	if ctx.Err() != nil || !ok || !more {
		return false
	}
	if t.open && t.broken != nil {
		t.broken(why)
	}
	t.open = false
	t.count++
	return sleep(ctx, wait) == nil
}
