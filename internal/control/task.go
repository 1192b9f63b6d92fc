package control

import (
	"context"
	"sync"
	"time"

	"shoal/internal/core"
)

// tasks is the work that outlives the call that caused it: the loops, and what must be tried until it is done.
type tasks struct {
	// stop ends them all. It is kept because it is their lifetime and no call's.
	stop context.Context
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

func newTasks() *tasks {
	stop, end := context.WithCancel(context.Background()) // ended by close
	return &tasks{stop: stop, end: end}
}

// run starts work whose context ends at close. After close it does nothing, and says so: what is durable goes on at the next start.
func (t *tasks) run(work func(ctx context.Context)) (begun bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.wg.Go(func() { work(t.stop) })
	return true
}

// close ends all work and waits for it.
func (t *tasks) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.end()
	t.wg.Wait()
}

// closing reports whether close was called.
func (t *tasks) closing() bool { return t.stop.Err() != nil }

// pause waits for d, and reports whether ctx has not ended first.
func pause(ctx context.Context, clock core.Clock, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-clock.After(d):
		return true
	}
}

// goneIsDone takes an error of a look-up for success if there is no such record: it was deleted and is forgotten, so that nothing is left to
// be tried again.
func goneIsDone(err error) error {
	if core.IsCode(err, core.CodeNotFound) {
		return nil
	}
	return err
}

// The pauses between tries of what must be done in the end.
const (
	retryFirst = time.Second
	retryMost  = time.Minute
)

// persist does act in the background until it succeeds or the service closes. failed is told of each failure.
func (d *deps) persist(act func(ctx context.Context) error, failed func(err error)) {
	d.tasks.run(func(ctx context.Context) {
		for wait := retryFirst; ; wait = min(2*wait, retryMost) {
			err := act(ctx)
			if err == nil || ctx.Err() != nil {
				return
			}
			failed(err)
			if !pause(ctx, d.clock, wait) {
				return
			}
		}
	})
}
