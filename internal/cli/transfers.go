package cli

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// maxTransfers is how many files are copied at once: a small one is mostly waiting for the answer.
const maxTransfers = 8

// transfers copies several files at once, and fails as if they had been copied one after another: with the error of the first
// one, in the order in which they were begun, that has failed.
//
// wait is its owner's: no transfer goes on when it has returned.
type transfers struct {
	slots chan struct{}
	wg    sync.WaitGroup

	mu      sync.Mutex
	next    int
	running map[int]context.CancelFunc
	err     error
	failed  int // which one err is of
}

func newTransfers() *transfers {
	return &transfers{slots: make(chan struct{}, maxTransfers), running: map[int]context.CancelFunc{}}
}

// begin waits for a free place and starts a transfer. It returns false, and starts nothing, once one has failed.
func (t *transfers) begin(ctx context.Context, do func(context.Context) error) bool {
	t.slots <- struct{}{}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		<-t.slots
		return false
	}
	n := t.next
	t.next++
	ctx, cancel := context.WithCancel(ctx)
	t.running[n] = cancel
	t.wg.Go(func() {
		err := do(ctx)
		cancel()
		t.end(n, err)
		<-t.slots
	})
	return true
}

// end notes how a transfer ended. Those that were begun before one that failed go on: one of them may fail too, and is then
// the first.
func (t *transfers) end(n int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, n)
	if err == nil || t.err != nil && t.failed < n {
		return
	}
	t.err, t.failed = err, n
	for other, cancel := range t.running {
		if other > n {
			cancel()
		}
	}
}

// wait returns once all transfers have ended.
func (t *transfers) wait() error {
	t.wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// meter counts what is copied.
type meter struct{ files, bytes atomic.Int64 }

// add counts files and bytes.
func (m *meter) add(files, bytes int64) {
	m.files.Add(files)
	m.bytes.Add(bytes)
}

// count returns r, with what is read from it counted.
func (m *meter) count(r io.Reader) io.Reader { return &meteredReader{r, m} }

type meteredReader struct {
	io.Reader
	m *meter
}

// Read reads and counts.
func (r *meteredReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.m.bytes.Add(int64(n))
	return n, err
}

// countAt returns r, with what is read from it for the first time counted.
func (m *meter) countAt(r io.ReaderAt) io.ReaderAt { return &meteredReaderAt{r: r, m: m} }

type meteredReaderAt struct {
	r    io.ReaderAt
	m    *meter
	mu   sync.Mutex
	upTo int64
}

// ReadAt reads and counts.
func (r *meteredReaderAt) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.r.ReadAt(p, off)
	r.mu.Lock()
	defer r.mu.Unlock()
	if end := off + int64(n); end > r.upTo {
		r.m.bytes.Add(end - r.upTo)
		r.upTo = end
	}
	return n, err
}

// String says what was copied so far.
func (m *meter) String() string {
	if m.files.Load() == 0 { // of what goes from one sandbox to another only the bytes are seen
		return bytesText(m.bytes.Load())
	}
	return fmt.Sprintf("%d files, %s", m.files.Load(), bytesText(m.bytes.Load()))
}

// meterStep is how often a terminal is told how far a copy is; a copy that is faster shows nothing.
const meterStep = 250 * time.Millisecond

// show tells a terminal how far the copy is until the returned function is called, which takes the line away. A log is told
// nothing: a script sees the end.
func (m *meter) show(p *progress) (stop func()) {
	if !p.terminal {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer p.clear()
		tick := time.NewTicker(meterStep)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.show("copying:", m.String())
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}
