package httpserve

import (
	"net/http"
	"sync"
	"time"
)

// handlers counts the requests that are being answered: http.Server.Close gives up their connections and doesn't wait for them.
type handlers struct {
	next http.Handler

	mu      sync.Mutex
	running int
	// closed says that no more begin; none is closed when the last one has ended.
	closed bool
	none   chan struct{}
}

func newHandlers(next http.Handler) *handlers {
	return &handlers{next: next, none: make(chan struct{})}
}

// ServeHTTP passes a request on.
func (h *handlers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.begin() {
		panic(http.ErrAbortHandler) // Its connection is being closed.
	}
	defer h.end()
	h.next.ServeHTTP(w, r)
}

func (h *handlers) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.running++
	}
	return !h.closed
}

func (h *handlers) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running--; h.closed && h.running == 0 {
		close(h.none)
	}
}

// wait lets no more begin, and waits until none runs, but not for longer than most. It is called once.
func (h *handlers) wait(most time.Duration) {
	h.mu.Lock()
	if h.closed = true; h.running == 0 {
		close(h.none)
	}
	h.mu.Unlock()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-h.none:
	case <-late.C:
	}
}
