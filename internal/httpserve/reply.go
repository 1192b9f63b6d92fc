package httpserve

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// replyTimeout is how long a client may take to read a whole reply. Replies that go on, and files, have a deadline for each
// of their writes instead.
const replyTimeout = time.Minute

// Reply is a ResponseWriter that remembers what was sent.
type Reply struct {
	http.ResponseWriter
	// Status is what was sent; zero if nothing was.
	Status int
	// Bytes is how much of the body was sent.
	Bytes int64

	limits deadlines
}

// NewReply begins a reply. What the last one on the same connection was given has passed, or will while this one is made.
func NewReply(w http.ResponseWriter) *Reply {
	r := &Reply{ResponseWriter: w}
	r.mayWrite(0)
	return r
}

// WriteHeader sends the status.
func (w *Reply) WriteHeader(status int) {
	if w.Status == 0 || w.Status < http.StatusOK {
		w.Status = status
	}
	if status >= http.StatusOK {
		// A reply that nobody reads must not be kept for ever.
		w.mayWrite(replyTimeout)
	}
	w.ResponseWriter.WriteHeader(status)
}

// mayWrite gives the client so long to read what is written from now on; zero is for ever. A connection whose deadline can't be
// set is closed already, which the write will tell.
func (w *Reply) mayWrite(d time.Duration) {
	_ = Extend(w.SetWriteDeadline, d)
}

// Write sends part of the body.
func (w *Reply) Write(p []byte) (int, error) {
	if w.Status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(p)
	w.Bytes += int64(n)
	return n, err
}

// Hijack gives the connection to who takes it over, and no longer touches it.
func (w *Reply) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.done()
	}
	return conn, rw, err //nolint:wrapcheck // It stands for the other.
}

// Unwrap lets http.ResponseController and the WebSocket library reach the connection.
func (w *Reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush sends what is buffered. Libraries that stream ask the writer itself whether it can.
func (w *Reply) Flush() {
	if w.Status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush() // a client that is gone is told by the next write
}

// Sent reports whether a status has been sent.
func Sent(w http.ResponseWriter) bool {
	r, ok := w.(*Reply)
	return ok && r.Status != 0
}

// Extend gives the client until d from now for the next read or write, by one of ResponseController's methods; d of zero takes the
// deadline away.
func Extend(set func(time.Time) error, d time.Duration) error {
	var at time.Time
	if d != 0 {
		at = time.Now().Add(d)
	}
	if err := set(at); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("set deadline: %w", err)
	}
	return nil
}
