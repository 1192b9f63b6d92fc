package httpserve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"shoal/internal/core"
)

// lastWords is how long a request that is ended from outside has to tell its client so.
const lastWords = 500 * time.Millisecond

// Tether lets a request be ended from outside while it is answered, such as when the key that it was let in by is deleted: its context
// ends with the cause, reads of its body fail, and what is written must be gone within lastWords.
type Tether struct {
	cancel context.CancelCauseFunc
	reply  *Reply

	mu    sync.Mutex
	cause *core.Error
}

// NewTether returns a request that can be ended, and its tether. Release must be called before the request's handler returns.
func NewTether(r *http.Request, w *Reply) (*http.Request, *Tether) {
	ctx, cancel := context.WithCancelCause(r.Context())
	r = r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		w.limits.unread.Store(true)
		r.Body = &coming{r.Body, &w.limits.unread}
	}
	return r, &Tether{cancel: cancel, reply: w}
}

// coming is a body that tells when all of it was read.
type coming struct {
	io.ReadCloser
	unread *atomic.Bool
}

// Read reads the next part.
func (c *coming) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		c.unread.Store(false)
	}
	return n, err //nolint:wrapcheck // It stands for the other.
}

// End ends the request, the first time. It doesn't wait for it.
func (t *Tether) End(cause error) {
	e, ok := cause.(*core.Error) //nolint:errorlint // What ends a request is made for its caller to see.
	if !ok {
		e = core.Wrap(core.CodeCanceled, cause, "the call was ended")
	}
	t.mu.Lock()
	first := t.cause == nil
	if first {
		t.cause = e
	}
	t.mu.Unlock()
	if first {
		t.cancel(e)
		t.reply.cut()
	}
}

// Cause is why the request was ended; nil if it was not.
func (t *Tether) Cause() *core.Error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cause
}

// Release says that the request has been answered.
func (t *Tether) Release() {
	t.reply.done()
	t.cancel(nil)
}

// deadlines are those of a reply's connection, which can be cut short.
type deadlines struct {
	// unread says that more may be read of the request's body. Afterwards net/http itself reads ahead, and would end the contexts of
	// all requests of the connection if a deadline passed.
	unread atomic.Bool

	mu sync.Mutex
	// last is the latest that may be written, once it is cut; over says that it is somebody else's by now.
	last time.Time
	over bool
}

// SetReadDeadline is for http.ResponseController.
func (w *Reply) SetReadDeadline(t time.Time) error {
	w.limits.mu.Lock()
	defer w.limits.mu.Unlock()
	if !w.limits.last.IsZero() && w.limits.unread.Load() {
		t = w.limits.last.Add(-lastWords)
	}
	return http.NewResponseController(w.ResponseWriter).SetReadDeadline(t) //nolint:wrapcheck // It stands for the other.
}

// SetWriteDeadline is for http.ResponseController.
func (w *Reply) SetWriteDeadline(t time.Time) error {
	w.limits.mu.Lock()
	defer w.limits.mu.Unlock()
	if last := w.limits.last; !last.IsZero() && (t.IsZero() || t.After(last)) {
		t = last
	}
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(t) //nolint:wrapcheck // It stands for the other.
}

// cut ends reads now and writes soon, whatever deadlines are set from now on. A connection that was taken over is not touched: its owner
// looks at the request's context.
func (w *Reply) cut() {
	w.limits.mu.Lock()
	defer w.limits.mu.Unlock()
	if w.limits.over {
		return
	}
	now := time.Now()
	w.limits.last = now.Add(lastWords)
	rc := http.NewResponseController(w.ResponseWriter)
	if w.limits.unread.Load() {
		_ = rc.SetReadDeadline(now) // a connection whose deadline can't be set is closed already
	}
	_ = rc.SetWriteDeadline(w.limits.last)
}

// done says that the reply is whole.
func (w *Reply) done() {
	w.limits.mu.Lock()
	defer w.limits.mu.Unlock()
	w.limits.over = true
}
